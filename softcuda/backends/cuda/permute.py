"""Launches of permuted copies: the kernel that fits the strides, and its tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import MAX_INDEX, fuse_axes
from softcuda.backends.cuda.permute_costs import cost, walked
from softcuda.backends.cuda.permute_kinds import KINDS, THREADS, TileKind
from softcuda.backends.cuda.tile_orders import packed_tiling
from softcuda.backends.cuda.tiles import MovedAxis, TiledCopy, in_lanes, tiled_copies
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, write
from softcuda.errors import BackendError
from softcuda.graph.params import Dims
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "PERMUTE_KERNELS",
    "Choice",
    "Copy",
    "Side",
    "cheapest",
    "choice_of",
    "copy_launch",
    "further_permutations",
    "grid_of",
    "launch_of",
    "needs_wide",
]

_LANE_BYTES: Final = (16, 8, 4, 2, 1)
_REORDERED: Final = 12  # choices for which every order of the tiles is looked at

# All of words of 4 bytes and more; of smaller ones those with the most registers. The others are
# compiled when a graph needs them.
PERMUTE_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(
    kind.spec for kind in KINDS if kind.lane_bytes >= 4 or kind.rows * kind.columns >= 16
)


def further_permutations() -> Iterator[KernelSpec]:
    """Yield the kernels of permuted copies, those that are compiled when met too."""
    yield from (kind.spec for kind in KINDS)


class Side(NamedTuple):
    """One side of a copy: where its first element is and its strides [elements]."""

    offset: int
    strides: Dims


class Copy(NamedTuple):
    """A copy, its axes fused.

    Attributes:
        axes: in elements, the fastest of the output first; at least one.
        itemsize: bytes an element.
        offsets: of the first element in the buffers of input and output [elements].
    """

    axes: tuple[MovedAxis, ...]
    itemsize: int
    offsets: tuple[int, int]

    @classmethod
    def of(cls, dims: Dims, given: Side, made: Side, itemsize: int) -> Copy:
        """Return the copy of a strided view; `dims` has no 0."""
        axes = fuse_axes(dims, [given.strides, made.strides])
        moved = map(MovedAxis, axes.dims, *axes.strides)
        ordered = sorted(moved, key=lambda axis: abs(axis.step_out))
        offsets = (given.offset, made.offset)
        return cls(tuple(ordered) or (MovedAxis(1, 1, 1),), itemsize, offsets)

    def in_lanes(self, lane_bytes: int) -> tuple[MovedAxis, ...]:
        """Return the axes in lanes of a size; none where it has no such lanes."""
        lane, rest = divmod(lane_bytes, self.itemsize)
        if rest or not lane or any(offset % lane for offset in self.offsets):
            return ()
        return in_lanes(self.axes, lane) or ()

    def tiled(self, kind: TileKind) -> list[TiledCopy]:
        """Return the ways to cut it into tiles for a kernel."""
        axes, (first, second) = self.in_lanes(kind.lane_bytes), self.offsets
        lane = max(kind.lane_bytes // self.itemsize, 1)
        if not axes or first // lane % kind.columns or second // lane % kind.rows:
            return []
        return [
            tiled for tiled in tiled_copies(axes, kind.access) if kind.is_wide == needs_wide(tiled)
        ]


class Choice(NamedTuple):
    """The kernel of a copy, and its tiles."""

    kind: TileKind
    tiled: TiledCopy


@lru_cache(maxsize=1024)
def choice_of(copy: Copy, target: Target) -> Choice:
    """Return the cheapest kernel and tiles for the widest lanes that a copy has.

    Raises:
        BackendError: no kernel takes its axes.
    """
    for lane_bytes in _LANE_BYTES:
        found = [
            Choice(kind, tiled)
            for kind in KINDS
            if kind.lane_bytes == lane_bytes
            for tiled in copy.tiled(kind)
        ]
        if found:
            return cheapest(found, target)
    raise BackendError(f"a copy of axes {copy.axes} fits no kernel of cuda_permute")


def cheapest(choices: Sequence[Choice], target: Target) -> Choice:
    """Return the choice of least cost, its tiles in the best order."""
    costs = [cost(kind, tiled, target) for kind, tiled in choices]
    order = sorted(range(len(choices)), key=costs.__getitem__)[:_REORDERED]
    made = [Choice(choices[k].kind, each) for k in order for each in walked(choices[k].tiled)]
    return min(made, key=lambda choice: cost(choice.kind, choice.tiled, target))


def copy_launch(
    dims: Dims, source: Argument, given: Side, made: Side, itemsize: int, target: Target
) -> KernelLaunch:
    """Return the launch that copies a strided view into a part of the step's output.

    Args:
        dims: extents, none of them 0.
        source: the pointer to the first element that is read.
        given: the strides of what is read, and its offset in its buffer, for its alignment.
        made: the strides of what is written, and the offset of its first element in the output.
        itemsize: bytes an element.
        target: its multiprocessors and memory decide on the number of blocks.

    Raises:
        BackendError: the copy has more tiles than a grid can count.
    """
    copy = Copy.of(dims, given, made, itemsize)
    kind, tiled = choice_of(copy, target)
    return launch_of(kind, tiled, source, made.offset * itemsize, target)


def launch_of(
    kind: TileKind, tiled: TiledCopy, source: Argument, first_bytes: int, target: Target
) -> KernelLaunch:
    """Return the launch of a kernel over the tiles of a copy.

    Args:
        kind: the kernel.
        tiled: the copy in its tiles.
        source: the pointer to the first element that is read.
        first_bytes: where in the output the first lane lies [bytes].
        target: see `copy_launch`.
    """
    arguments = (write(), source, i64(first_bytes // kind.lane_bytes))
    grid = (grid_of(kind, tiled, target), 1, 1)
    data = packed_tiling(tiled, kind.is_wide)
    spec = kind.spec
    return KernelLaunch(spec, grid, (*arguments, packed(data)), (THREADS, 1, 1), spec.shared_bytes)


def needs_wide(tiled: TiledCopy) -> bool:
    """Return whether an offset inside a tile passes 2^31."""
    pairs = list(zip(tiled.axes, tiled.parts, strict=True))
    reaches = [
        sum((part - 1) * abs(axis.steps[side]) for axis, part in pairs)
        for side in range(len(tiled.axes[0].steps))
    ]
    return max(reaches) + 16 > MAX_INDEX


def grid_of(kind: TileKind, tiled: TiledCopy, target: Target) -> int:
    """Return the number of blocks that take the tiles of a copy.

    Raises:
        BackendError: a grid cannot count them.
    """
    count = math.prod(tiled.counts)
    if count > MAX_INDEX:
        raise BackendError(
            f"a copy in {count} tiles is beyond what cuda_permute counts; allowed are {MAX_INDEX}"
        )
    return kind.grid(count, target)
