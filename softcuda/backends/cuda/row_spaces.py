"""Rows of a tensor: their axes sorted and fused, and the struct RowSpace of row_space.cuh."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.cuda.spaces import pack_divisor64
from softcuda.graph.params import Dims

__all__ = ["RowAxes", "axis_rows", "pack_rows"]

_MAX_RANK: Final = 64


class RowAxes(NamedTuple):
    """The axes that number rows, and the step [elements] of every stride set along a row."""

    outer: Axes
    steps: Dims

    def is_columns(self, source: int) -> bool:
        """Return whether neighbouring rows lie closer than the elements of a row do."""
        inner = self.outer.inner_strides
        beside = abs(inner[source]) if inner else 0
        return 0 < beside < abs(self.steps[source])


def axis_rows(dims: Dims, axis: int, strides: Sequence[Dims], source: int) -> RowAxes:
    """Return the rows along one axis, those that lie closest in `source` numbered innermost.

    Args:
        dims: extents, none of them 0.
        axis: runs along a row.
        strides: sets of strides over `dims`.
        source: the set that decides the order.
    """

    def reach(other: int) -> float:
        return abs(strides[source][other]) or math.inf

    others = sorted((a for a in range(len(dims)) if a != axis), key=reach, reverse=True)
    outer = fuse_axes(
        tuple(dims[a] for a in others), [tuple(s[a] for a in others) for s in strides]
    )
    return RowAxes(outer, tuple(s[axis] for s in strides))


def pack_rows(
    outer: Axes, inner: Axes, team_log: int, is_even: bool, rank: int = _MAX_RANK
) -> bytes:
    """Return the bytes of `RowSpace<SETS, RANK>`.

    Args:
        outer: the axes that number rows, with SETS sets of strides.
        inner: the axes along a row, likewise.
        team_log: log2 of a team, or of a block's columns.
        is_even: all vectors are whole, if the pointers are aligned.
        rank: RANK, at least as many as there are axes.
    """
    counts = (outer.numel, inner.numel, outer.rank, inner.rank, team_log, is_even)
    axes = (*reversed(outer.dims), *reversed(inner.dims))
    spare = rank - len(axes)
    steps = [strides[-1] if strides else 0 for strides in outer.strides]
    parts = [struct.pack(f"<2q4i{len(steps)}q", *counts, *steps)]
    parts += [pack_divisor64(extent) for extent in axes]
    parts.append(pack_divisor64(1) * spare)
    for first, second in zip(outer.strides, inner.strides, strict=True):
        every = (*reversed(first), *reversed(second), *([0] * spare))
        parts.append(struct.pack(f"<{rank}q", *every))
    return b"".join(parts)
