"""Views: how each view op changes the offset and strides of what it looks at."""

from __future__ import annotations

from typing import Any, NamedTuple

from softcuda.errors import ArgumentError
from softcuda.graph.params import Dims
from softcuda.graph.shapes import reshape_strides

__all__ = ["Window", "view_strides"]


class Window(NamedTuple):
    """Where a view begins, relative to what it looks at, and its strides [elements]."""

    offset: int
    strides: Dims


def view_strides(op: str, params: Any, dims: Dims, strides: Dims) -> Window | None:
    """Return the window of a view op over a tensor of these extents and strides.

    Args:
        op: reshape, permute, broadcast_to, slice or diagonal.
        params: the op's params.
        dims: extents of the operand.
        strides: its strides [elements].

    Returns:
        The window, or None for a reshape that only a copy can do.

    Raises:
        ArgumentError: `op` is no view.
    """
    if op == "permute":
        return Window(0, tuple(strides[axis] for axis in params.axes))
    if op == "reshape":
        found = reshape_strides(dims, strides, params.dims)
        return None if found is None else Window(0, found)
    if op == "broadcast_to":
        shift = len(params.dims) - len(dims)
        stretched = tuple(
            s if d == params.dims[axis + shift] else 0
            for axis, (d, s) in enumerate(zip(dims, strides, strict=True))
        )
        return Window(0, (0,) * shift + stretched)
    if op == "slice":
        offset = sum(
            start * s
            for start, s, size in zip(params.starts, strides, params.sizes, strict=True)
            if size
        )
        return Window(
            offset, tuple(s * step for s, step in zip(strides, params.steps, strict=True))
        )
    if op == "diagonal":
        row, column = strides[params.axis1], strides[params.axis2]
        offset = params.offset * column if params.offset >= 0 else -params.offset * row
        axes = (params.axis1, params.axis2)
        rest = tuple(s for axis, s in enumerate(strides) if axis not in axes)
        return Window(offset, (*rest, row + column))
    raise ArgumentError(
        f"{op!r} is no view; views are reshape, permute, broadcast_to, slice, diagonal"
    )
