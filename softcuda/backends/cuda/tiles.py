"""Tiles of a permuted copy: which box of the index space a block moves at once.

A tile holds long runs of both sides: of the axes that are fastest in the input and of those that
are fastest in the output. Every axis of a side but the last that it takes is whole, so a tile is a
part of at most two axes. Pure arithmetic; `tile_orders.py` packs the outcome for the kernels.

Source: Springer, Su, Bientinesi, "HPTT: A High-Performance Tensor Transposition C++ Library", 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["Access", "MovedAxis", "TiledCopy", "Walk", "in_lanes", "tiled_copies"]

TILE_AXES: Final = 16

_SECTOR: Final = 32  # bytes that memory moves at least


class MovedAxis(NamedTuple):
    """An axis of a copy: its extent, and what one step means on both sides [elements or lanes].

    `others` is what it means for further operands, which are read as the output is written.
    """

    extent: int
    step_in: int
    step_out: int
    others: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """What one step means on every side: input, output, others."""
        return (self.step_in, self.step_out, *self.others)


class Walk(Enum):
    """Whose order blocks take tiles in: the output's, the input's, axes of partial tiles first."""

    OUTPUT = "output"
    INPUT = "input"
    PARTS = "parts"


class Access(NamedTuple):
    """How a kernel moves a tile.

    Attributes:
        lane_bytes: bytes of a lane, the unit of all steps here.
        rows: lanes of a vector that is written, along axis 0.
        columns: lanes of a vector that is read, along the axis that leads in the input.
        capacity: lanes that a tile holds.
        is_direct: the tile goes straight through registers, without shared memory.
    """

    lane_bytes: int
    rows: int
    columns: int
    capacity: int
    is_direct: bool


@dataclass(frozen=True, slots=True)
class TiledCopy:
    """A copy cut into tiles.

    Attributes:
        axes: in lanes, in the order of the output, the fastest first.
        parts: the extent of each axis inside a tile.
        inner: the axis that leads in the input.
        access: how a tile is moved.
        walk: the order in which blocks take tiles.
    """

    axes: tuple[MovedAxis, ...]
    parts: tuple[int, ...]
    inner: int
    access: Access
    walk: Walk = Walk.PARTS

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of tiles along each axis."""
        return tuple(-(-a.extent // p) for a, p in zip(self.axes, self.parts, strict=True))

    def order(self, of_input: bool) -> list[int]:
        """Return the axes of the tile, the fastest of one side first."""
        inside = [k for k, part in enumerate(self.parts) if part > 1]
        return _by_input(self.axes, inside) if of_input else inside

    def grid(self) -> list[int]:
        """Return the axes along which there are several tiles, in the order blocks take them."""
        several = [k for k, tiles in enumerate(self.counts) if tiles > 1]
        if self.walk is Walk.INPUT:
            return _by_input(self.axes, several)
        if self.walk is Walk.PARTS:
            return sorted(several, key=lambda k: self.parts[k] == 1)
        return several

    def in_walk(self, walk: Walk) -> TiledCopy:
        """Return the same tiles, taken in another order."""
        return self if walk is self.walk else replace(self, walk=walk)

    def vector(self, axis: int) -> int:
        """Return the lanes of an axis that one access moves."""
        rows = self.access.rows if axis == 0 else 1
        return rows * (self.access.columns if axis == self.inner else 1)


def in_lanes(axes: Sequence[MovedAxis], lane: int) -> tuple[MovedAxis, ...] | None:
    """Return a copy in lanes of `lane` neighbours; None where these are not everywhere neighbours.

    Args:
        axes: fused, in elements, in the order of the output, the fastest first.
        lane: elements.
    """
    if lane == 1:
        return tuple(axes)
    first, *others = axes
    steps = [step for axis in others for step in axis.steps]
    if first.steps != (1, 1) or first.extent % lane or any(step % lane for step in steps):
        return None
    made = [MovedAxis(a.extent, a.step_in // lane, a.step_out // lane) for a in others]
    if first.extent > lane or not made:
        made.insert(0, MovedAxis(first.extent // lane, 1, 1))
    return tuple(made)


def tiled_copies(axes: Sequence[MovedAxis], access: Access) -> list[TiledCopy]:
    """Return ways to cut a copy into tiles for a kernel; none where its vectors do not fit.

    Args:
        axes: in lanes, in the order of the output, the fastest first.
        access: how the kernel moves a tile.
    """
    inner = _input_axis(axes)
    joint = inner == 0 or abs(axes[inner].step_in) * access.lane_bytes >= _SECTOR
    if not joint and access.is_direct:
        return []
    if not _has_vectors(axes, inner, access):
        return []
    if joint:
        # The first axis but the shared one: what else the input has near to it.
        order = [k for k in _by_input(axes, range(len(axes))) if k != 0]
        if access.columns * access.rows > 1:
            return []
        inner = order[0] if order else 0
    found = {}
    for wanted in _targets(access):
        tile = _grown(axes, inner, joint, wanted, access)
        parts = tuple(tile.parts.get(k, 1) for k in range(len(axes)))
        if math.prod(parts) <= access.capacity and parts not in found:
            found[parts] = TiledCopy(tuple(axes), parts, inner, access)
    return list(found.values())


def _targets(access: Access) -> list[int]:
    """Return numbers of lanes that a tile shall read as neighbours, about a factor 1.4 apart."""
    doubled = [access.columns << k for k in range(access.capacity.bit_length())]
    every = sorted({*doubled, *(3 * d // 2 for d in doubled)})
    return [
        wanted for wanted in every if wanted <= access.capacity and wanted % access.columns == 0
    ]


def _has_vectors(axes: Sequence[MovedAxis], inner: int, access: Access) -> bool:
    """Return whether vectors of rows and of columns lie alike everywhere."""
    rows, columns = access.rows, access.columns
    if rows > 1 and (axes[0].step_out != 1 or axes[0].extent % rows):
        return False
    if columns > 1 and (axes[inner].step_in != 1 or axes[inner].extent % columns):
        return False
    if rows * columns > 1 and inner == 0:
        return False
    return all(
        (k == inner or axis.step_in % columns == 0) and (k == 0 or axis.step_out % rows == 0)
        for k, axis in enumerate(axes)
    )


def _input_axis(axes: Sequence[MovedAxis]) -> int:
    """Return the axis with the smallest stride in the input that is not 0; the first if none."""
    moving = [k for k, axis in enumerate(axes) if axis.step_in]
    return min(moving, key=lambda k: abs(axes[k].step_in), default=0)


def _by_input(axes: Sequence[MovedAxis], chosen: Sequence[int]) -> list[int]:
    """Return axes by their stride in the input; those that do not move it last."""
    return sorted(chosen, key=lambda k: (axes[k].step_in == 0, abs(axes[k].step_in)))


def _balanced(extent: int, most: int, grain: int) -> int:
    """Return a part of at most `most` that cuts an extent into equal parts, a multiple of grain."""
    if extent <= most:
        return extent
    most = max(most // grain * grain, grain)
    part = -(-extent // -(-extent // most))
    return min(-(-part // grain) * grain, extent)


@dataclass(slots=True)
class _Tile:
    """A tile that grows: its extent along each axis that it takes, its lanes."""

    axes: Sequence[MovedAxis]
    lane_bytes: int
    parts: dict[int, int]
    volume: int = 1

    def take(self, axis: int, most: int, below: int, vector: int = 1) -> None:
        """Take at most `most` values of an axis.

        Args:
            axis: not taken yet.
            most: at least `vector`.
            below: neighbours that each value has already; parts end where sectors end.
            vector: parts are multiples of it.
        """
        grain = math.lcm(vector, _SECTOR // math.gcd(_SECTOR, below * self.lane_bytes))
        grain = grain if 2 * grain <= most else vector
        part = _balanced(self.axes[axis].extent, most, grain)
        self.parts[axis] = part
        self.volume *= part

    def widen(self, order: Sequence[int], target: int, capacity: int) -> None:
        """Take further axes of one side until it holds `target` neighbours."""
        length = 1
        for axis in order:
            if axis not in self.parts:
                room = capacity // self.volume
                if length >= target or room < 2 or len(self.parts) == TILE_AXES - 1:
                    return
                self.take(axis, min(room, -(-target // length)), length)
            length *= self.parts[axis]
            if self.parts[axis] < self.axes[axis].extent:
                return


def _grown(
    axes: Sequence[MovedAxis], inner: int, joint: bool, wanted: int, access: Access
) -> _Tile:
    """Return the tile that reads about `wanted` neighbours and spends the rest on the output.

    Args:
        axes: axis 0 has the smallest stride in the output.
        inner: the axis with the smallest stride in the input, of a joint copy axis 0 left out.
        joint: axis 0 is also the fastest of the input; the tile holds it whole if it can.
        wanted: lanes.
        access: how a tile is moved.
    """
    by_input, by_output = _by_input(axes, range(len(axes))), range(len(axes))
    tile, capacity = _Tile(axes, access.lane_bytes, {}), access.capacity
    if joint:
        tile.take(0, capacity, 1)
        if tile.parts[0] < axes[0].extent:
            return tile
        tile.widen(by_input, wanted, capacity)
    else:
        room = max(capacity // wanted, access.rows)
        tile.take(0, room, 1, access.rows)
        room = max(min(wanted, capacity // tile.volume), access.columns)
        tile.take(inner, room, 1, access.columns)
        tile.widen(by_input, wanted, capacity)
    tile.widen(by_output, capacity, capacity)
    tile.widen(by_input, capacity, capacity)
    return tile
