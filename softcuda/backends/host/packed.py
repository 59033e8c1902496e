"""Contractions in boxes: what BLAS cannot take where it lies is packed into scratch, box by box.

C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]; each of b, m, n, k stands for any number of labels. A
box has the whole extent of the labels that run fastest in what is packed, if it can: what is read
and written then are runs of neighbours, and the rest of a permutation happens in the cache.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.blocks import multiply_in_blocks
from softcuda.backends.host.contraction import with_axes
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.copies import copying, copying_alone
from softcuda.backends.host.routes import Route, matrix_axes
from softcuda.backends.host.tiles import part_of
from softcuda.backends.host.tiling import Sizes, Tiling
from softcuda.backends.host.workers import SHARED
from softcuda.contraction.axes import Axes
from softcuda.dtype import DType

__all__ = ["PackedProduct", "matrices_of", "oriented"]

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array, Array], Any]
Labels = tuple[int, ...]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Do = Callable[..., None]  # makes a call, or notes it

# A call that is noted takes half a kilobyte; what leads to it takes 20 us.
_LISTED_BOXES: Final = 32


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

    def __init__(
        self, route: Route, tiling: Tiling, multiply: Multiply, common: DType, apart: int
    ) -> None:
        self._route = route
        self._tiling = tiling
        self._multiply = partial(multiply_in_blocks, multiply, apart) if tiling.is_shared else multiply
        self._common = common
        self._batch = _parts(route, tiling, route.pair.classes.batch, ())
        self._m = _parts(route, tiling, route.m.loops, route.m.axis)
        self._n = _parts(route, tiling, route.n.loops, route.n.axis)
        self._k = _parts(route, tiling, (), route.k)

    @property
    def _grid(self) -> tuple[int, int]:
        """(items, boxes of the result in each): a tile that they all read is packed once."""
        batch, m, n = len(self._batch), len(self._m), len(self._n)
        if not any(self._tiling.tiled[:2]):
            return batch * m * n, 1
        return (batch * n, m) if self._n_first else (batch * m, n)

    @property
    def _n_first(self) -> bool:
        """Whether the class of n goes outside, since b alone is packed box by box."""
        return self._tiling.tiled[1] and not self._tiling.tiled[0]

    def _boxes(self, number: int) -> list[_Box]:
        """Return the boxes along k of a part of the result."""
        if self._n_first:
            rest, row = divmod(number, len(self._m))
            at, column = divmod(rest, len(self._n))
        else:
            rest, column = divmod(number, len(self._n))
            at, row = divmod(rest, len(self._m))
        m, n = self._m[row], self._n[column]
        around = self._batch[at].slices | m.slices | n.slices
        return [_Box(around | step.slices, m.axis, n.axis, step.axis) for step in self._k]

    @property
    def is_short(self) -> bool:
        """Whether its calls are few enough to be listed once for all runs."""
        boxes = math.prod(self._grid) * len(self._k)
        return not self._tiling.is_shared and boxes <= _LISTED_BOXES

    def __call__(self, a: Array, b: Array, out: Array, scratch: Array) -> None:
        """Compute the contraction.

        Args:
            a: axes as in the route's pair.
            b: the same.
            out: the same.
            scratch: what the tiling has in common for all threads, in the compute dtype.
        """
        self._do(_call, a, b, out, scratch)

    def calls(self, a: Array, b: Array, out: Array, scratch: Array) -> list[Call]:
        """Return the calls that compute the contraction; arguments as of a call."""
        made: list[Call] = []

        def note(function: Callable[..., Any], *arguments: Any) -> None:
            made.append((function, arguments))

        self._do(note, a, b, out, scratch)
        return made

    def _do(self, do: Do, a: Array, b: Array, out: Array, scratch: Array) -> None:
        memory = _parted(scratch, self._tiling.whole)
        operands = [
            _Operand(self._route, self._tiling, number, array, memory[number], self._common)
            for number, array in enumerate((a, b, out))
        ]
        for operand in operands[:2]:
            operand.load_whole(do)
        if self._tiling.is_shared:
            do(self._share, operands, scratch.dtype)
            return
        for number in range(math.prod(self._grid)):
            self._fill(do, operands, self._boxes(number), memory[3])

    def _share(self, operands: list[_Operand], dtype: Any) -> None:
        """Compute the result on all threads, each with tiles of its own."""
        sizes = self._tiling.own
        benches: dict[int, tuple[list[_Operand], Array]] = {}

        def work(worker: int, number: int) -> None:
            if worker not in benches:
                nbytes = sum(sizes) * dtype.itemsize
                memory = _parted(SHARED.scratch(nbytes)[:nbytes].view(dtype), sizes)
                mine = [x.on(part) for x, part in zip(operands, memory, strict=False)]
                benches[worker] = mine, memory[3]
            mine, spare = benches[worker]
            for place in range(number * inner, (number + 1) * inner):
                self._fill(_call, mine, self._boxes(place), spare)

        items, inner = self._grid
        SHARED.run(work, items)

    def _fill(self, do: Do, operands: list[_Operand], boxes: list[_Box], spare: Array) -> None:
        """Compute a part of the result from the boxes along k."""
        left, right, result = operands
        total = result.matrices(boxes[0])
        for number, box in enumerate(boxes):
            place = _like(total, spare) if number else total
            first, second = left.loaded(do, box), right.loaded(do, box)
            do(self._multiply, *oriented(first, second, place))
            if number:
                do(np.add, total, place, total)
        result.store(do, boxes[0])


class _Operand:
    """An operand as stacks of matrices: where it lies, packed whole, or tile by tile."""

    def __init__(
        self,
        route: Route,
        tiling: Tiling,
        number: int,
        array: Array,
        memory: Array,
        common: DType,
    ) -> None:
        self._common = common
        self._route, self._number, self._memory = route, number, memory
        self._axes = axes = route.operands[number]
        self._order = route.orders[number]
        self._is_tiled = tiling.tiled[number]
        self._source = with_axes(array, axes.over(self._order))
        rows, _ = route.matrices[number]
        self._is_turned = bool(rows) and self._order[-len(rows) :] == rows
        self._held: dict[int, slice] | None = None
        self._copying = copying
        self._tile = memory[:0]
        self._view: Array | None = None
        if not route.packed[number]:
            self._view = matrices_of(array, axes, route, number)

    def on(self, memory: Array) -> _Operand:
        """Return the operand as one of several threads sees it, with a tile of its own."""
        mine = copy.copy(self)
        mine._copying = copying_alone
        if mine._view is None:
            mine._memory = memory
        return mine

    def load_whole(self, do: Do) -> None:
        """Pack the operand where that is done before the first box."""
        if self._view is None and not self._is_tiled:
            dims = self._source.shape
            self._pack(do, self._source)
            axes = Axes.dense(self._order, dims)
            self._view = matrices_of(self._memory, axes, self._route, self._number)

    def loaded(self, do: Do, box: _Box) -> Array:
        """Return the matrices of a box; a tile stays until another one is asked for."""
        if self._view is not None:
            return self._part(self._view, box)
        slices = {label: box.slices[label] for label in self._order}
        if slices != self._held:
            self._held = slices
            self._tile = self._shaped(box)
            self._pack(do, part_of(self._source, tuple(slices.values())))
        return self._tile

    def matrices(self, box: _Box) -> Array:
        """Return the matrices of a box of the result, to be written."""
        if self._view is not None:
            return self._part(self._view, box)
        return self._shaped(box)

    def store(self, do: Do, box: _Box) -> None:
        """Copy a tile of the result to where it lies."""
        if self._view is None:
            place = part_of(self._source, tuple(box.slices[label] for label in self._order))
            self._copy(do, self._memory[: place.size].reshape(place.shape), place)

    def _pack(self, do: Do, part: Array) -> None:
        tile = self._memory[: part.size].reshape(part.shape)
        if self._common.is_inexact and part.dtype.kind == "i":
            do(_load_rounded, part, tile, self._common)
        else:
            self._copy(do, part, tile)

    def _copy(self, do: Do, source: Array, out: Array) -> None:
        function, arguments = self._copying(source, out)
        do(function, *arguments)

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


def _parted(memory: Array, sizes: Sizes) -> list[Array]:
    ends = itertools.accumulate(sizes)
    return [memory[end - size : end] for size, end in zip(sizes, ends, strict=True)]


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


def _load_rounded(source: Array, tile: Array, common: DType) -> None:
    """Write integers that meet others, as `common` holds them, into a tile."""
    result = np.empty(source.shape, common.numpy)
    convert(source, result)
    convert(result, tile)


def _call(function: Callable[..., Any], *arguments: Any) -> None:
    function(*arguments)
