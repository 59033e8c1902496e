"""Contractions in boxes: what BLAS cannot take where it lies is packed into scratch, box by box.

C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]; each of b, m, n, k stands for any number of labels. A
box has the whole extent of the labels that run fastest in what is packed, if it can: what is read
and written then are runs of neighbours, and the rest of a permutation happens in the cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from softcuda.backends.host.contraction import with_axes
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.copies import move
from softcuda.backends.host.routes import Route, matrix_axes
from softcuda.backends.host.tiles import part_of
from softcuda.backends.host.tiling import Tiling
from softcuda.contraction.axes import Axes
from softcuda.dtype import DType

__all__ = ["PackedProduct", "matrices_of", "oriented"]

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array, Array], Any]
Labels = tuple[int, ...]


class _Part(NamedTuple):
    """A part of a class of labels: the slice of each, and that of their matrix axis."""

    slices: dict[int, slice]
    axis: slice


class _Box(NamedTuple):
    """One box: the slice of each label, and those of the matrix axes m, n and k."""

    slices: dict[int, slice]
    m: slice
    n: slice
    k: slice


def matrices_of(array: Array, axes: Axes, route: Route, number: int) -> Array:
    """Return an operand as a stack of matrices, where its axes allow that.

    Args:
        array: its memory, the first element first.
        axes: where its labels lie.
        route: which of them are rows and columns.
        number: 0 for a, 1 for b, 2 for out.

    Returns:
        Axes [loops, rows, columns]; a loop that the operand lacks has extent 1.
    """
    rows, columns = (_one_axis(axes.over(labels)) for labels in route.matrices[number])
    return with_axes(array, matrix_axes(axes.over(route.loops), rows, columns))


def _one_axis(run: Axes) -> tuple[int, int]:
    """Return (extent, stride) of axes that follow each other."""
    inner = (s for d, s in zip(reversed(run.dims), reversed(run.strides), strict=True) if d > 1)
    return run.numel, next(inner, 0)


def oriented(a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return (a, b, out), or (b^T, a^T, out^T) where the rows of out lie side by side."""
    if out.strides[-1] <= out.strides[-2]:
        return a, b, out
    return b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)


