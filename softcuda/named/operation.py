"""An operation on named axes as data: what is computed from which operands, checked when made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from softcuda.contraction.equation import Equation, equation_of, label_extents
from softcuda.contraction.rules import check_addend, check_keeps_labels, check_permutation
from softcuda.dtype import ComputeType, DType
from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.graph.params import Dims
from softcuda.named.arithmetic import arithmetic_of, common_dtype
from softcuda.named.checks import check_layout
from softcuda.named.descriptors import Modes, OperandDescriptor, TensorDescriptor, checked_modes
from softcuda.named.operators import BinaryOp, ReductionOp
from softcuda.named.results import factor_dtype

__all__ = ["Form", "OperationDescriptor"]


_ADDED: Final = " + beta * op(C)"  # left out of the formula where there is no C


class Form(Enum):
    """The formula of an operation; D is the result, C an operand that is added."""

    SUM_PRODUCT = "D = alpha * sum op(A0) op(A1) .. + beta * op(C)"
    EINSUM = "D = sum A0 A1 .."
    REDUCTION = "D = alpha * reduce(op(A)) + beta * op(C)"
    PERMUTATION = "D = alpha * op(A)"
    BINARY = "D = f(alpha * op(A), beta * op(B))"
    TRINARY = "D = g(f(alpha * op(A), beta * op(B)), gamma * op(C))"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class OperationDescriptor:
    """An operation: made by the functions below, which check it; data from then on.

    Attributes:
        form: its formula.
        operands: in the order in which a plan takes them; C, if there is one, last.
        has_addend: whether the last operand is C of a contraction or reduction.
        out: extents, strides and dtype of the result.
        equation: labels of the operands and of the result, as small ints, and their names.
        functions: f and g of an elementwise operation; what a reduction reduces by.
        compute: the compute type that was asked for; None as `arithmetic_of` says.
    """

    form: Form
    operands: tuple[OperandDescriptor, ...]
    has_addend: bool
    out: TensorDescriptor
    equation: Equation
    functions: tuple[BinaryOp | ReductionOp, ...] = ()
    compute: ComputeType | None = None

    @classmethod
    def contraction(
        cls,
        a: OperandDescriptor,
        b: OperandDescriptor,
        c: OperandDescriptor | None,
        out: TensorDescriptor,
        out_modes: Modes,
        compute: ComputeType | None = None,
    ) -> OperationDescriptor:
        """Return D[out] = alpha * sum op(A) op(B) + beta * op(C).

        Args:
            a: operand 0.
            b: operand 1.
            c: what is added, with labels of the result only; None for nothing.
            out: of the result; its extents may stretch labels that have extent 1 in all operands,
                and may be of labels that no operand has.
            out_modes: labels of the result.
            compute: the compute type; None for F64 where an operand is f64, else F32.

        Raises:
            ArgumentError: labels that do not fit, or a result that overlaps itself.
            ShapeError: extents that do not fit.
            DTypeError: dtypes that the compute type does not take.
        """
        return cls.sum_product((a, b), c, out, out_modes, compute)

    @classmethod
    def sum_product(
        cls,
        operands: Sequence[OperandDescriptor],
        c: OperandDescriptor | None,
        out: TensorDescriptor,
        out_modes: Modes,
        compute: ComputeType | None = None,
    ) -> OperationDescriptor:
        """Return D[out] = alpha * sum of a product of any number of op(A_i) + beta * op(C).

        Args:
            operands: one or more.
            c: as in `contraction`.
            out: as in `contraction`.
            out_modes: labels of the result.
            compute: as in `contraction`.

        Raises:
            ArgumentError: no operands, or as in `contraction`.
            ShapeError, DTypeError: as in `contraction`.
        """
        if not operands:
            raise ArgumentError("sum_product: there are no operands; allowed are one or more")
        given = (*operands, *(() if c is None else (c,)))
        dtypes = [factor_dtype(_dtype(x), x.unary) for x in given]
        arithmetic_of("contraction", dtypes, compute, _checked_out(out).dtype)
        return _made(Form.SUM_PRODUCT, given, c is not None, out, out_modes, (), compute)

    @classmethod
    def reduction(
        cls,
        a: OperandDescriptor,
        c: OperandDescriptor | None,
        out: TensorDescriptor,
        out_modes: Modes,
        op: ReductionOp,
    ) -> OperationDescriptor:
        """Return D[out] = alpha * reduce(op(A)) + beta * op(C), over the labels that out lacks.

        One that drops no label joins single elements. Of nothing it gives the identity of `op`.

        Args:
            a: what is reduced.
            c: as in `contraction`.
            out: as in `contraction`.
            out_modes: labels of the result.
            op: what joins elements.

        Raises:
            ArgumentTypeError: `op` is no ReductionOp.
            ArgumentError: labels that do not fit, or a result that overlaps itself.
            ShapeError: extents that do not fit.
        """
        _check_member("reduction", op, ReductionOp)
        given = (a, *(() if c is None else (c,)))
        return _made(Form.REDUCTION, given, c is not None, out, out_modes, (op,))

    @classmethod
    def permutation(
        cls, a: OperandDescriptor, out: TensorDescriptor, out_modes: Modes
    ) -> OperationDescriptor:
        """Return D[out] = alpha * op(A), each label of A once in out.

        Raises:
            ArgumentError, ShapeError: as in `contraction`; a label repeated, discarded or new.
        """
        made = _made(Form.PERMUTATION, (a,), False, out, out_modes, ())
        check_permutation(made.equation)
        return made

    @classmethod
    def elementwise_binary(
        cls,
        a: OperandDescriptor,
        b: OperandDescriptor,
        out: TensorDescriptor,
        out_modes: Modes,
        op: BinaryOp,
    ) -> OperationDescriptor:
        """Return D[out] = op(alpha * op(A), beta * op(B)).

        Raises:
            ArgumentTypeError: `op` is no BinaryOp.
            ArgumentError: a label of an operand is not in out; a result that overlaps itself.
            ShapeError: extents that do not fit.
        """
        _check_member("elementwise_binary", op, BinaryOp)
        made = _made(Form.BINARY, (a, b), False, out, out_modes, (op,))
        check_keeps_labels(made.equation, "an elementwise operation")
        return made

    @classmethod
    def elementwise_trinary(
        cls,
        a: OperandDescriptor,
        b: OperandDescriptor,
        c: OperandDescriptor,
        out: TensorDescriptor,
        out_modes: Modes,
        op_ab: BinaryOp,
        op_abc: BinaryOp,
    ) -> OperationDescriptor:
        """Return D[out] = op_abc(op_ab(alpha * op(A), beta * op(B)), gamma * op(C)).

        Raises:
            ArgumentTypeError, ArgumentError, ShapeError: as in `elementwise_binary`.
        """
        _check_member("elementwise_trinary", op_ab, BinaryOp)
        _check_member("elementwise_trinary", op_abc, BinaryOp)
        made = _made(Form.TRINARY, (a, b, c), False, out, out_modes, (op_ab, op_abc))
        check_keeps_labels(made.equation, "an elementwise operation")
        return made

    @property
    def scalar_count(self) -> int:
        """How many scalars a plan takes: alpha; beta with C or B; gamma."""
        counts = {Form.EINSUM: 0, Form.BINARY: 2, Form.TRINARY: 3}
        return counts.get(self.form, 1 + self.has_addend)

    @property
    def c_number(self) -> int | None:
        """The number of the operand that the formula calls C; None where there is none.

        It may be the output itself.
        """
        has_c = self.has_addend or self.form is Form.TRINARY
        return len(self.operands) - 1 if has_c else None

    @property
    def common_dtype(self) -> DType:
        """The dtype that the operands promote to."""
        return common_dtype([_dtype(operand) for operand in self.operands])

    @property
    def extents(self) -> Dims:
        """Extent of each label."""
        shapes = [operand.tensor_descriptor.extents for operand in self.operands]
        return label_extents(self.equation, shapes, self.out.extents)

    def __str__(self) -> str:
        shown = []
        for operand in self.operands:
            inner = str(operand.tensor_descriptor)
            name = operand.unary.name
            shown.append(inner if name == "Identity" else f"{name}({inner})")
        by = "".join(f", {function.name}" for function in self.functions)
        kind = "" if self.compute is None else f", compute {self.compute}"
        formula = str(self.form) if self.c_number else str(self.form).removesuffix(_ADDED)
        return f"{formula}: {self.equation}{by}{kind}\n{', '.join(shown)} -> {self.out}"


def _made(
    form: Form,
    operands: tuple[OperandDescriptor, ...],
    has_addend: bool,
    out: TensorDescriptor,
    out_modes: Modes,
    functions: tuple[Any, ...],
    compute: ComputeType | None = None,
) -> OperationDescriptor:
    """Return an operation after the checks that all of them share."""
    modes = checked_modes("OperationDescriptor", out_modes)
    for operand in operands:
        _dtype(operand)
    equation = equation_of([operand.modes for operand in operands], modes)
    made = OperationDescriptor(
        form, operands, has_addend, _checked_out(out), equation, functions, compute
    )
    if has_addend:
        check_addend(equation, len(operands) - 1)
    _ = made.extents  # refuses extents that do not fit
    check_layout("descriptor error", out.extents, out.strides)
    return made


def _dtype(operand: OperandDescriptor) -> DType:
    if not isinstance(operand, OperandDescriptor):
        raise ArgumentTypeError(
            f"OperationDescriptor: an operand is {operand!r}; allowed are OperandDescriptors"
        )
    return operand.tensor_descriptor.dtype


def _checked_out(out: TensorDescriptor) -> TensorDescriptor:
    if not isinstance(out, TensorDescriptor):
        raise ArgumentTypeError(
            f"OperationDescriptor: the output is {out!r}; allowed is a TensorDescriptor"
        )
    return out


def _check_member(what: str, op: Any, members: type[Enum]) -> None:
    if not isinstance(op, members):
        raise ArgumentTypeError(
            f"{what}: the function is {op!r}; allowed are members of {members.__name__}: "
            f"{', '.join(member.name for member in members)}"
        )
