"""What a permuted copy costs with a kernel, its tiles, and the order in which these are taken.

    cost = hypot(memory, blocks)

    memory   bytes / rate, each side times what it moves for a byte that counts: whole sectors of
             a run of neighbours, and more where the tile that continues the run is far away in time
    blocks   tiles / blocks at once * the least time of a tile

The constants were fitted to the 3600 measurements of benchmarks/sweeps/permute.py on an H200 that
the kernels of the table have a part in; benchmarks/sweeps/permute_replay.py shows how far the
choices are from the best of each case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from softcuda.backends.cuda.permute_kinds import TileKind, multiprocessors
from softcuda.backends.cuda.tiles import MovedAxis, TiledCopy, Walk
from softcuda.target import Target

__all__ = ["cost", "walked"]

_RATE: Final = 31_700.0  # bytes, read or written, that a multiprocessor moves in a microsecond
_L2_MIB: Final = 40  # where the target does not say
_SECTOR: Final = 32  # bytes that the caches move at least
_READ_GRAIN: Final = 64  # bytes that memory reads at once
_WRITTEN_GRAIN: Final = 128  # bytes that memory writes as cheaply as a part of them

_SPLIT_READ: Final = 0.5  # for a run of one sector
_SPLIT_WRITE: Final = 0.25
_PART_WRITE: Final = 2.5  # of a sector that two tiles write a part of, one soon after the other
_PART_WRITE_ALONE: Final = 4.0  # what is added where they are taken at other times
_PART_WRITE_MOST: Final = 4.0
_PIECES_WRITE: Final = 0.6  # of a sector that a warp writes in pieces
_FAR: Final = 1.2
_SCATTERED_WRITE: Final = 0.15  # where blocks that run at once write to many places
_SCATTERED_BYTES: Final = 8192
_UNEVEN: Final = 0.7


class _Side(NamedTuple):
    """How the tiles of a copy lie on one side.

    Attributes:
        run_bytes: neighbours that a tile holds.
        alignment: every run begins at a multiple of it, up to 128 [bytes].
        end: the axis along which the next tile continues the run; -1 if there is none.
    """

    run_bytes: int
    alignment: int
    end: int


class _Taken(NamedTuple):
    """The order in which tiles are taken.

    Attributes:
        between: for each axis of the copy, how many tiles further the next one along it is.
        counts: tiles along each axis.
        tile_bytes: of both sides.
        at_once: tiles that are under way at once.
    """

    between: Sequence[int]
    counts: Sequence[int]
    tile_bytes: int
    at_once: int


def walked(tiled: TiledCopy) -> list[TiledCopy]:
    """Return a copy with every order of its tiles that is another one."""
    found: dict[tuple[int, ...], TiledCopy] = {}
    for walk in Walk:
        made = tiled.in_walk(walk)
        found.setdefault(tuple(made.grid()), made)
    return list(found.values())


def cost(kind: TileKind, tiled: TiledCopy, target: Target) -> float:
    """Return about how long a copy takes [microseconds]; see the head of the file."""
    counts, lane = tiled.counts, tiled.access.lane_bytes
    tiles = math.prod(counts)
    at_once = kind.resident(target)
    grid = kind.grid(tiles, target)
    between, number = [1] * len(counts), 1
    for axis in tiled.grid():
        between[axis] = number
        number *= counts[axis]
    taken = _Taken(between, counts, 2 * math.prod(tiled.parts) * lane, at_once)
    far_bytes = (target.l2_mib or _L2_MIB) << 19  # half of the L2: both sides go through it
    side_bytes = math.prod([axis.extent for axis in tiled.axes]) * lane
    memory = side_bytes / (_RATE * multiprocessors(target))
    memory *= _reading(_side(tiled.axes, tiled.parts, lane, 0), taken, far_bytes) + _writing(
        _side(tiled.axes, tiled.parts, lane, 1), taken, far_bytes, _piece(tiled)
    )
    if kind.turns != 1:
        memory *= 1.0 + _UNEVEN * (-(-tiles // grid) * grid / tiles - 1.0)
    return math.hypot(memory, tiles / min(at_once, grid) * kind.tile_us)


def _reading(side: _Side, taken: _Taken, far_bytes: int) -> float:
    """Return what is read for a byte that counts."""
    return (
        1.0
        + _SPLIT_READ * _SECTOR / side.run_bytes
        + _FAR * _farness(side, taken, far_bytes) * (_touched(side, _READ_GRAIN) - 1.0)
    )


def _writing(side: _Side, taken: _Taken, far_bytes: int, piece_bytes: int) -> float:
    """Return what is written for a byte that counts."""
    length = float(side.run_bytes)
    if side.end >= 0:
        together = taken.at_once / taken.between[side.end]
        length *= max(min(together, taken.counts[side.end]), 1.0)
    scattered = 1.0 / (1.0 + length / _SCATTERED_BYTES)
    parts = _touched(side, _SECTOR) - 1.0
    return (
        1.0
        + _SPLIT_WRITE * _SECTOR / side.run_bytes
        + _SCATTERED_WRITE * scattered
        + min(parts * (_PART_WRITE + _PART_WRITE_ALONE * scattered), _PART_WRITE_MOST)
        + _FAR * _farness(side, taken, far_bytes) * (_touched(side, _WRITTEN_GRAIN) - 1.0)
        + min(_PIECES_WRITE * max(_SECTOR / piece_bytes - 1.0, 0.0), 1.0)
    )


def _piece(tiled: TiledCopy) -> int:
    """Return the bytes that a warp writes side by side, where they are less than a sector."""
    access = tiled.access
    if access.rows > 1 and access.columns > 1 and tiled.parts[0] == access.rows:
        return access.rows * access.lane_bytes  # the next thread's are `columns` vectors apart
    return _SECTOR


def _touched(side: _Side, grain: int) -> float:
    """Return the bytes of grains that a run touches, for each of its bytes."""
    if side.alignment >= grain:
        return -(-side.run_bytes // grain) * grain / side.run_bytes
    return (side.run_bytes + grain - side.alignment) / side.run_bytes


def _farness(side: _Side, taken: _Taken, far_bytes: int) -> float:
    """Return the share of lines that left the L2 before the tile came that continues them."""
    if side.end < 0:
        return 0.0
    between = taken.between[side.end] * taken.tile_bytes
    return between / (between + far_bytes)


@lru_cache(maxsize=256)
def _side(axes: tuple[MovedAxis, ...], parts: tuple[int, ...], lane: int, side: int) -> _Side:
    """Return how tiles lie on one side.

    Args:
        axes: of the copy.
        parts: the extent of each inside a tile.
        lane: bytes.
        side: 0 for the input, 1 for the output.
    """
    steps = [abs(axis.steps[side]) for axis in axes]
    moving = [k for k, step in enumerate(steps) if step]
    run, end = 1, -1
    for k in sorted(moving, key=steps.__getitem__):
        if steps[k] != run:
            break
        run *= parts[k]
        if parts[k] < axes[k].extent:
            end = k
            break
    common = 0
    for k in moving:
        if parts[k] > 1 and steps[k] >= run:
            common = math.gcd(common, steps[k])
        if parts[k] < axes[k].extent:
            common = math.gcd(common, steps[k] * parts[k])
    return _Side(run * lane, math.gcd(common * lane, 128) or 128, end)
