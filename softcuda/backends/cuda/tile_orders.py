"""The orders in which a tile of a permuted copy is read and written, as bytes for the kernels.

The structs are those of kernels/permute.cu.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from softcuda.backends.cuda.tiles import TILE_AXES, TiledCopy
from softcuda.kernelspec import fast_divisor

__all__ = ["packed_tiling"]

GRID_AXES: Final = 64

_NO_PAD: Final = 31
_PADS: Final = (3, 4, 5, 6, 7, 8, _NO_PAD)
_BANK_BYTES: Final = 128  # of all banks
_PASSES: Final = 16  # of a warp over the banks, looked at to choose a padding


class _Digit(NamedTuple):
    """An axis of a tile, or a part of one, as `Digit` of permute.cu; `axis` may be partial."""

    axis: int
    extent: int
    place: int
    step_in: int
    step_out: int
    valid: int  # values in the last tile along the axis


def _digits(tiled: TiledCopy, plane: int) -> tuple[list[_Digit], list[_Digit]]:
    """Return the order in which the tile is read, and that in which it is written."""
    block, read, place = tiled.block, [], 1
    for axis in tiled.order(of_input=not tiled.is_direct):
        by = block if axis in (0, tiled.inner) else 1
        read.append(_digit(tiled, axis, by, place))
        place *= read[-1].extent
    places = {digit.axis: digit.place for digit in read}
    written = []
    for axis in tiled.order(of_input=False):
        if block > 1 and axis == tiled.inner:
            moved = tiled.axes[axis]
            column = _Digit(-1, block, plane, moved.step_in, moved.step_out, block)
            written.append(column)
        by = block if axis in (0, tiled.inner) else 1
        written.append(_digit(tiled, axis, by, places[axis]))
    return read, written


def _digit(tiled: TiledCopy, axis: int, by: int, place: int) -> _Digit:
    moved, part = tiled.axes[axis], tiled.parts[axis]
    last = moved.extent - (tiled.counts[axis] - 1) * part
    return _Digit(axis, part // by, place, moved.step_in * by, moved.step_out * by, last // by)


def _best_pad(written: Sequence[_Digit], size: int) -> int:
    """Return the padding (one access every 2^pad) with the fewest bank conflicts in writing.

    Args:
        written: the order in which warps read a tile from shared memory.
        size: bytes an access.
    """
    count = math.prod(digit.extent for digit in written)
    lanes = min(32, _BANK_BYTES // size, count)  # of one pass over the banks
    rest = np.arange(min(count // lanes, _PASSES) * lanes)
    places = np.zeros_like(rest)
    for digit in written:
        places += rest % digit.extent * digit.place
        rest = rest // digit.extent
    costs = []
    for pad in _PADS:
        passes = (places + (places >> pad)).reshape(-1, lanes) * size // 4
        costs.append(sum(_conflicts(words, max(size // 4, 1)) for words in passes))
    return _PADS[int(np.argmin(costs))]


def _conflicts(words: np.ndarray[tuple[int], np.dtype[np.int64]], each: int) -> int:
    """Return the accesses of the busiest bank, for lanes that take `each` words."""
    groups = 32 // each
    distinct = np.unique(words // each)
    return int(np.bincount(distinct % groups, minlength=1).max())


# ---- bytes --------------------------------------------------------------------------------------


def packed_tiling(tiled: TiledCopy, plane: int, access_bytes: int, is_wide: bool) -> bytes:
    """Return the bytes of `Tiling<OFFSET>`.

    Args:
        tiled: the copy.
        plane: accesses of one plane of shared memory.
        access_bytes: bytes of one access.
        is_wide: OFFSET is i64.
    """
    read, written = _digits(tiled, plane)
    partial = [k for k, part in enumerate(tiled.parts) if part > 1 and tiled.counts[k] > 1]
    grid = [k for k, tiles in enumerate(tiled.counts) if tiles > 1]
    grid.sort(key=lambda k: k not in partial)
    pad = _NO_PAD
    if not tiled.is_direct:
        pad = _best_pad(written, access_bytes)
    parts = [_order(read, partial, is_wide), _order(written, partial, is_wide)]
    for steps in (0, 1):
        moves = [tiled.parts[k] * tiled.axes[k][1 + steps] for k in grid]
        parts.append(struct.pack(f"<{GRID_AXES}q", *moves, *[0] * (GRID_AXES - len(grid))))
    parts.append(struct.pack("<q", tiled.axes[0].step_in))
    tiles = [tiled.counts[k] for k in grid] + [1] * (GRID_AXES - len(grid))
    parts += [struct.pack("<3I", *fast_divisor(number)) for number in tiles]
    places = [grid.index(k) if k in grid else -1 for k in (*partial, -1, -1)[:2]]
    parts.append(struct.pack("<5i", len(grid), *places, math.prod(tiled.counts), pad))
    data = b"".join(parts)
    return data + bytes(-len(data) % 8)


def _order(digits: Sequence[_Digit], partial: Sequence[int], is_wide: bool) -> bytes:
    """Return the bytes of `Order<OFFSET>`."""
    shape = "<3Ii2q" if is_wide else "<3I3i"
    filled = [*digits, *[_Digit(-1, 1, 0, 0, 0, 1)] * (TILE_AXES - len(digits))]
    rows = [
        struct.pack(shape, *fast_divisor(d.extent), d.place, d.step_in, d.step_out) for d in filled
    ]
    axes = [digit.axis for digit in digits]
    count = math.prod(digit.extent for digit in digits)
    places = [axes.index(k) if k in axes else -1 for k in (*partial, -1, -1)[:2]]
    edges = [digits[k].valid if k >= 0 else 0 for k in places]
    return b"".join(rows) + struct.pack("<6i", len(digits), count, *places, *edges)
