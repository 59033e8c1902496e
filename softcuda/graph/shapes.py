"""Arithmetic of extents, strides and axes: pure functions over tuples of ints."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

from softcuda.contraction.axes import contiguous_strides
from softcuda.errors import ArgumentTypeError, AxisError, ShapeError
from softcuda.graph.params import Dims

__all__ = [
    "MAX_RANK",
    "broadcast_dims",
    "check_dims",
    "contiguous_strides",
    "is_contiguous",
    "normalize_axes",
    "normalize_axis",
    "numel",
    "reduced_dims",
    "reshape_strides",
]

MAX_RANK = 64


def numel(dims: Dims) -> int:
    """Return the number of elements of a tensor of these extents."""
    return math.prod(dims)


def is_contiguous(dims: Dims, strides: Dims) -> bool:
    """Return whether the strides are row-major, those of extents up to 1 not counting."""
    step = 1
    for extent, stride in zip(reversed(dims), reversed(strides), strict=True):
        if extent == 0:
            return True
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def check_dims(what: str, dims: int | Iterable[int]) -> Dims:
    """Return extents as a tuple of ints.

    Args:
        what: who asks, first word of the error.
        dims: one extent or several.

    Raises:
        ArgumentTypeError: an extent is no integer.
        ShapeError: an extent is negative, or there are more than 64.
    """
    try:
        given: Dims = (operator.index(dims),)  # type: ignore[arg-type]
    except TypeError:
        try:
            given = tuple(operator.index(d) for d in dims)  # type: ignore[union-attr]
        except TypeError:
            raise ArgumentTypeError(
                f"{what}: the shape {dims!r} is not made of integers; "
                "allowed is an int or a sequence of ints"
            ) from None
    if any(d < 0 for d in given):
        raise ShapeError(f"{what}: the shape {list(given)} has a negative extent; allowed are >= 0")
    if len(given) > MAX_RANK:
        raise ShapeError(f"{what}: rank {len(given)} is above {MAX_RANK}, the largest allowed")
    if math.prod(given) >= 1 << 62:
        raise ShapeError(
            f"{what}: the shape {list(given)} has 2^62 elements or more; allowed are fewer"
        )
    return given


def broadcast_dims(what: str, shapes: Sequence[Dims]) -> Dims:
    """Return the extents that these shapes broadcast to, aligned from the right.

    Raises:
        ShapeError: two extents of an axis differ and neither is 1.

    Example:
        >>> broadcast_dims("add", [(2, 1), (3,)])
        (2, 3)
    """
    result = shapes[0]
    for shape in shapes[1:]:
        if not shape or shape == result:
            continue
        if not result:
            result = shape
            continue
        result = _broadcast_pair(what, result, shape, shapes)
    return result


def _broadcast_pair(what: str, a: Dims, b: Dims, shapes: Sequence[Dims]) -> Dims:
    if len(a) < len(b):
        a, b = b, a
    out = list(a)
    shift = len(a) - len(b)
    for axis, extent in enumerate(b):
        have = a[axis + shift]
        if extent in (have, 1):
            continue
        if have != 1:
            listed = " and ".join(str(list(s)) for s in shapes)
            raise ShapeError(
                f"{what}: shapes {listed} do not broadcast: axis {axis + shift - len(a)} has "
                f"extents {have} and {extent}; extents must be equal or 1; "
                "reshape or expand_dims an operand"
            )
        out[axis + shift] = extent
    return tuple(out)


def normalize_axis(what: str, axis: int, ndim: int) -> int:
    """Return an axis as a number from 0 to ndim - 1.

    Raises:
        ArgumentTypeError: the axis is no integer.
        AxisError: the tensor has no such axis.
    """
    try:
        index = operator.index(axis)
    except TypeError:
        raise ArgumentTypeError(
            f"{what}: axis {axis!r} is no integer; allowed are ints from {-ndim} to {ndim - 1}"
        ) from None
    if not -ndim <= index < ndim:
        allowed = f"{-ndim} to {ndim - 1}" if ndim else "none, the tensor has rank 0"
        raise AxisError(
            f"{what}: axis {index} does not exist in a tensor of rank {ndim}; allowed: {allowed}"
        )
    return index % ndim


def normalize_axes(what: str, axes: int | Iterable[int] | None, ndim: int) -> Dims:
    """Return axes sorted, each from 0 to ndim - 1; None names all of them.

    Raises:
        ArgumentTypeError: an axis is no integer.
        AxisError: the tensor has no such axis, or one is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    try:
        given: Iterable[int] = (operator.index(axes),)  # type: ignore[arg-type]
    except TypeError:
        given = axes  # type: ignore[assignment]
    try:
        found = tuple(normalize_axis(what, axis, ndim) for axis in given)
    except TypeError as error:
        if isinstance(error, ArgumentTypeError):
            raise
        raise ArgumentTypeError(
            f"{what}: axis {axes!r} is not allowed; give an int, a tuple of ints, or None"
        ) from None
    if len(set(found)) != len(found):
        raise AxisError(
            f"{what}: axis {axes!r} names an axis twice in a tensor of rank {ndim}; "
            "each axis once is allowed"
        )
    return tuple(sorted(found))


def reduced_dims(dims: Dims, axes: Dims, keepdims: bool) -> Dims:
    """Return the extents left when `axes` (sorted) are reduced."""
    if keepdims:
        return tuple(1 if axis in axes else d for axis, d in enumerate(dims))
    return tuple(d for axis, d in enumerate(dims) if axis not in axes)


def reshape_strides(dims: Dims, strides: Dims, target: Dims) -> Dims | None:
    """Return the strides [elements] under which a view has other extents, or None.

    Groups of axes with equal products are matched from the left; inside a group the source
    axes must be jointly contiguous. None says that only a copy has the target extents.

    Example:
        >>> reshape_strides((4, 6), (6, 1), (2, 2, 6))
        (12, 6, 1)
        >>> reshape_strides((6, 4), (1, 6), (24,)) is None
        True
    """
    if math.prod(dims) == 0 or not target:
        return contiguous_strides(target)
    source = [(d, s) for d, s in zip(dims, strides, strict=True) if d != 1]
    result = [0] * len(target)
    at = 0
    axis = 0
    while axis < len(target):
        if target[axis] == 1:
            axis += 1
            continue
        first, product_to = axis, target[axis]
        start, product_from = at, source[at][0]
        at += 1
        axis += 1
        while product_from != product_to:
            if product_from < product_to:
                product_from *= source[at][0]
                at += 1
            else:
                product_to *= target[axis]
                axis += 1
        for k in range(start, at - 1):
            if source[k][1] != source[k + 1][0] * source[k + 1][1]:
                return None
        step = source[at - 1][1]
        for k in range(axis - 1, first - 1, -1):
            result[k] = step
            step *= target[k]
    return tuple(result)
