"""Functions that pick elements by integer tensors, and those that keep a triangle."""

from __future__ import annotations

from typing import Any

from softcuda.dtype import DType, as_dtype, f32
from softcuda.errors import ArgumentError, DTypeError, ShapeError
from softcuda.functions.operands import TensorLike, as_tensor, as_tensors
from softcuda.graph.op import OPS
from softcuda.graph.params import Dims, Gather, OneHot, Triangle
from softcuda.graph.shapes import broadcast_dims, check_dims, normalize_axis
from softcuda.tensor import Tensor
from softcuda.tensor.indexing import integer_node
from softcuda.tensor.values import whole_number

__all__ = [
    "gather",
    "index_add",
    "one_hot",
    "scatter_add",
    "take",
    "take_along_axis",
    "tril",
    "triu",
]


def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """Return y[.., j, ..] = x[.., indices[j], ..]: slices of x by position.

    Args:
        x: [any shape], any dtype.
        indices: [any shape], i32 or i64; negative ones count from the end.
        axis: the axis of x that is addressed; None addresses its elements in row-major order.

    Returns:
        [shape of x with the axis replaced by the shape of indices], of the dtype of x.

    Raises:
        AxisError: x has no such axis.
        DTypeError: the indices are no integers.
        ShapeError: the axis is empty.
        IndexOutOfRange: at run, an index outside the axis.
    """
    return as_tensor("take", x).take(indices, axis)


def gather(x: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """Return y[.., j, ..] = x[.., indices[.., j, ..], ..]: single elements by position.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        indices: [same rank, other extents no larger than those of x], i32 or i64; negative ones
            count from the end.
        axis: the axis of x that is addressed.

    Returns:
        [shape of indices], of the dtype of x.

    Raises:
        AxisError: x has no such axis.
        DTypeError: the indices are no integers.
        ShapeError: the shapes do not fit.
        IndexOutOfRange: at run, an index outside the axis.
    """
    node = as_tensor("gather", x)
    rows = integer_node(Tensor, "gather", indices)
    place = normalize_axis("gather", axis, node.ndim)
    return node.apply(OPS["gather"], (node, rows), Gather(place))


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int | None = -1) -> Tensor:
    """Return y[.., j, ..] = x[.., indices[.., j, ..], ..], the other axes broadcast.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        indices: [same rank, other extents broadcast with those of x], i32 or i64; negative ones
            count from the end.
        axis: the axis of x that is addressed; None addresses its elements in row-major order.

    Returns:
        [broadcast extents; that of indices along the axis], of the dtype of x.

    Raises:
        AxisError: x has no such axis.
        DTypeError: the indices are no integers.
        ShapeError: the shapes do not fit.
        IndexOutOfRange: at run, an index outside the axis.
    """
    node = as_tensor("take_along_axis", x)
    rows = integer_node(Tensor, "take_along_axis", indices)
    if not rows.dtype.is_integer:
        raise DTypeError(
            f"take_along_axis: the indices have dtype {rows.dtype}; allowed are i32 and i64; cast "
            "them first"
        )
    if axis is None:
        node, axis = node.reshape((node.size,)), 0
    place = normalize_axis("take_along_axis", axis, node.ndim)
    if rows.ndim != node.ndim:
        raise ShapeError(
            f"take_along_axis: the tensor has shape {list(node.dims)} and the indices "
            f"{list(rows.dims)}; both must have the same rank; use take for whole slices"
        )
    beside = [(*d[:place], 1, *d[place + 1 :]) for d in (node.dims, rows.dims)]
    common = broadcast_dims("take_along_axis", beside)
    shapes = [(*common[:place], d[place], *common[place + 1 :]) for d in (node.dims, rows.dims)]
    if node.dims != shapes[0]:
        node = node.broadcast_to(shapes[0])
    if rows.dims != shapes[1]:
        rows = rows.broadcast_to(shapes[1])
    return node.apply(OPS["gather"], (node, rows), Gather(place, "take_along_axis"))


def index_add(x: TensorLike, indices: TensorLike, values: TensorLike, axis: int) -> Tensor:
    """Return x with values[.., j, ..] added to x[.., indices[j], ..]: slices by position.

    y[.., r, ..] = x[.., r, ..] + sum over the j with indices[j] = r of values[.., j, ..]

    Indices that repeat add up: in a fixed order, so that the same inputs give the same bits. Floats
    are added up in f32 at least and rounded once; integers wrap.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        indices: [any shape], i32 or i64; negative ones count from the end.
        values: [shape of take(x, indices, axis), or what broadcasts to it], any dtype; a number is
            weak.
        axis: the axis of x that is addressed.

    Returns:
        [shape of x], of the common dtype of x and values.

    Raises:
        AxisError: x has no such axis.
        DTypeError: the indices are no integers; x and values are both bool.
        ShapeError: the shapes do not fit, or the axis is empty.
        IndexOutOfRange: at run, an index outside the axis.

    Example:
        >>> index_add([0, 0, 0], [2, 0, 2], 1, 0).numpy().tolist()
        [1, 0, 2]
    """
    return _added("index_add", x, indices, values, axis, are_slices=True)


