"""Tiles of a reduction: boxes that are local in memory, loaded in a chosen dtype and layout."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import BLOCK, Box
from softcuda.graph.params import Dims

__all__ = ["Tiles", "flat", "part_of", "tile_dims"]

Array = np.ndarray[Any, Any]

# A run of fewer elements than this is not worth a loop of its own: the tile is transposed.
_SHORT = 16


def tile_dims(dims: Dims, strides: Dims, limit: int = BLOCK) -> Dims:
    """Return extents of at most `limit` elements that fill the innermost axes in memory first.

    Args:
        dims: extents of an array.
        strides: its strides, in any unit; an axis of stride 0 counts as outermost.
        limit: the most elements a tile may have.

    Example:
        >>> tile_dims((100, 8, 6), (1, 100, 800), 200)
        (100, 2, 1)
    """
    result = [1] * len(dims)
    order = sorted(range(len(dims)), key=lambda axis: (not strides[axis], abs(strides[axis])))
    for axis in order:
        result[axis] = max(min(dims[axis], limit), 1)
        limit //= result[axis]
    return tuple(result)


def _grid(dims: Dims, tile: Dims) -> Iterator[Box]:
    """Yield the boxes of `dims` cut into tiles; none where an extent is 0."""
    if 0 in dims:
        return
    counts = [-(-d // t) for d, t in zip(dims, tile, strict=True)]
    for index in np.ndindex(*counts):
        yield tuple(
            slice(i * t, min((i + 1) * t, d)) for i, t, d in zip(index, tile, dims, strict=True)
        )


def part_of(array: Array, box: Box) -> Array:
    """Return a view of a box of an array, of rank 0 too (plain indexing gives a number there)."""
    place: Any = (*box, ...)
    part: Array = array[place]
    return part


def flat(out: Array, axes: Dims, keepdims: bool) -> Array:
    """Return a view of a reduction's result without the axes that keepdims left."""
    if not keepdims:
        return out
    place: Any = (*(0 if axis in axes else slice(None) for axis in range(out.ndim)), ...)
    left: Array = out[place]
    return left


class Tiles:
    """An array as tiles [kept, reduced] of two axes, for a reduction over some axes.

    Made once for an array; `fresh` gives what one run of the reduction loads with.

    Attributes:
        axis: the axis of a loaded tile that is to be reduced, 0 or 1: the tile keeps the order
            in which the source lies in memory, unless its runs there are too short.
        reduced: extents of the reduced axes, in order.
        count: elements a result reduces.
        kept_boxes: boxes of the result's axes.
        reduced_boxes: boxes of the reduced axes.
        last: the tile loaded last.
    """

    def __init__(
        self, source: Array, axes: Dims, dtype: Any, *, inner: bool = False, limit: int = BLOCK
    ) -> None:
        """Cut `source` for a reduction over `axes`; tiles are loaded as `dtype`.

        Args:
            source: any softcuda dtype, any strides.
            axes: the reduced axes, sorted.
            dtype: NumPy dtype of the loaded tiles.
            inner: whether the reduced axis of tiles must be axis 1.
            limit: the most elements of a tile.
        """
        kept = tuple(axis for axis in range(source.ndim) if axis not in axes)
        split = len(kept)
        self._view = view = source.transpose(kept + axes)
        self._split = split
        tile = tile_dims(view.shape, view.strides, limit)
        self.reduced = view.shape[split:]
        self.count = math.prod(self.reduced)
        self.kept_boxes = list(_grid(view.shape[:split], tile[:split]))
        self.reduced_boxes = list(_grid(self.reduced, tile[split:]))
        natural = _natural_axis(view.strides, tile, split)
        fewer = 0 if math.prod(tile[split:]) <= math.prod(tile[:split]) else 1
        self.axis = 1 if inner else fewer if natural is None else natural
        # Reading in place pays only where the tile's rows are runs of the source.
        self._in_place = view.dtype == dtype and natural == self.axis
        self._dtype = np.dtype(dtype)
        self._scratch: Array | None = None
        self.last: Array = np.empty((0, 0), self._dtype)

    def fresh(self) -> Tiles:
        """Return the same tiles with scratch of their own, to be dropped after the run."""
        return copy.copy(self)

    def kept_count(self, box: Box) -> int:
        """Return how many results a box of kept_boxes holds."""
        return math.prod(s.stop - s.start for s in box)

    def load(self, kept: Box, reduced: Box) -> Array:
        """Return a tile, converted, in scratch that the next load overwrites.

        Returns:
            [kept, reduced] where `axis` is 1, [reduced, kept] where it is 0.
        """
        piece = part_of(self._view, kept + reduced)
        split = self._split
        rows, columns = math.prod(piece.shape[:split]), math.prod(piece.shape[split:])
        if self._scratch is None or self._scratch.size < piece.size:
            self._scratch = np.empty(piece.size, self._dtype)
        tile = self._scratch[: piece.size]
        if self.axis == 0:
            order = (*range(split, piece.ndim), *range(split))
            piece = piece.transpose(order)
            rows, columns = columns, rows
        convert(piece, tile.reshape(piece.shape))
        self.last = tile.reshape(rows, columns)
        return self.last

    def look(self, kept: Box, reduced: Box) -> Array:
        """Return a tile as `load` does, to be read only: the source itself where it can be."""
        if not self._in_place:
            return self.load(kept, reduced)
        piece, split = part_of(self._view, kept + reduced), self._split
        rows, columns = math.prod(piece.shape[:split]), math.prod(piece.shape[split:])
        if self.axis == 0:
            piece = piece.transpose((*range(split, piece.ndim), *range(split)))
            rows, columns = columns, rows
        return piece.reshape(rows, columns)

    def along(self, values: Array) -> Array:
        """Return one value a result [kept] so that it broadcasts against a tile."""
        return values[:, None] if self.axis else values[None, :]

    def across(self, values: Array) -> Array:
        """Return one value a reduced element [reduced] so that it broadcasts against a tile."""
        return values[None, :] if self.axis else values[:, None]


def _natural_axis(strides: Dims, tile: Dims, split: int) -> int | None:
    """Return which axis of a two-axis tile runs along memory; None where the runs are short."""
    order = [axis for axis in range(len(tile)) if tile[axis] > 1 and strides[axis]]
    if not order:
        return None
    innermost = min(order, key=lambda axis: abs(strides[axis]))
    if tile[innermost] < _SHORT:
        return None
    return 1 if innermost >= split else 0