class PackedProduct:
    """One contraction bound to arrays; calling it computes the result.

    Args:
        route: which operands are packed, and how.
        tiling: the boxes.
        multiply: f(a [..., m, k], b [..., k, n], out [..., m, n]), all in the compute dtype.
        common: the dtype that operands are rounded to before they become the compute dtype.
    """

    def __init__(self, route: Route, tiling: Tiling, multiply: Multiply, common: DType) -> None:
        self._route = route
        self._tiling = tiling
        self._multiply = multiply
        self._common = common
        self._batch = _parts(route, tiling, route.pair.classes.batch, ())
        self._m = _parts(route, tiling, route.m.loops, route.m.axis)
        self._n = _parts(route, tiling, route.n.loops, route.n.axis)
        self._k = _parts(route, tiling, (), route.k)

    def _places(self) -> Iterator[list[_Box]]:
        """Yield for each part of the result the boxes along k.

        The class whose operand alone is packed box by box goes outside: it is packed once then.
        """
        n_first = self._tiling.tiled[1] and not self._tiling.tiled[0]
        outer, inner = (self._n, self._m) if n_first else (self._m, self._n)
        for at, first, second in itertools.product(self._batch, outer, inner):
            rows, columns = (second, first) if n_first else (first, second)
            around = at.slices | rows.slices | columns.slices
            yield [
                _Box(around | step.slices, rows.axis, columns.axis, step.axis) for step in self._k
            ]

    def __call__(self, a: Array, b: Array, out: Array, scratch: Array) -> None:
        """Compute the contraction.

        Args:
            a: axes as in the route's pair.
            b: the same.
            out: the same.
            scratch: the sum of the tiling's sizes, as elements of the compute dtype.
        """
        sizes = self._tiling.sizes
        ends = itertools.accumulate(sizes)
        memory = [scratch[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        left, right, result = (
            _Operand(self._route, self._tiling, number, array, memory[number])
            for number, array in enumerate((a, b, out))
        )
        left.load_whole(self._common)
        right.load_whole(self._common)
        for boxes in self._places():
            total = result.matrices(boxes[0])
            for number, box in enumerate(boxes):  # the parts of k
                place = _like(total, memory[3]) if number else total
                first, second = (x.loaded(box, self._common) for x in (left, right))
                self._multiply(*oriented(first, second, place))
                if number:
                    np.add(total, place, total)
            result.store(boxes[0])


class _Operand:
    """An operand as stacks of matrices: where it lies, packed whole, or tile by tile."""

    def __init__(
        self, route: Route, tiling: Tiling, number: int, array: Array, memory: Array
    ) -> None:
        self._route, self._number, self._memory = route, number, memory
        self._axes = axes = route.operands[number]
        self._order = route.orders[number]
        self._is_tiled = tiling.tiled[number]
        self._source = with_axes(array, axes.over(self._order))
        rows, _ = route.matrices[number]
        self._is_turned = bool(rows) and self._order[-len(rows) :] == rows
        self._held: dict[int, slice] | None = None
        self._tile = memory[:0]
        self._view: Array | None = None
        if not route.packed[number]:
            self._view = matrices_of(array, axes, route, number)

    def load_whole(self, common: DType) -> None:
        """Pack the operand where that is done before the first box."""
        if self._view is None and not self._is_tiled:
            dims = self._source.shape
            self._pack(self._source, common)
            axes = Axes.dense(self._order, dims)
            self._view = matrices_of(self._memory, axes, self._route, self._number)

    def loaded(self, box: _Box, common: DType) -> Array:
        """Return the matrices of a box; a tile stays until another one is asked for."""
        if self._view is not None:
            return self._part(self._view, box)
        slices = {label: box.slices[label] for label in self._order}
        if slices != self._held:
            self._held = slices
            self._tile = self._shaped(box)
            self._pack(part_of(self._source, tuple(slices.values())), common)
        return self._tile

    def matrices(self, box: _Box) -> Array:
        """Return the matrices of a box of the result, to be written."""
        if self._view is not None:
            return self._part(self._view, box)
        return self._shaped(box)

    def store(self, box: _Box) -> None:
        """Copy a tile of the result to where it lies."""
        if self._view is None:
            place = part_of(self._source, tuple(box.slices[label] for label in self._order))
            move(self._memory[: place.size].reshape(place.shape), place)

    def _pack(self, part: Array, common: DType) -> None:
        part = _rounded(part, common)
        move(part, self._memory[: part.size].reshape(part.shape))

    def _part(self, view: Array, box: _Box) -> Array:
        loops = tuple(
            box.slices[label] if label in self._axes.labels else slice(None)
            for label in self._route.loops
        )
        return part_of(view, (*loops, *self._axes_of(box)))

    def _shaped(self, box: _Box) -> Array:
        """Return scratch as the matrices of a box."""
        loops = [
            _extent(box.slices[label]) if label in self._axes.labels else 1
            for label in self._route.loops
        ]
        rows, columns = map(_extent, self._axes_of(box))
        count = math.prod(loops) * rows * columns
        if self._is_turned:
            return self._memory[:count].reshape(*loops, columns, rows).swapaxes(-1, -2)
        return self._memory[:count].reshape(*loops, rows, columns)

    def _axes_of(self, box: _Box) -> tuple[slice, slice]:
        return ((box.m, box.k), (box.k, box.n), (box.m, box.n))[self._number]


def _like(matrices: Array, memory: Array) -> Array:
    """Return memory as dense matrices of the same extents and order of axes as others."""
    if matrices.strides[-1] <= matrices.strides[-2]:
        return memory[: matrices.size].reshape(matrices.shape)
    return memory[: matrices.size].reshape(matrices.swapaxes(-1, -2).shape).swapaxes(-1, -2)


def _extent(part: slice) -> int:
    extent: int = part.stop - part.start
    return extent


def _parts(route: Route, tiling: Tiling, loops: Labels, axis: Labels) -> list[_Part]:
    """Return the parts into which the boxes cut a class, in order."""
    extents, made = route.pair.extents, []
    labels = loops + axis
    ranges = [range(0, extents[x], tiling.chunks[x]) for x in labels]
    for starts in itertools.product(*ranges):
        slices = {
            x: slice(start, min(start + tiling.chunks[x], extents[x]))
            for x, start in zip(labels, starts, strict=True)
        }
        first, length = 0, 1
        for label in axis:
            first = first * extents[label] + slices[label].start
            length *= _extent(slices[label])
        made.append(_Part(slices, slice(first, first + length)))
    return made


def _rounded(source: Array, common: DType) -> Array:
    """Return an operand as `common` holds it: integers that meet others are rounded to them."""
    if not common.is_inexact or source.dtype.kind != "i":
        return source
    result = np.empty(source.shape, common.numpy)
    convert(source, result)
    return result
