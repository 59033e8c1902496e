"""The orders in which a tile of a permuted copy is read and written, as bytes for the kernels.

The structs are those of kernels/tiling.cuh.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.cuda.tiles import TILE_AXES, TiledCopy
from softcuda.kernelspec import fast_divisor

__all__ = ["grid_axes", "packed_tiling"]

_NO_SWIZZLE: Final = 31
_BANK_BYTES: Final = 128  # of all banks
_PASSES: Final = 16  # of a warp over the banks, looked at to choose a swizzle

Places = np.ndarray[Any, np.dtype[np.int64]]


class _Digit(NamedTuple):
    """An axis of a tile, in vectors, as `Digit` of tiling.cuh; `axis` may be partial."""

    axis: int
    extent: int
    place: int
    steps: tuple[int, ...]
    valid: int  # values in the last tile along the axis


def _digits(tiled: TiledCopy) -> tuple[list[_Digit], list[_Digit]]:
    """Return the order in which the tile is read, and that in which it is written."""
    read, place = [], 1
    for axis in tiled.order(of_input=not tiled.access.is_direct):
        read.append(_digit(tiled, axis, place))
        place *= read[-1].extent
    places = {digit.axis: digit.place for digit in read}
    return read, [_digit(tiled, axis, places[axis]) for axis in tiled.order(of_input=False)]


def _digit(tiled: TiledCopy, axis: int, place: int) -> _Digit:
    moved, part, by = tiled.axes[axis], tiled.parts[axis], tiled.vector(axis)
    last = moved.extent - (tiled.counts[axis] - 1) * part
    # No step is made along one vector, and its length may be beyond the offsets inside a tile.
    steps = tuple(step * by if part > by else 0 for step in moved.steps)
    return _Digit(axis, part // by, place, steps, last // by)


def _best_swizzle(written: Sequence[_Digit], size: int) -> int:
    """Return the swizzle of tiling.cuh with the fewest bank conflicts.

    Args:
        written: the order in which warps read a tile from shared memory.
        size: bytes of an access there.
    """
    count = math.prod(digit.extent for digit in written)
    lanes = min(32, _BANK_BYTES // size, count)  # of one pass over the banks
    rest = np.arange(min(count // lanes, _PASSES) * lanes)
    places = np.zeros_like(rest)
    for digit in written:
        places += rest % digit.extent * digit.place
        rest = rest // digit.extent
    least = max((_BANK_BYTES // size).bit_length() - 1, 3)  # writes then have no conflicts
    shifts = np.array((_NO_SWIZZLE, *range(least, least + 7)))
    held = swizzled(places, shifts[:, None], size)
    passes = _passes(held.reshape(-1, lanes), size).reshape(len(shifts), -1).sum(1)
    return int(shifts[np.argmin(passes)])


def swizzled(places: Places, shift: Any, size: int) -> Places:
    """Return where accesses of `size` bytes are held: `swizzled` of tiling.cuh."""
    word = max(4 // size, 1)  # accesses of a bank's word
    banks = _BANK_BYTES // max(size, 4)
    held: Places = places ^ ((places >> shift) % banks * word)
    return held


def _passes(places: Places, size: int) -> Places:
    """Return how often each row of accesses needs its busiest bank; equal words count once."""
    words = np.sort(places * size // max(size, 4))
    rows, banks = len(words), _BANK_BYTES // max(size, 4)
    is_new = np.diff(words, prepend=-1) != 0
    cells = np.arange(rows)[:, None] * banks + words % banks
    needed: Places = np.bincount(cells[is_new], minlength=rows * banks).reshape(rows, banks).max(1)
    return needed


# ---- bytes --------------------------------------------------------------------------------------


def packed_tiling(tiled: TiledCopy, is_wide: bool, held_bytes: int = 0) -> bytes:
    """Return the bytes of `Tiling<OFFSET, SIDES>`.

    Args:
        tiled: the copy.
        is_wide: OFFSET is i64.
        held_bytes: of an access in shared memory, where it is not that of a vector read.
    """
    read, written = _digits(tiled)
    partial = [k for k, part in enumerate(tiled.parts) if part > 1 and tiled.counts[k] > 1]
    grid = tiled.grid()
    access = tiled.access
    swizzle = _NO_SWIZZLE
    if not access.is_direct:
        swizzle = _best_swizzle(written, held_bytes or access.lane_bytes * access.columns)
    sides = range(len(tiled.axes[0].steps))
    room = grid_axes(len(sides))
    parts = [_order(digits, partial, is_wide, len(sides)) for digits in (read, written)]
    for side in sides:
        moves = [tiled.parts[k] * tiled.axes[k].steps[side] for k in grid]
        parts.append(struct.pack(f"<{room}q", *moves, *[0] * (room - len(grid))))
    for axis in (tiled.axes[0], tiled.axes[tiled.inner]):
        parts.append(struct.pack(f"<{len(sides)}q", *axis.steps))
    tiles = [tiled.counts[k] for k in grid] + [1] * (room - len(grid))
    parts += [struct.pack("<3I", *fast_divisor(number)) for number in tiles]
    places = [grid.index(k) if k in grid else -1 for k in (*partial, -1, -1)[:2]]
    parts.append(struct.pack("<3iIi", len(grid), *places, math.prod(tiled.counts), swizzle))
    data = b"".join(parts)
    return data + bytes(-len(data) % 8)


def grid_axes(sides: int) -> int:
    """Return along how many axes there may be several tiles: GRID_AXES of tiling.cuh."""
    return 64 if sides == 2 else 32


def _order(digits: Sequence[_Digit], partial: Sequence[int], is_wide: bool, sides: int) -> bytes:
    """Return the bytes of `Order<OFFSET, SIDES>`."""
    shape = f"<3Ii{sides}{'q' if is_wide else 'i'}"
    filled = [*digits, *[_Digit(-1, 1, 0, (0,) * sides, 1)] * (TILE_AXES - len(digits))]
    rows = [struct.pack(shape, *fast_divisor(d.extent), d.place, *d.steps) for d in filled]
    axes = [digit.axis for digit in digits]
    count = math.prod(digit.extent for digit in digits)
    places = [axes.index(k) if k in axes else -1 for k in (*partial, -1, -1)[:2]]
    edges = [digits[k].valid if k >= 0 else 0 for k in places]
    return b"".join(rows) + struct.pack("<6i", len(digits), count, *places, *edges)
