"""Layouts: which buffer each line looks at, with which offset and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softcuda.backends.steps import Operand
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.views import view_strides

__all__ = ["Layout", "layout_of", "next_layout", "operand_at", "seen_through", "viewed_lines"]


class Layout(NamedTuple):
    """The line that owns the buffer; offset and strides in elements."""

    base: int
    offset: int
    strides: Dims


def layout_of(
    number: int, line: Line, before: Sequence[Layout], lines: Sequence[Line]
) -> Layout | None:
    """Return the layout of line `number`, those of the earlier lines given.

    Computed values are dense and row-major in a buffer of their own; leaves have their own
    strides; views look at what they view.

    Returns:
        The layout, or None for a reshape that needs a copy of its operand first.
    """
    if line.op.kind is Kind.LEAF:
        strides = line.params.strides if line.op.name != "constant" else ()
        return Layout(number, 0, strides)
    if line.op.kind is not Kind.VIEW:
        return Layout(number, 0, contiguous_strides(line.dims))
    source = line.inputs[0]
    base, offset, strides = before[source]
    window = view_strides(line.op.name, line.params, lines[source].dims, strides)
    if window is None:
        return None
    return Layout(base, offset + window.offset, _forward(line.dims, window.strides))


def next_layout(before: Sequence[Layout], lines: Sequence[Line]) -> Layout:
    """Return the layout of the first line that has none yet, in a graph that was simplified.

    Args:
        before: the layouts of the earlier lines.
        lines: those, and the line behind them.

    Raises:
        AssertionError: a view needs a copy that simplify did not place.
    """
    number = len(before)
    found = layout_of(number, lines[number], before, lines)
    if found is None:
        raise AssertionError(f"line %{number} needs a copy; simplify places it")
    return found


def _forward(dims: Dims, strides: Dims) -> Dims:
    """Return the strides, none negative where the extent is 1: no element lies behind it."""
    if min(strides, default=0) >= 0:
        return strides
    return tuple(abs(s) if d <= 1 else s for d, s in zip(dims, strides, strict=True))


def operand_at(line: Line, layout: Layout) -> Operand:
    """Return what a step reads where it reads this line."""
    return Operand(layout.base, layout.offset, line.dims, layout.strides, line.dtype)


def seen_through(
    views: Sequence[int], line: Line, layout: Layout, lines: Sequence[Line]
) -> Layout | None:
    """Return the layout of a line's value seen through views of another one of its extents.

    Args:
        views: numbers of the views, in the order in which they are taken.
        line: whose value is seen.
        layout: how it lies.
        lines: of the graph.

    Returns:
        The layout, or None for a reshape that needs a copy of the value first.
    """
    dims, (base, offset, strides) = line.dims, layout
    for number in views:
        view = lines[number]
        window = view_strides(view.op.name, view.params, dims, strides)
        if window is None:
            return None
        dims, offset = view.dims, offset + window.offset
        strides = _forward(dims, window.strides)
    return Layout(base, offset, strides)


def viewed_lines(lines: Sequence[Line], source: int) -> tuple[int, tuple[int, ...]]:
    """Return the line that a line is a view of, itself where it is none, and the views behind it.

    The views come in the order in which they are taken.
    """
    views: list[int] = []
    while lines[source].op.kind is Kind.VIEW:
        views.append(source)
        source = lines[source].inputs[0]
    return source, tuple(views[::-1])
