"""The index space of a reduction: axes sorted and fused, the struct Space of reduce_space.cuh."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.graph.params import Dims
from softcuda.graph.shapes import numel

__all__ = [
    "SPLIT_BESIDE",
    "SPLIT_CHUNKS",
    "SPLIT_REST",
    "Axis",
    "Loops",
    "Shared",
    "loops_of",
    "pack_divisor64",
    "pack_space",
]

SPLIT_REST: Final = 0
SPLIT_BESIDE: Final = 1
SPLIT_CHUNKS: Final = 2


class Axis(NamedTuple):
    """One fused axis: its extent, and the stride [elements] of every set."""

    extent: int
    strides: Dims


@dataclass(frozen=True, slots=True)
class Loops:
    """A reduction's loops; stride sets are those of the results, then those of the sources.

    Attributes:
        kept: outer kept axes, outermost first.
        rest: outer reduced axes but one, outermost first.
        beside: the longest outer reduced axis; of extent 1 where there is none.
        inner: the innermost axis.
        is_rows: whether the innermost axis is reduced.
    """

    kept: tuple[Axis, ...]
    rest: tuple[Axis, ...]
    beside: Axis
    inner: Axis
    is_rows: bool

    @property
    def outer_kept(self) -> int:
        """Numbers of the outer kept axes."""
        return numel(tuple(axis.extent for axis in self.kept))

    @property
    def outer_reduced(self) -> int:
        """Numbers of the outer reduced axes."""
        return self.beside.extent * numel(tuple(axis.extent for axis in self.rest))

    @property
    def results(self) -> int:
        """Elements of the result."""
        return self.outer_kept * (1 if self.is_rows else self.inner.extent)

    @property
    def kept_axes(self) -> tuple[Axis, ...]:
        """All kept axes, outermost first: the order in which results are numbered."""
        return self.kept if self.is_rows else (*self.kept, self.inner)


class Shared(NamedTuple):
    """How the loops are shared by threads: see Space of reduce_space.cuh."""

    outputs: int
    results: int
    team_log: int
    is_even: bool
    is_beside_even: bool
    split: int
    each: int = 0
    by_chunk: bool = False
    turn: int = 1
    longs: int = 1


def loops_of(dims: Dims, reduced: Sequence[int], results: int, strides: Sequence[Dims]) -> Loops:
    """Return the loops of a reduction, with as few axes as possible.

    Args:
        dims: extents of what is reduced.
        reduced: its reduced axes.
        results: how many of the stride sets are those of results; the others are sources.
        strides: sets of strides over `dims`.
    """
    if 0 in dims:
        live = [axis for axis in range(len(dims)) if axis not in reduced]
        kept = _group(dims, live, results, strides)
        none = (0,) * len(strides)
        return Loops(tuple(kept), (), Axis(1, none), Axis(0, none), True)
    kept = _group(dims, [a for a in range(len(dims)) if a not in reduced], results, strides)
    gone = _group(dims, list(reduced), results, strides)
    single = Axis(1, (0,) * len(strides))
    is_rows = not kept or (bool(gone) and _reach(gone[-1], results) <= _reach(kept[-1], results))
    group = gone if is_rows else kept
    inner = group.pop() if group else single
    beside = max(gone, key=lambda axis: axis.extent, default=single)
    if gone:
        gone.remove(beside)
    return Loops(tuple(kept), tuple(gone), beside, inner, is_rows)


def _group(dims: Dims, axes: Sequence[int], results: int, strides: Sequence[Dims]) -> list[Axis]:
    """Return some of the axes, those that step far first, fused."""

    def reach(axis: int) -> float:
        return _reach(Axis(dims[axis], tuple(s[axis] for s in strides)), results)

    ordered = sorted(axes, key=reach, reverse=True)
    fused: Axes = fuse_axes(
        tuple(dims[a] for a in ordered), [tuple(s[a] for a in ordered) for s in strides]
    )
    return [
        Axis(extent, tuple(s[place] for s in fused.strides))
        for place, extent in enumerate(fused.dims)
    ]


def _reach(axis: Axis, results: int) -> float:
    """Return how far the sources step; those that do not step at all are best outermost."""
    return sum(map(abs, axis.strides[results:])) or math.inf


def pack_space(options: bytes, loops: Loops, shared: Shared, rank: int) -> bytes:
    """Return the bytes of `Space` of reduce_space.cuh.

    Args:
        options: the bytes of Options.
        loops: what is reduced, with tiles of columns as innermost kept axis where it has these.
        shared: how threads share it.
        rank: at least the number of kept and rest axes.
    """
    axes = (*reversed(loops.kept), *reversed(loops.rest))
    spare = rank - len(axes)
    counts = (
        *(shared.outputs, shared.results, loops.inner.extent, loops.beside.extent),
        *(numel(tuple(axis.extent for axis in loops.rest)), shared.each),
    )
    flags = (
        *(len(loops.kept), shared.team_log, shared.is_even, shared.is_beside_even),
        *(shared.split, shared.by_chunk, len(loops.rest)),
        *(shared.turn.bit_length() - 1, shared.longs),
    )
    parts = [options, struct.pack("<6q9i4x", *counts, *flags)]
    parts += [pack_divisor64(axis.extent) for axis in axes]
    parts.append(pack_divisor64(1) * spare)
    for number in range(len(loops.inner.strides)):
        steps = [*(axis.strides[number] for axis in axes), *([0] * spare)]
        parts.append(struct.pack(f"<{rank}q", *steps))
    for axis in (loops.inner, loops.beside):
        parts.append(struct.pack(f"<{len(axis.strides)}q", *axis.strides))
    return b"".join(parts)


def pack_divisor64(extent: int) -> bytes:
    """Return the bytes of `Divisor64`: n // extent == (mulhi(n, multiplier) + n) >> shift."""
    shift = (extent - 1).bit_length()
    multiplier = (2**64 * (2**shift - extent)) // extent + 1
    return struct.pack("<QQq", extent, multiplier, shift)
