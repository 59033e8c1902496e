"""Copies of permuted arrays, planned once: items as wide as their runs, pieces that fit a cache.

NumPy walks a copy in the order of its destination. That reads one element of a line of the cache
and comes back for the next one after everything in between: too late, if that is much. So what
lies in between is cut, and the cuts are walked from outside. Elements that are neighbours on both
sides are moved as one wide item.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import Box
from softcuda.backends.host.tiles import part_of
from softcuda.backends.host.views import strided
from softcuda.backends.host.workers import SHARED
from softcuda.contraction.axes import Axes, fuse_axes
from softcuda.graph.params import Dims
from softcuda.knobs import thread_count

__all__ = [
    "CopyPlan",
    "assign",
    "copy_in_turn",
    "copy_plan",
    "copy_shared",
    "copying",
    "copying_alone",
    "move",
]

Array = np.ndarray[Any, Any]
Assign = Callable[[Array, Array], None]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

# Elements from which a copy is shared by all threads.
_SHARED_ELEMS: Final = 1 << 15

# Longer runs are copied by vector loops as they are.
_ITEM_BYTES: Final = 256

# Lines of the source that wait for their next element. A first-level cache has 768; strides that
# are multiples of large powers of two use a part of it.
_OPEN_LINES: Final = 256

# A piece takes 5 to 10 us; the call of its copy takes 1.
_PIECE_ELEMS: Final = 1 << 13


class CopyPlan(NamedTuple):
    """How an array is copied into another one of the same extents.

    Attributes:
        dims: extents once neighbouring axes are one; from the largest stride of the destination
            to the smallest.
        source: strides of the source [elements].
        out: strides of the destination [elements].
        item: neighbours that are moved as one; their axis is no longer among `dims`.
        boxes: the pieces, in order.
    """

    dims: Dims
    source: Dims
    out: Dims
    item: int
    boxes: tuple[Box, ...]


@lru_cache(maxsize=1024)
def copy_plan(dims: Dims, source: Dims, out: Dims, most: int) -> CopyPlan:
    """Return how to copy.

    Args:
        dims: extents.
        source: strides of the source [elements].
        out: strides of the destination [elements].
        most: elements that may be moved as one item.

    Example:
        >>> plan = copy_plan((3, 4, 2), (8, 2, 1), (2, 6, 1), 64)
        >>> plan.dims, plan.source, plan.out, plan.item
        ((4, 3), (2, 8), (6, 2), 2)
    """
    labels = tuple(range(len(dims)))
    read, written = fuse_axes([Axes(labels, dims, source), Axes(labels, dims, out)]).operands
    read = read.over(written.labels)
    order = sorted(range(len(read.dims)), key=lambda axis: -abs(written.strides[axis]))
    shape = tuple(written.dims[axis] for axis in order)
    steps = tuple(read.strides[axis] for axis in order)
    places = tuple(written.strides[axis] for axis in order)
    item = 1
    if shape and steps[-1] == places[-1] == 1 and shape[-1] <= most:
        item, shape, steps, places = shape[-1], shape[:-1], steps[:-1], places[:-1]
    return CopyPlan(shape, steps, places, item, tuple(_boxes(shape, steps)))


def _boxes(dims: Dims, source: Dims) -> list[Box]:
    """Return pieces in which few lines of the source are open at a time."""
    chunks = list(dims)
    moving = [axis for axis in range(len(dims)) if source[axis]]
    if moving:
        fastest = min(moving, key=lambda axis: abs(source[axis]))
        room, elems = _OPEN_LINES, math.prod(dims[: fastest + 1])
        for axis in range(len(dims) - 1, fastest, -1):
            least = max(-(-_PIECE_ELEMS // max(elems, 1)), 1)
            parts = -(-dims[axis] // max(room, least, 1)) if dims[axis] else 1
            chunks[axis] = max(-(-dims[axis] // parts), 1)
            room //= chunks[axis]
            elems *= chunks[axis]
    ranges = [
        [slice(start, min(start + chunk, extent)) for start in range(0, extent, max(chunk, 1))]
        for extent, chunk in zip(dims, chunks, strict=True)
    ]
    return list(itertools.product(*ranges))


def copying(source: Array, out: Array) -> Call:
    """Return the call that writes `source`, converted to the dtype of `out`, into `out`.

    Large arrays are copied on all threads.

    Args:
        source: any softcuda dtype, any strides; the extents of `out`.
        out: any softcuda dtype; its elements do not overlap.
    """
    if source.size < _PIECE_ELEMS:
        return copying_alone(source, out)
    plan = copy_plan(
        out.shape,
        tuple(s // source.itemsize for s in source.strides),
        tuple(s // out.itemsize for s in out.strides),
        _ITEM_BYTES // out.itemsize if source.dtype == out.dtype else 1,
    )
    read = _items(source, plan.dims, plan.source, plan.item)
    written = _items(out, plan.dims, plan.out, plan.item)
    function = convert if plan.item == 1 else assign
    if source.size < _SHARED_ELEMS:
        return copy_in_turn, (function, read, written, plan.boxes)
    boxes = plan.boxes
    if len(boxes) < thread_count():
        boxes = _halved(plan.dims, thread_count())
    return copy_shared, (function, read, written, boxes)


def copying_alone(source: Array, out: Array) -> Call:
    """Return the call that copies as `copying` does, on the thread that makes it.

    Args:
        source: any softcuda dtype, any strides; the extents of `out`; one of them fits the cache.
        out: any softcuda dtype; its elements do not overlap.
    """
    if source.dtype != out.dtype:
        return convert, (source, out)
    if source.ndim and source.size:
        size, run = source.itemsize, source.shape[-1]
        if source.strides[-1] == out.strides[-1] == size and 1 < run <= _ITEM_BYTES // size:
            wide = np.dtype((np.void, run * size))
            return np.copyto, (out.view(wide), source.view(wide))
    return np.copyto, (out, source)


def move(source: Array, out: Array) -> None:
    """Write `source`, converted to the dtype of `out`, into `out`, on all threads if it is large.

    Args:
        source: any softcuda dtype, any strides; the extents of `out`.
        out: any softcuda dtype; its elements do not overlap.
    """
    function, arguments = copying(source, out)
    function(*arguments)


def copy_in_turn(function: Assign, read: Array, written: Array, boxes: tuple[Box, ...]) -> None:
    """Copy the boxes of an array, one after the other.

    Args:
        function: copies one: `convert` or `assign`.
        read: the items of the source.
        written: those of the destination.
        boxes: slices of both.
    """
    for box in boxes:
        function(part_of(read, box), part_of(written, box))


def copy_shared(function: Assign, read: Array, written: Array, boxes: tuple[Box, ...]) -> None:
    """Copy the boxes of an array, on all threads; arguments as those of `copy_in_turn`."""

    def part(worker: int, number: int) -> None:
        function(part_of(read, boxes[number]), part_of(written, boxes[number]))

    SHARED.run(part, len(boxes))


def assign(source: Array, out: Array) -> None:
    """Write items into the memory of others."""
    np.copyto(out, source)


def _halved(dims: Dims, parts: int) -> tuple[Box, ...]:
    """Return boxes along the outermost axis that has an index for each of them."""
    axis = next((axis for axis, extent in enumerate(dims) if extent >= parts), None)
    whole = tuple(slice(0, extent) for extent in dims)
    if axis is None:
        return (whole,)
    cuts = [number * dims[axis] // parts for number in range(parts + 1)]
    return tuple(
        (*whole[:axis], slice(start, stop), *whole[axis + 1 :])
        for start, stop in itertools.pairwise(cuts)
    )


def _items(array: Array, dims: Dims, strides: Dims, item: int) -> Array:
    """Return an array as items of some neighbours each."""
    size = array.itemsize
    steps = tuple(stride * size for stride in strides)
    if item == 1:
        return strided(array, dims, steps)
    runs = strided(array, (*dims, item), (*steps, size))
    items: Array = runs.view(np.dtype((np.void, item * size)))[..., 0]
    return items
