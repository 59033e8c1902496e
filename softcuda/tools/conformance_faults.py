"""Checks of refusals: each fault has its own error, which names what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from softcuda.dtype import ComputeType, f32, f64
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExpressionError,
    ShapeError,
    SoftCudaError,
)
from softcuda.named import (
    BinaryOp,
    OperationDescriptor,
    ReductionOp,
    TensorDescriptor,
    einsum,
    einsum_with_options,
)
from softcuda.tools.conformance_bench import Bench, Check, dense, operand

__all__ = ["fault_checks"]

Array = np.ndarray[Any, Any]

A, B = np.ones((2, 3)), np.ones((3, 2))


class Fault(NamedTuple):
    """An expression on ones that must be refused.

    Attributes:
        expression: the expression.
        shapes: of the operands.
        error: the class of the refusal.
        words: what its message holds.
    """

    expression: str
    shapes: Sequence[tuple[int, ...]]
    error: type[SoftCudaError]
    words: str


EXPRESSIONS = (
    Fault("i,i->i", [(3,), (0,)], ShapeError, "label i has extent 3 in operand 0"),
    Fault("ik,kj->ij", [(2, 3), (2, 3)], ShapeError, "label k has extent 3 in operand 0"),
    Fault("iij->j", [(2, 3, 4)], ShapeError, "a repeated label needs equal extents"),
    Fault("ii->i", [(1, 3)], ShapeError, "a repeated label needs equal extents"),
    Fault("ii->", [(3, 1)], ShapeError, "label i in operand 0 [3, 1]: extents 3 and 1"),
    Fault("ij->ii", [(2, 3)], ExpressionError, "output labels must be unique"),
    Fault("i->ii", [(2,)], ExpressionError, "output labels must be unique"),
    Fault("ij->ik", [(2, 3)], ExpressionError, "output label k is in no input"),
    Fault("ij->i->j", [(2, 3)], ExpressionError, "a second arrow"),
    Fault("i1->i", [(2,)], ExpressionError, "'1', which is no letter"),
    Fault("i-j->i", [(2,)], ExpressionError, "a '-' without '>'"),
    Fault("i......j", [(2, 3)], ExpressionError, "a second ellipsis"),
    Fault("i.j->i", [(2, 3)], ExpressionError, "a lone dot"),
    Fault("i#->i", [(2,)], ExpressionError, "'#', which is no letter"),
    Fault("ij,jk", [(2, 3)], ExpressionError, "2 inputs expected, 1 given"),
    Fault("ij", [(2, 3), (2, 3)], ExpressionError, "1 input expected, 2 given"),
    Fault("ijk->i", [(2, 3)], ExpressionError, "do not match its rank"),
    Fault("ij...->i", [(2,)], ExpressionError, "do not match its rank"),
)


def fault_checks() -> Iterator[Check]:
    """Yield what must be refused: expressions, descriptors, what a plan is given."""
    for fault in EXPRESSIONS:
        yield Check(f"refuses {fault.expression!r} {list(fault.shapes)}", _Expression(fault))
    for name, (error, words, act) in _FAULTS.items():
        yield Check(f"refuses {name}", _Refusal(error, words, act))


def refusal(error: type[SoftCudaError], words: str, act: Callable[[], Any]) -> str:
    """Return what is wrong where an act is not refused as it should be; "" where it is."""
    try:
        act()
    except SoftCudaError as found:
        if isinstance(found, error) and words in str(found):
            return ""
        return f"{type(found).__name__} {found}; expected is {error.__name__} with {words!r}"
    return f"nothing was refused; expected is {error.__name__} with {words!r}"


class _Expression:
    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def __call__(self, bench: Bench) -> str:
        fault = self._fault
        arrays = [np.ones(shape) for shape in fault.shapes]
        return refusal(
            fault.error, fault.words, lambda: einsum(fault.expression, *arrays)
        ) or refusal(fault.error, fault.words, lambda: bench.einsum_plan(fault.expression, arrays))


class _Refusal:
    def __init__(self, error: type[SoftCudaError], words: str, act: Callable[[Bench], Any]) -> None:
        self._error = error
        self._words = words
        self._act = act

    def __call__(self, bench: Bench) -> str:
        return refusal(self._error, self._words, lambda: self._act(bench))


def _with_c(bench: Bench) -> Any:
    c = operand(np.ones((2, 2)), "ij")
    return bench.plan(
        OperationDescriptor.contraction(
            operand(A, "ik"), operand(B, "kj"), c, dense((2, 2), f64), "ij"
        )
    )


def _run(bench: Bench, arrays: Sequence[Array], scalars: Sequence[Any]) -> Any:
    return _with_c(bench).execute([bench.place(array) for array in arrays], scalars)


def _contraction(out: TensorDescriptor, modes: str, c: Any = None) -> OperationDescriptor:
    return OperationDescriptor.contraction(operand(A, "ik"), operand(B, "kj"), c, out, modes)


_C = np.ones((2, 2))
_OK = (A, B, _C)
_LAYOUTS = {
    ((2, 3), (3, 1)): False,
    ((2, 3), (1, 2)): False,
    ((2, 3), (4, 1)): False,
    ((1, 3), (0, 1)): False,
    ((0, 3), (0, 0)): False,
    ((2, 3), (0, 1)): True,
    ((2, 2), (1, 1)): True,
    ((2, 3), (2, 1)): True,
    ((2, 3), (3, 2)): False,
    ((3, 2), (2, 3)): False,
}


def _layouts(bench: Bench) -> None:
    """Make a permutation into each layout, and refuse by an error of its own what is wrong."""
    for (extents, strides), overlaps in _LAYOUTS.items():
        a = operand(np.ones(extents), "ij")
        out = TensorDescriptor(extents, strides, f64)
        wrong = refusal(
            ArgumentError,
            "overlaps itself",
            lambda a=a, out=out: OperationDescriptor.permutation(a, out, "ij"),  # type: ignore[misc]
        )
        if bool(wrong) is overlaps:
            raise DTypeError(f"{extents} with strides {strides}: {wrong or 'refused'}")
    raise ArgumentError("every layout was judged right")


# what -> the error, words of its message, and the act that must be refused
_FAULTS: dict[str, tuple[type[SoftCudaError], str, Callable[[Bench], Any]]] = {
    "two inputs for three": (
        ArgumentError,
        "3 inputs expected, 2 given",
        lambda bench: _run(bench, (A, B), [1, 1]),
    ),
    "too few inputs before too few scalars": (
        ArgumentError,
        "3 inputs expected, 2 given",
        lambda bench: _run(bench, (A, B), [1]),
    ),
    "one scalar for two": (
        ArgumentError,
        "2 scalars expected, 1 given",
        lambda bench: _run(bench, _OK, [1]),
    ),
    "scalars before shapes": (
        ArgumentError,
        "2 scalars expected, 3 given",
        lambda bench: _run(bench, (A.T, B, _C), [1, 1, 1]),
    ),
    "an input of another shape": (
        ShapeError,
        "input 0 has shape [3, 2]",
        lambda bench: _run(bench, (B, B, _C), [1, 1]),
    ),
    "an input of other strides": (
        ArgumentError,
        "input 1 has strides [1, 3]",
        lambda bench: _run(bench, (A, np.asfortranarray(B), _C), [1, 1]),
    ),
    "an input of another dtype": (
        DTypeError,
        "input 2 has dtype float32",
        lambda bench: _run(bench, (A, B, _C.astype(np.float32)), [1, 1]),
    ),
    "the first of two wrong inputs": (
        ShapeError,
        "input 0 has shape",
        lambda bench: _run(bench, (B, A, _C), [1, 1]),
    ),
    "a scalar that is no number": (
        ArgumentTypeError,
        "alpha is 'x'",
        lambda bench: _run(bench, _OK, ["x", 1]),
    ),
    "an output extent that would discard values": (
        ShapeError,
        "would discard values",
        lambda bench: _contraction(dense((1, 2), f64), "ij"),
    ),
    "a label of C that is not in the output": (
        ArgumentError,
        "label k of operand 2, which is added",
        lambda bench: _contraction(dense((2, 2), f64), "ij", operand(np.ones(3), "k")),
    ),
    "a repeated output label": (
        ArgumentError,
        "output labels must be unique",
        lambda bench: _contraction(dense((2, 2), f64), "ii"),
    ),
    "an elementwise operation that discards a label": (
        ArgumentError,
        "may not discard a label",
        lambda bench: OperationDescriptor.elementwise_binary(
            operand(A, "ij"), operand(A, "ij"), dense((2,), f64), "i", BinaryOp.Add
        ),
    ),
    "a permutation of a diagonal": (
        ArgumentError,
        "takes no diagonal",
        lambda bench: OperationDescriptor.permutation(operand(_C, "ii"), dense((2,), f64), "i"),
    ),
    "a permutation that discards a label": (
        ArgumentError,
        "may not discard a label",
        lambda bench: OperationDescriptor.permutation(operand(A, "ij"), dense((2,), f64), "i"),
    ),
    "an f64 operand with compute F32": (
        DTypeError,
        "an operand is f64",
        lambda bench: einsum_with_options("ij,jk", A, B, compute=ComputeType.F32),
    ),
    "a float result as integers": (
        DTypeError,
        "allowed are floats",
        lambda bench: einsum_with_options("ij,jk", A, B, output_dtype="i32"),
    ),
    "an empty ArgMax": (
        ShapeError,
        "argmax",
        lambda bench: bench.plan(
            OperationDescriptor.reduction(
                operand(np.ones((2, 0), np.float32), "ij"),
                None,
                dense((2,), f32),
                "i",
                ReductionOp.ArgMax,
            )
        ),
    ),
    "layouts that overlap themselves, and no others": (
        ArgumentError,
        "every layout was judged right",
        _layouts,
    ),
}
