"""Operations on named axes as lazy functions: ordinary nodes of the graph, nothing computed yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softcuda.dtype import ComputeType, DType, as_dtype
from softcuda.functions.operands import TensorLike
from softcuda.named.arithmetic import arithmetic_of
from softcuda.named.descriptors import Modes, checked_modes
from softcuda.named.given import (
    ShapeLike,
    check_addend_given,
    elementwise_result,
    factor_of,
    given_operands,
    make,
    result_layout,
)
from softcuda.named.limits import checked_limit
from softcuda.named.operation import OperationDescriptor
from softcuda.named.operators import BinaryOp, ReductionOp, UnaryOp
from softcuda.named.recipe import PathOptions
from softcuda.named.results import factor_dtype, sum_dtype, unary_dtype
from softcuda.tensor import Tensor

__all__ = ["contract", "elementwise_binary", "elementwise_trinary", "permute", "reduce"]

_ALONE = PathOptions()  # of operations without a path


def contract(
    a: TensorLike,
    a_modes: Modes,
    b: TensorLike,
    b_modes: Modes,
    out_modes: Modes,
    *,
    c: TensorLike | None = None,
    c_modes: Modes = (),
    alpha: TensorLike = 1,
    beta: TensorLike = 1,
    unary: Sequence[UnaryOp] = (),
    out_shape: ShapeLike = None,
    output_dtype: DType | Any = None,
    compute: ComputeType | None = None,
    memory_limit: int | None = None,
) -> Tensor:
    """Return D[out] = alpha * sum op(A[a]) op(B[b]) + beta * op(C[c]).

    Labels that the output lacks are summed. Computed in the compute type, rounded once. Where
    beta is 0 in the compute type, C is not read, so that NaN in it does not matter, and the
    gradient of such a beta is 0; alpha = 0 changes no rule.

    Args:
        a: [one axis a label of a_modes], any dtype.
        a_modes: labels: ints, or a string of letters.
        b: [one axis a label of b_modes], any dtype.
        b_modes: labels.
        out_modes: labels of the result, each once.
        c: [one axis a label of c_modes]; None for nothing.
        c_modes: labels, all of them of the output.
        alpha: a number, or a tensor of rank 0.
        beta: a number, or a tensor of rank 0.
        unary: the functions of A, B and C; those left out are the identity.
        out_shape: extents of the result, where they stretch labels of extent 1 or are of new
            labels; None for those of the operands.
        output_dtype: of the result; None for the common dtype.
        compute: as in `einsum_with_options`.
        memory_limit: as in `einsum`.

    Returns:
        [extents of out_modes], of `output_dtype`.

    Raises:
        ArgumentError: labels, scalars or a limit that are not allowed.
        ShapeError: extents that do not fit.
        DTypeError: dtypes that the compute type or a function does not take.
        ArgumentTypeError: an argument of a type that is not allowed.
    """
    check_addend_given("contract", c, c_modes, beta)
    pairs = [(a, a_modes), (b, b_modes), *([] if c is None else [(c, c_modes)])]
    given = given_operands("contract", pairs, unary)
    factors = [factor_of("contract", "alpha", alpha)]
    factors += [] if c is None else [factor_of("contract", "beta", beta, is_addend=True)]
    wanted = None if output_dtype is None else as_dtype(output_dtype)
    dtypes = [factor_dtype(x.tensor_descriptor.dtype, x.unary) for x in given.descriptors]
    result = arithmetic_of("contract", dtypes, compute, wanted).result
    modes = checked_modes("contract", out_modes)
    out = result_layout("contract", given, modes, out_shape, result)
    x, y, *rest = given.descriptors
    operation = OperationDescriptor.contraction(
        x, y, rest[0] if rest else None, out, modes, compute
    )
    options = PathOptions(memory_limit=checked_limit("contract", memory_limit))
    return make(operation, given, factors, options)


def reduce(
    x: TensorLike,
    in_modes: Modes,
    out_modes: Modes,
    op: ReductionOp = ReductionOp.Sum,
    *,
    c: TensorLike | None = None,
    c_modes: Modes = (),
    alpha: TensorLike = 1,
    beta: TensorLike = 1,
    unary: Sequence[UnaryOp] = (),
    out_shape: ShapeLike = None,
    output_dtype: DType | Any = None,
) -> Tensor:
    """Return D[out] = alpha * (A[in] joined by op) + beta * op(C[c]).

    Joins the elements along the labels that the output lacks. A reduction that drops no label
    joins each element with nothing: a copy, reordered, but of Any, All, Norm1, Norm2, ArgMin and
    ArgMax, and of the dtype of the reduction (i64 for Sum and Product of bools and integers). Of
    nothing it gives the identity of `op`: 0 for Sum, inf for Min.

    Args:
        x: [one axis a label of in_modes], any dtype.
        in_modes: labels; a repeated one takes the diagonal.
        out_modes: labels of the result, each once.
        op: what joins elements; floats in f64 if C is f64.
        c: [one axis a label of c_modes]; None for nothing.
        c_modes: labels, all of them of the output.
        alpha: a number, or a tensor of rank 0.
        beta: a number, or a tensor of rank 0.
        unary: the functions of A and C; those left out are the identity.
        out_shape: as in `contract`.
        output_dtype: of the result; None for that which the reduction of x without labels and C
            promote to.

    Returns:
        [extents of out_modes], of `output_dtype`.

    Raises:
        ArgumentError, ShapeError, DTypeError, ArgumentTypeError: as in `contract`.
        ShapeError: positions (ArgMin, ArgMax) in an empty set of elements.
    """
    check_addend_given("reduce", c, c_modes, beta)
    pairs = [(x, in_modes), *([] if c is None else [(c, c_modes)])]
    given = given_operands("reduce", pairs, unary)
    factors = [factor_of("reduce", "alpha", alpha)]
    factors += [] if c is None else [factor_of("reduce", "beta", beta, is_addend=True)]
    modes = checked_modes("reduce", out_modes)
    first, *rest = given.descriptors
    result = None if output_dtype is None else as_dtype(output_dtype)
    if result is None and isinstance(op, ReductionOp):
        inner = unary_dtype(first.tensor_descriptor.dtype, first.unary, is_scaled=False)
        result = sum_dtype(inner, op, rest[0] if rest else None)
    out = result_layout("reduce", given, modes, out_shape, result or first.tensor_descriptor.dtype)
    operation = OperationDescriptor.reduction(first, rest[0] if rest else None, out, modes, op)
    return make(operation, given, factors, _ALONE)


def permute(
    x: TensorLike,
    in_modes: Modes,
    out_modes: Modes,
    *,
    alpha: TensorLike = 1,
    unary: UnaryOp = UnaryOp.Identity,
    out_shape: ShapeLike = None,
    output_dtype: DType | Any = None,
) -> Tensor:
    """Return D[out] = alpha * op(A[in]), the axes in another order: a new tensor, not a view.

    Args:
        x: [one axis a label of in_modes], any dtype.
        in_modes: labels, each once.
        out_modes: the same labels in another order.
        alpha: a number, or a tensor of rank 0.
        unary: the function of A.
        out_shape: as in `contract`.
        output_dtype: of the result; None for that of op(A).

    Returns:
        [extents of out_modes], of `output_dtype`.

    Raises:
        ArgumentError, ShapeError, DTypeError, ArgumentTypeError: as in `contract`.
    """
    given = given_operands("permute", [(x, in_modes)], (unary,))
    factor = factor_of("permute", "alpha", alpha)
    modes = checked_modes("permute", out_modes)
    [operand] = given.descriptors
    result = elementwise_result(given, [factor], (), output_dtype)
    out = result_layout("permute", given, modes, out_shape, result)
    return make(OperationDescriptor.permutation(operand, out, modes), given, [factor], _ALONE)


def elementwise_binary(
    a: TensorLike,
    a_modes: Modes,
    b: TensorLike,
    b_modes: Modes,
    out_modes: Modes,
    op: BinaryOp,
    *,
    alpha: TensorLike = 1,
    beta: TensorLike = 1,
    unary: Sequence[UnaryOp] = (),
    out_shape: ShapeLike = None,
    output_dtype: DType | Any = None,
) -> Tensor:
    """Return D[out] = op(alpha * op(A[a]), beta * op(B[b])).

    No coefficient is left out: 0 times NaN is NaN. Computed in f32 for 16-bit floats, rounded once.

    Args:
        a: [one axis a label of a_modes], any dtype.
        a_modes: labels; a repeated one takes the diagonal.
        b: [one axis a label of b_modes], any dtype.
        b_modes: labels.
        out_modes: labels of the result: every label of an operand, each once.
        op: what joins the two.
        alpha: a number, or a tensor of rank 0.
        beta: a number, or a tensor of rank 0.
        unary: the functions of A and B; those left out are the identity.
        out_shape: as in `contract`.
        output_dtype: of the result; None for that of `op` without labels.

    Returns:
        [extents of out_modes], of `output_dtype`.

    Raises:
        ArgumentError, ShapeError, DTypeError, ArgumentTypeError: as in `contract`.
    """
    what = "elementwise_binary"
    given = given_operands(what, [(a, a_modes), (b, b_modes)], unary)
    factors = [factor_of(what, "alpha", alpha), factor_of(what, "beta", beta)]
    modes = checked_modes(what, out_modes)
    result = elementwise_result(given, factors, (op,), output_dtype)
    out = result_layout(what, given, modes, out_shape, result)
    x, y = given.descriptors
    operation = OperationDescriptor.elementwise_binary(x, y, out, modes, op)
    return make(operation, given, factors, _ALONE)


def elementwise_trinary(
    a: TensorLike,
    a_modes: Modes,
    b: TensorLike,
    b_modes: Modes,
    c: TensorLike,
    c_modes: Modes,
    out_modes: Modes,
    op_ab: BinaryOp,
    op_abc: BinaryOp,
    *,
    alpha: TensorLike = 1,
    beta: TensorLike = 1,
    gamma: TensorLike = 1,
    unary: Sequence[UnaryOp] = (),
    out_shape: ShapeLike = None,
    output_dtype: DType | Any = None,
) -> Tensor:
    """Return D[out] = op_abc(op_ab(alpha * op(A[a]), beta * op(B[b])), gamma * op(C[c])).

    Args:
        a: [one axis a label of a_modes], any dtype.
        a_modes: labels; a repeated one takes the diagonal.
        b: [one axis a label of b_modes], any dtype.
        b_modes: labels.
        c: [one axis a label of c_modes], any dtype.
        c_modes: labels.
        out_modes: labels of the result: every label of an operand, each once.
        op_ab: what joins A and B.
        op_abc: what joins that and C.
        alpha: a number, or a tensor of rank 0.
        beta: a number, or a tensor of rank 0.
        gamma: a number, or a tensor of rank 0.
        unary: the functions of A, B and C; those left out are the identity.
        out_shape: as in `contract`.
        output_dtype: of the result; None for that of the functions without labels.

    Returns:
        [extents of out_modes], of `output_dtype`.

    Raises:
        ArgumentError, ShapeError, DTypeError, ArgumentTypeError: as in `contract`.
    """
    what = "elementwise_trinary"
    given = given_operands(what, [(a, a_modes), (b, b_modes), (c, c_modes)], unary)
    named = (("alpha", alpha), ("beta", beta), ("gamma", gamma))
    factors = [factor_of(what, name, value) for name, value in named]
    modes = checked_modes(what, out_modes)
    result = elementwise_result(given, factors, (op_ab, op_abc), output_dtype)
    out = result_layout(what, given, modes, out_shape, result)
    x, y, z = given.descriptors
    operation = OperationDescriptor.elementwise_trinary(x, y, z, out, modes, op_ab, op_abc)
    return make(operation, given, factors, _ALONE)
