"""Shape functions: views, which move nothing unless a reshape cannot be one."""

from __future__ import annotations

from collections.abc import Sequence

from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.tensor import Tensor

__all__ = [
    "broadcast_to",
    "diagonal",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
]


def reshape(x: TensorLike, shape: int | Sequence[int], *more: int) -> Tensor:
    """Return the elements of x, in row-major order, under another shape.

    Args:
        x: [any shape], any dtype.
        shape: extents of the result, whose product is the number of elements; one may be -1.
        more: further extents, for reshape(x, 2, 3).

    Returns:
        [shape], of the dtype of x.

    Raises:
        ShapeError: the shape has another number of elements, or leaves its -1 open.
        ArgumentTypeError: an extent is no integer.
    """
    return as_tensor("reshape", x).reshape(shape, *more)


def permute_dims(x: TensorLike, axes: int | Sequence[int], *more: int) -> Tensor:
    """Return x with its axes in another order: axis i of the result is axis axes[i] of x.

    Args:
        x: [any shape], any dtype.
        axes: every axis once.
        more: further axes, for permute_dims(x, 1, 0).

    Returns:
        [extents of x in that order], of the dtype of x.

    Raises:
        AxisError: the axes are not those of x, each once.
    """
    return as_tensor("permute_dims", x).permute_dims(axes, *more)


def transpose(x: TensorLike, axes: int | Sequence[int] | None = None, *more: int) -> Tensor:
    """Return x with its axes in another order, reversed where none is given.

    Args:
        x: [any shape], any dtype.
        axes: every axis once, or None for the reverse order.
        more: further axes, for transpose(x, 1, 0).

    Returns:
        [extents of x in that order], of the dtype of x.

    Raises:
        AxisError: the axes are not those of x, each once.
    """
    return as_tensor("transpose", x).transpose(axes, *more)


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Return x with two of its axes exchanged.

    Args:
        x: [any shape], any dtype.
        axis1: one axis.
        axis2: the other axis.

    Returns:
        [extents of x, two exchanged], of the dtype of x.

    Raises:
        AxisError: x has no such axis.
    """
    return as_tensor("swapaxes", x).swapaxes(axis1, axis2)


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    """Return x with some axes moved to other places, the rest in their order.

    Args:
        x: [any shape], any dtype.
        source: an axis or several.
        destination: where each of them goes.

    Returns:
        [extents of x in the new order], of the dtype of x.

    Raises:
        AxisError: x has no such axis, one is named twice, or the two differ in number.
    """
    return as_tensor("moveaxis", x).moveaxis(source, destination)


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """Return x repeated along axes of extent 1, and along new axes in front.

    Args:
        x: [any shape], any dtype.
        shape: extents of the result.

    Returns:
        [shape], of the dtype of x.

    Raises:
        ShapeError: an extent of x is neither 1 nor that of the shape.
    """
    return as_tensor("broadcast_to", x).broadcast_to(shape)


def expand_dims(x: TensorLike, axis: int | Sequence[int]) -> Tensor:
    """Return x with new axes of extent 1.

    Args:
        x: [any shape], any dtype.
        axis: the place of the new axis in the result, or several.

    Returns:
        [extents of x and ones], of the dtype of x.

    Raises:
        AxisError: the result has no such axis, or it is named twice.
        ShapeError: the result has more than 64 axes.
    """
    return as_tensor("expand_dims", x).expand_dims(axis)


def squeeze(x: TensorLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return x without axes of extent 1.

    Args:
        x: [any shape], any dtype.
        axis: an axis of extent 1, several, or None for all of them.

    Returns:
        [extents of x without those], of the dtype of x.

    Raises:
        AxisError: x has no such axis, or it is named twice.
        ShapeError: an axis has another extent than 1.
    """
    return as_tensor("squeeze", x).squeeze(axis)


def flip(x: TensorLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return x with the elements along some axes in reverse order.

    Args:
        x: [any shape], any dtype.
        axis: an axis, several, or None for all.

    Returns:
        [shape of x], of the dtype of x.

    Raises:
        AxisError: x has no such axis, or it is named twice.
    """
    return as_tensor("flip", x).flip(axis)


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return y[..., i] = x[..., i, ..., i + offset, ...], the diagonal of two axes.

    Args:
        x: [at least two axes], any dtype.
        offset: how far above the main diagonal; negative below it.
        axis1: the axis of the rows.
        axis2: the axis of the columns.

    Returns:
        [extents of x without the two axes, length of the diagonal], of the dtype of x.

    Raises:
        ShapeError: x has fewer than two axes.
        AxisError: x has no such axis, or both are the same.
    """
    return as_tensor("diagonal", x).diagonal(offset, axis1, axis2)
