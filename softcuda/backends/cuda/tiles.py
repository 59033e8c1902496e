"""Tiles of a permuted copy: which box of the index space a block moves, and in which order.

A tile holds long runs of both sides: of the axes that are fastest in the input and of those that
are fastest in the output. Every axis of a side but the last that it takes is whole, so a tile is a
part of at most two axes. Pure arithmetic; `permute.py` packs the outcome for the kernels.

Source: Springer, Su, Bientinesi, "HPTT: A High-Performance Tensor Transposition C++ Library", 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["Method", "MovedAxis", "TiledCopy", "tile_copy"]

TILE_AXES: Final = 16

_SECTOR: Final = 32  # bytes that memory moves at least
_RUN: Final = 256  # bytes of a common run from which on no tile is needed


class MovedAxis(NamedTuple):
    """An axis of a copy: its extent, and what one step means on both sides [elements]."""

    extent: int
    step_in: int
    step_out: int


class Method(NamedTuple):
    """How elements are accessed.

    Attributes:
        width: elements that stay neighbours and move as one.
        block: rows and columns that one thread transposes.
        capacity: accesses of `width` elements that a tile through shared memory holds.
        run_capacity: the same of a tile without shared memory.
    """

    width: int
    block: int
    capacity: int
    run_capacity: int


@dataclass(frozen=True, slots=True)
class TiledCopy:
    """A copy cut into tiles.

    Attributes:
        axes: in units of the method's width, in the order of the output, the fastest first.
        parts: the extent of each axis inside a tile.
        inner: the axis that leads in the input.
        block: rows along axis 0 and columns along `inner` that one thread transposes.
        is_direct: the tile goes straight through registers, without shared memory.
    """

    axes: tuple[MovedAxis, ...]
    parts: tuple[int, ...]
    inner: int
    block: int
    is_direct: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of tiles along each axis."""
        return tuple(-(-a.extent // p) for a, p in zip(self.axes, self.parts, strict=True))

    def order(self, of_input: bool) -> list[int]:
        """Return the axes of the tile, the fastest of one side first."""
        inside = [k for k, part in enumerate(self.parts) if part > 1]
        return _by_input(self.axes, inside) if of_input else inside


def tile_copy(axes: Sequence[MovedAxis], itemsize: int, method: Method) -> TiledCopy | None:
    """Return the tiles of a copy by this method; None where its strides do not allow it.

    Args:
        axes: fused, in the order of the output, the fastest first.
        itemsize: bytes an element.
        method: how elements are accessed.
    """
    inner = _input_axis(axes)
    is_joint = inner == 0 or abs(axes[inner].step_in) * itemsize >= _SECTOR
    if method.width > 1:
        if inner != 0 or axes[0].step_in != 1 or not _divides(axes, {0}, method.width):
            return None
        axes = _folded(axes, method.width)
    if method.block > 1:
        if is_joint or axes[inner].step_in != 1 or axes[0].step_out != 1:
            return None
        if not _divides(axes, {0, inner}, method.block):
            return None
    if not is_joint:
        return _best_tile(axes, inner, False, itemsize, method)
    run_bytes = axes[0].extent * method.width * itemsize
    order = _by_input(axes, range(len(axes)))
    has_two_leads = inner == 0 and len(axes) > 2 and order[1] != 1
    if has_two_leads and run_bytes < _RUN and abs(axes[order[1]].step_in) * itemsize < 2 * _RUN:
        return _best_tile(axes, order[1], True, itemsize, method)
    return _direct(axes, method.run_capacity)


def _input_axis(axes: Sequence[MovedAxis]) -> int:
    """Return the axis with the smallest stride in the input that is not 0; the first if none."""
    moving = [k for k, axis in enumerate(axes) if axis.step_in]
    return min(moving, key=lambda k: abs(axes[k].step_in), default=0)


def _by_input(axes: Sequence[MovedAxis], chosen: Sequence[int]) -> list[int]:
    """Return axes by their stride in the input; those that do not move it last."""
    return sorted(chosen, key=lambda k: (axes[k].step_in == 0, abs(axes[k].step_in)))


def _divides(axes: Sequence[MovedAxis], inner: set[int], by: int) -> bool:
    """Return whether vectors of `by` elements along the inner axes lie alike everywhere."""
    for k, axis in enumerate(axes):
        if k in inner and axis.extent % by:
            return False
        if (axis.step_in != 1 or k not in inner) and axis.step_in % by:
            return False
        if (axis.step_out != 1 or k not in inner) and axis.step_out % by:
            return False
    return True


def _folded(axes: Sequence[MovedAxis], width: int) -> list[MovedAxis]:
    first = MovedAxis(axes[0].extent // width, width, width)
    return [first, *axes[1:]]


def _balanced(extent: int, most: int, block: int = 1) -> int:
    """Return a part of at most `most` that cuts an extent into equal parts, a multiple of block."""
    most = max(min(most, extent) // block * block, block)
    part = -(-extent // -(-extent // most))
    return -(-part // block) * block


def _direct(axes: Sequence[MovedAxis], capacity: int) -> TiledCopy:
    """Return the tile that follows the output alone."""
    parts, room = [], capacity
    for number, axis in enumerate(axes):
        part = _balanced(axis.extent, room) if number < TILE_AXES else 1
        parts.append(part)
        room = room // part if part == axis.extent else 1
    return TiledCopy(tuple(axes), tuple(parts), 0, 1, True)


@dataclass(slots=True)
class _Tile:
    """A tile that grows: its extent along each axis that it takes, its elements."""

    axes: Sequence[MovedAxis]
    parts: dict[int, int]
    volume: int = 1

    def take(self, axis: int, most: int, block: int = 1) -> int:
        """Take at most `most` values of an axis; return how many."""
        part = _balanced(self.axes[axis].extent, most, block)
        self.parts[axis] = part
        self.volume *= part
        return part

    def run(self, order: Sequence[int]) -> int:
        """Return the neighbours of one side that the tile holds."""
        length = 1
        for axis in order:
            part = self.parts.get(axis, 1)
            length *= part
            if part < self.axes[axis].extent:
                break
        return length

    def widen(self, order: Sequence[int], target: int, capacity: int) -> None:
        """Take further axes of one side until it holds `target` neighbours."""
        length = 1
        for axis in order:
            part = self.parts.get(axis)
            if part is None:
                room = capacity // self.volume
                if length >= target or room < 2 or len(self.parts) == TILE_AXES - 1:
                    return
                part = self.take(axis, min(room, -(-target // length)))
            length *= part
            if part < self.axes[axis].extent:
                return


def _best_tile(
    axes: Sequence[MovedAxis], inner: int, is_joint: bool, itemsize: int, method: Method
) -> TiledCopy:
    """Return the tile with the longest runs on both sides and the least waste at the edges.

    Args:
        axes: axis 0 has the smallest stride in the output.
        inner: the axis with the smallest stride in the input, axis 0 left out.
        is_joint: axis 0 is also the fastest of the input; the tile holds it whole.
        itemsize: bytes an element.
        method: how elements are accessed.
    """
    by_input, by_output = _by_input(axes, range(len(axes))), range(len(axes))
    block, best, best_score = method.block, None, -1.0
    capacity, unit = method.capacity * block, itemsize * method.width
    wanted = block
    while wanted <= capacity:
        tile = _Tile(axes, {})
        if is_joint:
            tile.take(0, axes[0].extent)
        lead = int(is_joint)
        tile.take(lead, max(capacity // tile.volume // wanted, block), block)
        tile.take(inner, max(min(wanted, capacity // tile.volume), block), block)
        tile.widen(by_input, wanted, capacity)
        tile.widen(by_output, capacity, capacity)
        tile.widen(by_input, capacity, capacity)
        wanted *= 2
        score = _score(tile, by_input, by_output, unit, capacity)
        if tile.volume <= capacity and score > best_score:
            best, best_score = tile, score
    if best is None:
        return _direct(axes, method.run_capacity)
    parts = tuple(best.parts.get(k, 1) for k in range(len(axes)))
    return TiledCopy(tuple(axes), parts, inner, block, False)


def _score(
    tile: _Tile, by_input: Sequence[int], by_output: Sequence[int], unit: int, capacity: int
) -> float:
    """Return the share of moved bytes that count, lowered where tiles are small."""
    read, written = tile.run(by_input) * unit, tile.run(by_output) * unit
    covered: float = math.prod(
        tile.axes[k].extent / (-(-tile.axes[k].extent // part) * part)
        for k, part in tile.parts.items()
    )
    runs = read / (read + _SECTOR) * written / (written + _SECTOR)
    return covered * runs * math.sqrt(math.sqrt(tile.volume / capacity))
