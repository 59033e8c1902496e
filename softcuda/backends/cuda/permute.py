"""Launches of permuted copies: the method that fits the strides, its tiles, packed for the kernel.

The structs are those of kernels/permute.cu.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from softcuda.backends.cuda.axes import MAX_INDEX, fuse_axes
from softcuda.backends.cuda.tiles import TILE_AXES, Method, MovedAxis, TiledCopy, tile_copy
from softcuda.backends.cuda.walks import INDICES, SIZED, sized_dtypes
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, write
from softcuda.errors import BackendError
from softcuda.graph.params import Dims
from softcuda.kernelspec import KernelSpec, fast_divisor
from softcuda.target import Target

__all__ = ["PERMUTE_KERNELS", "copy_launch"]

THREADS: Final = 256
GRID_AXES: Final = 64

_BLOCKS_EACH: Final = 4  # blocks of a multiprocessor
_MULTIPROCESSORS: Final = 128  # where the target does not say
_BYTES: Final = dict(zip(SIZED, (1, 2, 4, 8), strict=True))
_ITEMS: Final = {"u8": 16, "u16": 16, "u32": 16, "u64": 16}  # accesses a thread of single elements
_WIDE_ITEMS: Final = 8  # the same where offsets are 64 bits or accesses 16 bytes
_BLOCK: Final = {"u8": 4, "u16": 4, "u32": 4, "u64": 2}
_BLOCK_ITEMS: Final = {"u8": 4, "u16": 4, "u32": 2, "u64": 4}
_NO_PAD: Final = 31
_PADS: Final = (3, 4, 5, 6, 7, 8, _NO_PAD)


class _Kind(NamedTuple):
    """What one kernel of the table does: accesses a thread, neighbours, blocks, offsets."""

    size: str
    width: int
    block: int
    items: int
    is_wide: bool


def _kinds() -> Iterator[_Kind]:
    """Yield the kinds, those that need most of the strides first within a size."""
    for size in SIZED:
        yield _Kind(size, 16 // _BYTES[size], 1, _WIDE_ITEMS, False)
        yield _Kind(size, 1, _BLOCK[size], _BLOCK_ITEMS[size], False)
        yield _Kind(size, 1, 1, _ITEMS[size], False)
        yield _Kind(size, 1, 1, _WIDE_ITEMS, True)


def _row(kind: _Kind, is_direct: bool) -> KernelSpec:
    family = "permute_runs" if is_direct else "permute_tile"
    index = INDICES[kind.is_wide]
    shape = f"{kind.width}" if is_direct else f"{kind.width}, {kind.block}"
    return KernelSpec(
        family,
        f"{kind.size}_w{kind.width}_b{kind.block}_{index}",
        "permute.cu",
        f"{family}<{kind.size}, {shape}, {kind.items}, {index}>",
        sized_dtypes(kind.size),
        THREADS,
        tile=(THREADS * kind.items * kind.block * kind.block * kind.width,),
    )


_ROWS: Final = {
    (kind, is_direct): _row(kind, is_direct)
    for kind in _kinds()
    for is_direct in (False, True)
    if kind.block == 1 or not is_direct
}
PERMUTE_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(_ROWS.values())


class Side(NamedTuple):
    """One side of a copy: where its first element is and its strides [elements]."""

    offset: int
    strides: Dims


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
        target: its multiprocessors decide on the number of blocks.

    Raises:
        BackendError: the copy has more tiles than a grid can count.
    """
    axes = _moved_axes(dims, given.strides, made.strides)
    size = f"u{8 * itemsize}"
    for kind in _kinds():
        if kind.size != size or given.offset % kind.width or made.offset % kind.width:
            continue
        if given.offset % kind.block or made.offset % kind.block:
            continue
        accesses = THREADS * kind.items
        tiled = tile_copy(
            axes, itemsize, Method(kind.width, kind.block, accesses * kind.block, accesses)
        )
        if tiled is None or (tiled.is_direct and kind.block > 1):
            continue
        if not kind.is_wide and _needs_wide(tiled):
            continue
        break
    else:
        raise BackendError(f"a copy of extents {list(dims)} fits no method of cuda_permute")
    return _launch(kind, tiled, source, made.offset, target)


def _moved_axes(dims: Dims, given: Dims, made: Dims) -> tuple[MovedAxis, ...]:
    """Return the fused axes, the fastest of the output first; one of extent 1 where none is."""
    axes = fuse_axes(dims, [given, made])
    moved = map(MovedAxis, axes.dims, *axes.strides)
    ordered = sorted(moved, key=lambda axis: abs(axis.step_out))
    return tuple(ordered) or (MovedAxis(1, 1, 1),)


