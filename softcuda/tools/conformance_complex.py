"""Checks of complex numbers: expressions, operations with Conjugate, functions, refusals.

Everything is compared with complex128.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from softcuda import functions
from softcuda.dtype import ComputeType, DType, bool_, complex64, complex128, f32, f64, real_dtype
from softcuda.errors import DTypeError
from softcuda.named import (
    BinaryOp,
    OperationDescriptor,
    ReductionOp,
    UnaryOp,
    einsum,
    einsum_with_options,
)
from softcuda.named import reduce as reduce_labels
from softcuda.tools.conformance_bench import Bench, Check, dense, operand
from softcuda.tools.conformance_expressions import RULES, Case, pattern
from softcuda.tools.conformance_oracle import contract
from softcuda.tools.conformance_random import laid_out, random_expression
from softcuda.tools.conformance_values import compared
from softcuda.tools.tolerance import difference

__all__ = ["complex_checks"]

Array = np.ndarray[Any, Any]
Run = Callable[[DType, Bench], str]

_DTYPES: Final = (complex128, complex64)
_FUNCTIONS: Final = (
    *("negative", "square", "abs", "conj", "real", "imag", "angle", "sign", "reciprocal"),
    *("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
)


def complex_checks(count: int) -> Iterator[Check]:
    """Yield the checks: expressions in complex128 and complex64 by turns, all others in both.

    Args:
        count: how many random expressions; their seeds are 0 to count - 1.
    """
    expressions: dict[str, Run] = {
        **{f"einsum {n}, {case.expression!r}": _known(case) for n, case in enumerate(RULES)},
        **{f"random_expression({seed})": _random(seed) for seed in range(count)},
    }
    for number, (name, run) in enumerate(expressions.items()):
        dtype = _DTYPES[number % 2]
        yield Check(f"{name} {dtype}", partial(run, dtype))
    runs: dict[str, Run] = {
        **{f"function {name}": _function(name) for name in _FUNCTIONS},
        "contraction with Conjugate, alpha and beta": _contraction,
        "a real operand in a contraction": _mixed,
        "permutation with Conjugate": _permutation,
        "elementwise with Conjugate": _elementwise,
        "elementwise of three operands": _trinary,
        "reductions": _reductions,
        "refusals": _refusals,
    }
    for name, run in runs.items():
        for dtype in _DTYPES:
            yield Check(f"{name} {dtype}", partial(run, dtype))


def numbers(shape: tuple[int, ...], dtype: DType, shift: int = 0) -> Array:
    """Return complex quarters whose parts differ."""
    values = pattern(shape, shift) + 1j * pattern(shape, shift + 1)
    return np.asarray(values).astype(dtype.numpy)


def _known(case: Case) -> Run:
    def run(dtype: DType, bench: Bench) -> str:
        shapes = [np.shape(x) for x in case.operands]
        operands = [numbers(shape, dtype, shift) for shift, shape in enumerate(shapes)]
        return compared(bench, case.expression, operands, dtype)

    return run


def _random(seed: int) -> Run:
    def run(dtype: DType, bench: Bench) -> str:
        case = random_expression(seed)
        rng = np.random.default_rng([seed, 4])
        operands = [laid_out(numbers(s, dtype, k), rng) for k, s in enumerate(case.shapes)]
        return compared(bench, case.text, operands, dtype)

    return run


def _function(name: str) -> Run:
    def run(dtype: DType, bench: Bench) -> str:
        x = numbers((5, 7), dtype) + dtype.numpy.type(0.125 + 0.0625j)
        expected = getattr(np, name)(x.astype(np.complex128))
        found = bench.value(getattr(functions, name)(bench.place(x)))
        target = dtype if expected.dtype.kind == "c" else real_dtype(dtype)
        op = "hypot" if name == "abs" else name  # not exact, as it is of real numbers
        return difference(found, expected, target, op, scale=np.abs(expected) + 1)

    return run


def _contraction(dtype: DType, bench: Bench) -> str:
    a, b, c = numbers((3, 4), dtype), numbers((4, 5), dtype, 2), numbers((3, 1), dtype, 3)
    made = OperationDescriptor.contraction(
        operand(a, "ik").with_unary(UnaryOp.Conjugate),
        operand(b, "kj"),
        operand(c, "ij").with_unary(UnaryOp.Conjugate),
        dense((3, 5), dtype),
        "ij",
    )
    found = bench.plan(made).execute([bench.place(x) for x in (a, b, c)], [2j, 0.5 - 1j]).numpy()
    wide = [x.astype(np.complex128) for x in (a, b, c)]
    product = contract(["ik", "kj"], "ij", [wide[0].conj(), wide[1]])
    expected = 2j * product + (0.5 - 1j) * wide[2].conj()
    return difference(found, expected, dtype, "matmul", k_extent=8, scale=16.0)


def _mixed(dtype: DType, bench: Bench) -> str:
    a, b = pattern((3, 4)).astype(real_dtype(dtype).numpy), numbers((4, 5), dtype)
    lazy = bench.value(einsum("ik,kj->ij", bench.place(a), bench.place(b)))
    expected = contract(["ik", "kj"], "ij", [a, b])
    wrong = difference(lazy, expected, dtype, "matmul", k_extent=4, scale=8.0)
    absolute = OperationDescriptor.contraction(
        operand(b, "kj").with_unary(UnaryOp.Abs),
        operand(a, "ik"),
        None,
        dense((3, 5), real_dtype(dtype)),
        "ij",
    )
    found = bench.plan(absolute).execute([bench.place(b), bench.place(a)], [1]).numpy()
    expected = contract(["ik", "kj"], "ij", [a, np.abs(b.astype(np.complex128))])
    return wrong or difference(found, expected, real_dtype(dtype), "matmul", k_extent=8, scale=8.0)


def _permutation(dtype: DType, bench: Bench) -> str:
    a = numbers((3, 4), dtype)
    made = OperationDescriptor.permutation(
        operand(a, "ij").with_unary(UnaryOp.Conjugate), dense((4, 3), dtype), "ji"
    )
    found = bench.plan(made).execute([bench.place(a)], [1j]).numpy()
    return difference(found, 1j * a.astype(np.complex128).conj().T, dtype, "mul")


def _elementwise(dtype: DType, bench: Bench) -> str:
    a, b = numbers((3, 4), dtype), numbers((4,), dtype, 2)
    made = OperationDescriptor.elementwise_binary(
        operand(a, "ij").with_unary(UnaryOp.Conjugate),
        operand(b, "j"),
        dense((3, 4), dtype),
        "ij",
        BinaryOp.Mul,
    )
    found = bench.plan(made).execute([bench.place(a), bench.place(b)], [2, 1j]).numpy()
    expected = 2 * a.astype(np.complex128).conj() * 1j * b
    return difference(found, expected, dtype, "mul", scale=8.0)


def _trinary(dtype: DType, bench: Bench) -> str:
    a, b, c = numbers((3, 4), dtype), numbers((4,), dtype, 2), numbers((4, 3), dtype, 3)
    made = OperationDescriptor.elementwise_trinary(
        operand(a, "ij"),
        operand(b, "j").with_unary(UnaryOp.Conjugate),
        operand(c, "ji"),
        dense((3, 4), dtype),
        "ij",
        BinaryOp.Add,
        BinaryOp.Mul,
    )
    placed = [bench.place(x) for x in (a, b, c)]
    found = bench.plan(made).execute(placed, [2, 1j, 0.5 - 1j]).numpy()
    wide = [x.astype(np.complex128) for x in (a, b, c)]
    expected = (2 * wide[0] + 1j * wide[1].conj()) * ((0.5 - 1j) * wide[2].T)
    return difference(found, expected, dtype, "mul", scale=64.0)


def _reductions(dtype: DType, bench: Bench) -> str:
    x = numbers((4, 6), dtype)
    wide = x.astype(np.complex128)
    expected: dict[ReductionOp, Any] = {
        ReductionOp.Sum: wide.sum(1),
        ReductionOp.Product: wide.prod(1),
        ReductionOp.Mean: wide.mean(1),
        ReductionOp.Norm1: np.abs(wide).sum(1),
        ReductionOp.Norm2: np.sqrt((np.abs(wide) ** 2).sum(1)),
        ReductionOp.Any: np.any(wide, 1),
        ReductionOp.All: np.all(wide, 1),
    }
    for op, value in expected.items():
        found = bench.value(reduce_labels(bench.place(x), "ij", "i", op))
        target = {"c": dtype, "b": bool_}.get(value.dtype.kind, real_dtype(dtype))
        wrong = difference(found, value, target, "sum", k_extent=6, scale=16.0)
        if wrong:
            return f"{op}: {wrong}"
    return ""


def _refusals(dtype: DType, bench: Bench) -> str:
    x = bench.place(numbers((3, 3), dtype))
    narrow = ComputeType.F32 if real_dtype(dtype) is f64 else ComputeType.TF32
    refused: dict[str, Callable[[], Any]] = {
        "Max": lambda: reduce_labels(x, "ij", "i", ReductionOp.Max),
        "a real result": lambda: einsum_with_options("ij,jk->ik", x, x, output_dtype=f32),
        "less precision": lambda: einsum_with_options("ij,jk->ik", x, x, compute=narrow),
    }
    for what, make in refused.items():
        try:
            make()
        except DTypeError as error:
            if "complex" not in str(error):
                return f"{what}: the refusal names no dtype: {error}"
            continue
        return f"{what} is not refused"
    return ""