def scatter_add(x: TensorLike, indices: TensorLike, values: TensorLike, axis: int) -> Tensor:
    """Return x with values[.., j, ..] added to x[.., indices[.., j, ..], ..]: single elements.

    Indices that repeat add up: in a fixed order, so that the same inputs give the same bits. Floats
    are added up in f32 at least and rounded once; integers wrap.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        indices: [same rank, other extents no larger than those of x], i32 or i64; negative ones
            count from the end.
        values: [shape of indices, or what broadcasts to it], any dtype; a number is weak.
        axis: the axis of x that is addressed.

    Returns:
        [shape of x], of the common dtype of x and values.

    Raises:
        AxisError: x has no such axis.
        DTypeError: the indices are no integers; x and values are both bool.
        ShapeError: the shapes do not fit.
        IndexOutOfRange: at run, an index outside the axis.
    """
    return _added("scatter_add", x, indices, values, axis, are_slices=False)


def _added(
    what: str, x: TensorLike, indices: TensorLike, values: TensorLike, axis: int, are_slices: bool
) -> Tensor:
    """Return the node of an op that adds slices, or single elements; values are broadcast."""
    node, added = as_tensors(what, x, values)
    rows = integer_node(Tensor, what, indices)
    place = normalize_axis(what, axis, node.ndim)
    wanted: Dims = rows.dims
    if are_slices:
        wanted = check_dims(what, (*node.dims[:place], *rows.dims, *node.dims[place + 1 :]))
    if added.dims != wanted and broadcast_dims(what, [wanted, added.dims]) == wanted:
        added = added.broadcast_to(wanted)
    return node.apply(OPS[what], (node, rows, added), Gather(place))


def one_hot(indices: TensorLike, depth: int, dtype: DType | Any = f32) -> Tensor:
    """Return y[.., j] = 1 where indices[..] == j, else 0.

    An index outside 0 to depth - 1 gives a row of zeros.

    Args:
        indices: [any shape], i32 or i64.
        depth: extent of the new last axis.
        dtype: dtype of the result.

    Returns:
        [shape of indices, depth], of `dtype`.

    Raises:
        DTypeError: the indices are no integers.
        ArgumentError: the depth is negative.
    """
    node = integer_node(Tensor, "one_hot", indices)
    count = whole_number("one_hot", "depth", depth)
    if count < 0:
        raise ArgumentError(f"one_hot: depth is {count}; allowed are numbers >= 0")
    check_dims("one_hot", (*node.dims, count))
    return node.apply(OPS["one_hot"], (node,), OneHot(count, as_dtype(dtype)))


def tril(x: TensorLike, k: int = 0) -> Tensor:
    """Return y[.., i, j] = x[.., i, j] where j <= i + k, else 0.

    Args:
        x: [at least two axes], any dtype.
        k: the last diagonal that is kept; 0 is the main one, positive above it.

    Returns:
        [shape of x], of the dtype of x.

    Raises:
        ShapeError: x has fewer than two axes.
    """
    node = as_tensor("tril", x)
    return node.apply(OPS["tril"], (node,), Triangle(_diagonal("tril", node, k)))


def triu(x: TensorLike, k: int = 0) -> Tensor:
    """Return y[.., i, j] = x[.., i, j] where j >= i + k, else 0.

    Args:
        x: [at least two axes], any dtype.
        k: the first diagonal that is kept; 0 is the main one, positive above it.

    Returns:
        [shape of x], of the dtype of x.

    Raises:
        ShapeError: x has fewer than two axes.
    """
    node = as_tensor("triu", x)
    return node.apply(OPS["triu"], (node,), Triangle(_diagonal("triu", node, k)))


def _diagonal(what: str, x: Tensor, k: int) -> int:
    """Return k, or the nearest diagonal just outside the last two axes where it is beyond."""
    number = whole_number(what, "k", k)
    if x.ndim < 2:
        return number  # the op's own rule refuses it
    return max(-x.dims[-2], min(number, x.dims[-1]))