def _needs_wide(tiled: TiledCopy) -> bool:
    """Return whether an offset inside a tile passes 2^31."""
    pairs = list(zip(tiled.axes, tiled.parts, strict=True))
    reach_in = sum((part - 1) * abs(axis.step_in) for axis, part in pairs)
    reach_out = sum((part - 1) * abs(axis.step_out) for axis, part in pairs)
    return max(reach_in, reach_out) + 16 > MAX_INDEX


def _launch(
    kind: _Kind, tiled: TiledCopy, source: Argument, first: int, target: Target
) -> KernelLaunch:
    spec = _ROWS[kind, tiled.is_direct]
    count = 1
    for tiles in tiled.counts:
        count *= tiles
    if count > MAX_INDEX:
        raise BackendError(
            f"a copy in {count} tiles is beyond what cuda_permute counts; allowed are {MAX_INDEX}"
        )
    most = (target.multiprocessors or _MULTIPROCESSORS) * _BLOCKS_EACH
    blocks = -(-count // -(-count // most))
    arguments = (write(), source, i64(first), packed(_packed(kind, tiled, count)))
    return KernelLaunch(spec, (blocks, 1, 1), arguments, (THREADS, 1, 1))


# ---- digits -------------------------------------------------------------------------------------


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


def _best_pad(read: Sequence[_Digit], written: Sequence[_Digit], size: int) -> int:
    """Return the padding (one access every 2^pad) with the fewest bank conflicts in writing.

    Args:
        read: the order of the tile in shared memory.
        written: the order in which warps read it back.
        size: bytes an access.
    """
    lanes = min(32, 128 // size)  # of one pass over the banks
    count = 1
    for digit in written:
        count *= digit.extent
    rest = np.arange(min(count, 16 * lanes) // lanes * lanes or min(count, lanes))
    places = np.zeros_like(rest)
    for digit in written:
        places += rest % digit.extent * digit.place
        rest = rest // digit.extent
    passes = places.reshape(-1, min(lanes, len(places)))
    costs = []
    for pad in _PADS:
        words = (passes + (passes >> pad)) * size // 4
        costs.append(sum(_conflicts(row, max(size // 4, 1)) for row in words))
    return _PADS[int(np.argmin(costs))]


def _conflicts(words: np.ndarray[tuple[int], np.dtype[np.int64]], each: int) -> int:
    """Return the accesses of the busiest bank, for lanes that take `each` words."""
    groups = 32 // each
    distinct = np.unique(words // each)
    return int(np.bincount(distinct % groups, minlength=1).max())


# ---- bytes --------------------------------------------------------------------------------------


def _packed(kind: _Kind, tiled: TiledCopy, count: int) -> bytes:
    """Return the bytes of `Tiling<OFFSET>`."""
    read, written = _digits(tiled, THREADS * kind.items)
    partial = [k for k, (a, p) in enumerate(zip(tiled.axes, tiled.parts, strict=True)) if p > 1]
    partial = [k for k in partial if tiled.counts[k] > 1]
    grid = [k for k, tiles in enumerate(tiled.counts) if tiles > 1]
    grid.sort(key=lambda k: k not in partial)
    pad = _NO_PAD
    if not tiled.is_direct:
        pad = _best_pad(read, written, kind.width * kind.block * _BYTES[kind.size])
    parts = [_order(read, partial, kind.is_wide), _order(written, partial, kind.is_wide)]
    for steps in (0, 1):
        moves = [tiled.parts[k] * tiled.axes[k][1 + steps] for k in grid]
        parts.append(struct.pack(f"<{GRID_AXES}q", *moves, *[0] * (GRID_AXES - len(grid))))
    parts.append(struct.pack("<q", tiled.axes[0].step_in))
    tiles = [tiled.counts[k] for k in grid] + [1] * (GRID_AXES - len(grid))
    parts += [struct.pack("<3I", *fast_divisor(number)) for number in tiles]
    places = [grid.index(k) if k in grid else -1 for k in (*partial, -1, -1)[:2]]
    parts.append(struct.pack("<5i", len(grid), *places, count, pad))
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
    count = 1
    for digit in digits:
        count *= digit.extent
    places = [axes.index(k) if k in axes else -1 for k in (*partial, -1, -1)[:2]]
    edges = [digits[k].valid if k >= 0 else 0 for k in places]
    return b"".join(rows) + struct.pack("<6i", len(digits), count, *places, *edges)
