"""An operand of a contraction in boxes: taken where it lies, packed whole, or tile by tile."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.contraction import with_axes
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.copies import copying, copying_alone
from softcuda.backends.host.routes import Route, matrix_axes
from softcuda.backends.host.tiles import part_of
from softcuda.backends.host.tiling import Tiling
from softcuda.contraction.axes import Axes
from softcuda.dtype import DType

__all__ = ["Do", "LabelBox", "PackedOperand", "matrices_of", "oriented", "stack_of", "vectors_of"]

Array = np.ndarray[Any, Any]
Do = Callable[..., None]  # makes a call of a function with arguments, or notes it

_WHOLE: Final = slice(None)


class LabelBox(NamedTuple):
    """One box: the slice of each label, and those of the matrix axes m, n and k."""

    slices: dict[int, slice]
    m: slice
    n: slice
    k: slice


def stack_of(axes: Axes, route: Route, number: int) -> Axes:
    """Return the axes of an operand as a stack of matrices, where they allow that.

    Args:
        axes: where its labels lie.
        route: which of them are rows and columns.
        number: 0 for a, 1 for b, 2 for out.

    Returns:
        Axes [loops, rows, columns]; a loop that the operand lacks has extent 1.
    """
    rows, columns = (_one_axis(axes.over(labels)) for labels in route.matrices[number])
    return matrix_axes(axes.over(route.loops), rows, columns)


def matrices_of(array: Array, axes: Axes, route: Route, number: int) -> Array:
    """Return an operand as a stack of matrices; its first element is that of `array`."""
    return with_axes(array, stack_of(axes, route, number))


def _one_axis(run: Axes) -> tuple[int, int]:
    """Return (extent, stride) of axes that follow each other."""
    inner = (s for d, s in zip(reversed(run.dims), reversed(run.strides), strict=True) if d > 1)
    return run.numel, next(inner, 0)


def oriented(a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return (a, b, out), or (b^T, a^T, out^T) where the rows of out lie side by side."""
    if out.strides[-1] <= out.strides[-2]:
        return a, b, out
    return b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)


