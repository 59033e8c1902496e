"""How rows with ops around them lie: their axes in the result and in every operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, broadcast_strides, fuse_axes
from softcuda.backends.cuda.layouts import Lies
from softcuda.backends.launches import Argument, read
from softcuda.backends.steps import Micro, Operand
from softcuda.dtype import DType
from softcuda.graph.lines import Line
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["RowLayout", "RowWindow", "first_row_axis", "row_layout", "row_window"]

_STRIDED_BYTES: Final = 1 << 20  # of an operand that is read element by element


class RowWindow(NamedTuple):
    """An operand of the kernel: its pointer, dtype, offset [elements], strides over the rows."""

    pointer: Argument
    dtype: DType
    offset: int
    strides: Dims


class RowLayout(NamedTuple):
    """The axes of all sets, the result's first; how each operand lies along a row, and begins."""

    outer: Axes
    inner: Axes
    lies: tuple[Lies, ...]
    offsets: Dims

    def is_even(self, width: int) -> bool:
        """Return whether rows are vectors from end to end in all that is moved by vectors."""
        found = [self.inner.numel, *self.outer.strides[0]]
        for lies, strides, offset in zip(
            self.lies, self.outer.strides[1:], self.offsets, strict=True
        ):
            if lies is Lies.ROW:
                found += [*strides, offset]
        return all(number % width == 0 for number in found)


def first_row_axis(anchor: Micro | Line) -> int:
    """Return the first axis of a row; the rank where axes that are longer than 1 lie behind it."""
    dims, params = anchor.dims, anchor.params
    if anchor.op.name == "layer_norm":
        return len(dims) - int(params.axes_count)
    axis = int(params.axis)
    return axis if numel(dims[axis + 1 :]) == 1 else len(dims)


def row_window(x: Operand, number: int, dims: Dims) -> RowWindow:
    """Return operand `number` of a unit as it is read over the extents of its rows."""
    return RowWindow(read(number), x.dtype, x.offset, broadcast_strides(x.dims, x.strides, dims))


def row_layout(dims: Dims, at: int, windows: Sequence[RowWindow]) -> RowLayout | None:
    """Return how rows lie; None where no one axis runs along a row, or one is turned.

    Kernels of elementwise ops turn a large operand by tiles; here it would be read by elements.
    """
    sets = [contiguous_strides(dims), *(window.strides for window in windows)]
    inner = fuse_axes(dims[at:], [strides[at:] for strides in sets])
    outer = fuse_axes(dims[:at], [strides[:at] for strides in sets])
    if inner.rank != 1 or inner.strides[0] != (1,):
        return None
    kinds = {0: Lies.SINGLE, 1: Lies.ROW}
    lies = tuple(kinds.get(strides[0], Lies.STRIDED) for strides in inner.strides[1:])
    for how, window in zip(lies, windows, strict=True):
        if how is Lies.STRIDED and _read_bytes(dims, window) > _STRIDED_BYTES:
            return None
    return RowLayout(outer, inner, lies, tuple(window.offset for window in windows))


def _read_bytes(dims: Dims, window: RowWindow) -> int:
    """Return the bytes of an operand, of what is broadcast once."""
    pairs = zip(dims, window.strides, strict=True)
    return numel(tuple(d for d, step in pairs if step)) * window.dtype.itemsize
