"""The dtype of a result that was not asked for: that of the same ops without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softcuda.dtype import DType, bool_, i32, promote
from softcuda.graph.op import OPS
from softcuda.graph.params import Dims
from softcuda.named.arithmetic import common_dtype
from softcuda.named.descriptors import OperandDescriptor
from softcuda.named.operators import BinaryOp, ReductionOp, UnaryOp

__all__ = ["elementwise_dtype", "factor_dtype", "reduced_dtype", "sum_dtype", "unary_dtype"]


class _Typed(NamedTuple):
    dims: Dims
    dtype: DType


def unary_dtype(dtype: DType, unary: UnaryOp, *, is_scaled: bool) -> DType:
    """Return the dtype of a function of an operand, times a scalar if it is scaled.

    Raises:
        DTypeError: the function does not take the dtype.
    """
    if unary is not UnaryOp.Identity:
        dtype = OPS[unary.value].dtype_rule([_Typed((), dtype)], ())
    return i32 if is_scaled and dtype is bool_ else dtype


def factor_dtype(dtype: DType, unary: UnaryOp) -> DType:
    """Return the dtype with which an operand enters a sum of products, or is added to a result.

    It is that of its function: f32 of a function of integers that is no integer, that of the parts
    after Abs. A bool is a number of the common dtype before its function.

    Raises:
        DTypeError: the function does not take the dtype.
    """
    found = unary_dtype(i32 if dtype.is_bool else dtype, unary, is_scaled=False)
    return found if found.is_inexact else dtype


def reduced_dtype(dtype: DType, op: ReductionOp) -> DType:
    """Return the dtype of a reduction of elements of a dtype.

    Raises:
        DTypeError: the function does not take the dtype.
    """
    token = "norm" if op in (ReductionOp.Norm1, ReductionOp.Norm2) else op.value
    return OPS[token].dtype_rule([_Typed((), dtype)], ())


def sum_dtype(dtype: DType, op: ReductionOp, addend: OperandDescriptor | None = None) -> DType:
    """Return the dtype of a reduction of elements of a dtype, and of C where it is added.

    Raises:
        DTypeError: the function does not take the dtype.
    """
    reduced = reduced_dtype(dtype, op)
    if addend is None:
        return reduced
    return promote(reduced, factor_dtype(addend.tensor_descriptor.dtype, addend.unary))


def elementwise_dtype(dtypes: Sequence[DType], functions: Sequence[BinaryOp]) -> DType:
    """Return the dtype of operands joined by functions, one after the other.

    Raises:
        DTypeError: a function does not take the dtypes.
    """
    common = common_dtype(dtypes)
    found = common if common.is_inexact else dtypes[0]
    for dtype, function in zip(dtypes[1:], functions, strict=True):
        pair = [_Typed((), found), _Typed((), common if common.is_inexact else dtype)]
        found = OPS[function.value].dtype_rule(pair, ())
    return found
