"""Reductions over axes, and the running sum."""

from __future__ import annotations

from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.tensor import Tensor
from softcuda.tensor.reductions import AxisLike

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "cumsum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]


def sum(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return y = sum over the axes of x[i].

    Floats are summed pairwise or in blocks and rounded once. The sum of nothing is 0.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x, i64 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("sum", x).sum(axis, keepdims)


def prod(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return y = product over the axes of x[i].

    The product of nothing is 1.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x, i64 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("prod", x).prod(axis, keepdims)


def min(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return y = the smallest x[i] over the axes.

    NaN gives NaN; -0 is below +0.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ShapeError: there is nothing to take the minimum of.
    """
    return as_tensor("min", x).min(axis, keepdims)


def max(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return y = the largest x[i] over the axes.

    NaN gives NaN; -0 is below +0.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ShapeError: there is nothing to take the maximum of.
    """
    return as_tensor("max", x).max(axis, keepdims)


def mean(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return y = sum over the axes of x[i], divided by their count.

    The mean of nothing is NaN.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("mean", x).mean(axis, keepdims)


def var(
    x: TensorLike, axis: AxisLike = None, keepdims: bool = False, correction: float = 0
) -> Tensor:
    """Return y = sum over the axes of (x[i] - mean)^2, divided by count - correction.

    Two passes: the mean first. A divisor of 0 or less gives NaN or inf.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.
        correction: 0 for the variance of a population, 1 for the estimate from a sample.

    Returns:
        [shape without the axes], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ArgumentError: the correction is not finite.
    """
    return as_tensor("var", x).var(axis, keepdims, correction)


def std(
    x: TensorLike, axis: AxisLike = None, keepdims: bool = False, correction: float = 0
) -> Tensor:
    """Return y = var(x)^(1/2) over the axes, rounded once.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.
        correction: 0 for the deviation of a population, 1 for the estimate from a sample.

    Returns:
        [shape without the axes], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ArgumentError: the correction is not finite.
    """
    return as_tensor("std", x).std(axis, keepdims, correction)


def norm(
    x: TensorLike, ord: float | None = 2, axis: AxisLike = None, keepdims: bool = False
) -> Tensor:
    """Return y = (sum over the axes of |x[i]|^ord)^(1/ord), a norm of vectors.

    ord = inf gives the largest |x[i]|, -inf the smallest, 0 the count of elements that are not 0.
    Several axes, or None, are one long vector. The norm of nothing is 0.

    Args:
        x: [any shape], any dtype.
        ord: order of the norm; None is 2.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ArgumentTypeError: the order is no number (norms of matrices are not offered).
    """
    return as_tensor("norm", x).norm(ord, axis, keepdims)


def logsumexp(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return y = ln(sum over the axes of e^x[i]), without overflow.

    Of nothing it is -inf.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("logsumexp", x).logsumexp(axis, keepdims)


def any(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return whether an x[i] over the axes is not 0; NaN counts as true, nothing is False.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], bool.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("any", x).any(axis, keepdims)


def all(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return whether every x[i] over the axes is not 0; NaN counts as true, nothing is True.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], bool.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("all", x).all(axis, keepdims)


def argmin(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return the position of the first smallest x[i] over the axes; the first NaN wins.

    Over several axes, or None, the position counts their elements in row-major order.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], i64.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ShapeError: there is nothing to take the minimum of.
    """
    return as_tensor("argmin", x).argmin(axis, keepdims)


def argmax(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return the position of the first largest x[i] over the axes; the first NaN wins.

    Over several axes, or None, the position counts their elements in row-major order.

    Args:
        x: [any shape], any dtype.
        axis: an axis, a tuple of axes, or None for all.
        keepdims: whether the reduced axes stay, with extent 1.

    Returns:
        [shape without the axes], i64.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ShapeError: there is nothing to take the maximum of.
    """
    return as_tensor("argmax", x).argmax(axis, keepdims)


def cumsum(x: TensorLike, axis: int | None = None) -> Tensor:
    """Return the running sum y[i] = sum of x[j], j up to i, along an axis.

    Args:
        x: [any shape], any dtype.
        axis: the axis; None runs over all elements in row-major order.

    Returns:
        [shape of x; one axis for None], of the dtype of x, i64 for bool and integers.

    Raises:
        AxisError: x has no such axis.
    """
    return as_tensor("cumsum", x).cumsum(axis)