def vectors_of(a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return (a, b, out) of one product with a vector for a matrix of one row or one column.

    Args:
        a: [m, k].
        b: [k, n].
        out: [m, n], m or n is 1.
    """
    if len(a) == 1:
        a, out = a[0], out[0]
    if b.shape[1] == 1:
        b, out = b[:, 0], out[..., 0]
    return a, b, out


class PackedOperand:
    """An operand as stacks of matrices.

    Args:
        route: which operands are packed, and how.
        tiling: the boxes.
        number: 0 for a, 1 for b, 2 for out.
        array: axes as in the route's pair.
        memory: scratch for what is packed of it, in the compute dtype.
        common: the dtype that it is rounded to before it becomes the compute dtype.
    """

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
        axes = route.operands[number]
        self._order = route.orders[number]
        self._is_tiled = tiling.tiled[number]
        self._source = with_axes(array, axes.over(self._order))
        self._loops = tuple((label, label in axes.labels) for label in route.loops)
        rows, _ = route.matrices[number]
        self._is_turned = bool(rows) and self._order[-len(rows) :] == rows
        self._pads = ((tiling.pads[0], 0), (0, tiling.pads[1]), tiling.pads)[number]
        self._held: dict[int, slice] | None = None
        self._copying = copying
        self._tile = memory[:0]
        self._view: Array | None = None
        if not route.packed[number]:
            self._view = matrices_of(array, axes, route, number)

    def on(self, memory: Array) -> PackedOperand:
        """Return the operand as one of several threads sees it, with a tile of its own."""
        mine = copy.copy(self)
        mine._copying = copying_alone
        if mine._view is None:
            mine._memory = memory
        return mine

    def forget(self) -> None:
        """Take no tile for packed: its memory may have been used for something else."""
        self._held = None

    def load_whole(self, do: Do) -> None:
        """Pack the operand where that is done before the first box."""
        if self._view is None and not self._is_tiled:
            self._pack(do, self._source)
            extents = self._route.pair.extents
            rows, columns = (
                math.prod(extents[x] for x in labels) + pad
                for labels, pad in zip(self._route.matrices[self._number], self._pads, strict=True)
            )
            loops = [extents[label] if has else 1 for label, has in self._loops]
            self._view = self._stack(loops, rows, columns)

    def loaded(self, do: Do, box: LabelBox) -> Array:
        """Return the matrices of a box; a tile stays until another one is asked for."""
        if self._view is not None:
            return self._part(self._view, box)
        slices = {label: box.slices[label] for label in self._order}
        if slices != self._held:
            self._held = slices
            self._tile = self._shaped(box)
            self._pack(do, part_of(self._source, tuple(slices.values())))
        return self._tile

    def matrices(self, box: LabelBox) -> Array:
        """Return the matrices of a box of the result, to be written."""
        if self._view is not None:
            return self._part(self._view, box)
        return self._shaped(box)

    def store(self, do: Do, box: LabelBox) -> None:
        """Copy a tile of the result to where it lies."""
        if self._view is None:
            place = part_of(self._source, tuple(box.slices[label] for label in self._order))
            self._copy(do, self._unpadded(place.shape)[0], place)

    def _pack(self, do: Do, part: Array) -> None:
        tile, pads = self._unpadded(part.shape)
        for pad in pads:
            do(np.copyto, pad, 0)
        if self._common.is_inexact and part.dtype.kind == "i":
            do(_load_rounded, part, tile, self._common)
        else:
            self._copy(do, part, tile)

    def _copy(self, do: Do, source: Array, out: Array) -> None:
        function, arguments = self._copying(source, out)
        do(function, *arguments)

    def _part(self, view: Array, box: LabelBox) -> Array:
        loops = [box.slices[label] if has else _WHOLE for label, has in self._loops]
        return part_of(view, (*loops, *self._axes_of(box)))

    def _shaped(self, box: LabelBox) -> Array:
        """Return scratch as the matrices of a box."""
        loops = [_extent(box.slices[label]) if has else 1 for label, has in self._loops]
        rows, columns = map(_extent, self._axes_of(box))
        return self._stack(loops, rows, columns)

    def _stack(self, loops: list[int], rows: int, columns: int) -> Array:
        """Return scratch as matrices, in the order of what is packed."""
        count = math.prod(loops) * rows * columns
        if self._is_turned:
            return self._memory[:count].reshape(*loops, columns, rows).swapaxes(-1, -2)
        return self._memory[:count].reshape(*loops, rows, columns)

    def _unpadded(self, dims: tuple[int, ...]) -> tuple[Array, list[Array]]:
        """Return scratch as labels in order, and what lies beside them there.

        Args:
            dims: the extent of each label of a tile, in order.
        """
        if not any(self._pads):
            return self._memory[: math.prod(dims)].reshape(dims), []
        labels, pads = self._route.matrices[self._number], self._pads
        if self._is_turned:
            labels, pads = labels[::-1], pads[::-1]
        last = len(dims) - len(labels[1])
        outer = last - len(labels[0])
        height, width = math.prod(dims[outer:last]), math.prod(dims[last:])
        shape = (*dims[:outer], height + pads[0], width + pads[1])
        whole = self._memory[: math.prod(shape)].reshape(shape)
        beside = [whole[..., height:, :], whole[..., :height, width:]]
        return whole[..., :height, :width].reshape(dims), [x for x in beside if x.size]

    def _axes_of(self, box: LabelBox) -> tuple[slice, slice]:
        """Return the matrix axes of a box; one that is padded is whole."""
        axes = ((box.m, box.k), (box.k, box.n), (box.m, box.n))[self._number]
        rows, columns = (slice(x.start, x.stop + p) for x, p in zip(axes, self._pads, strict=True))
        return rows, columns


def _extent(part: slice) -> int:
    extent: int = part.stop - part.start
    return extent


def _load_rounded(source: Array, tile: Array, common: DType) -> None:
    """Write integers that meet others, as `common` holds them, into a tile."""
    result = np.empty(source.shape, common.numpy)
    convert(source, result)
    convert(result, tile)
