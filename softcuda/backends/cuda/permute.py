"""Launches of permuted copies: the method that fits the strides, and its tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import MAX_INDEX, fuse_axes
from softcuda.backends.cuda.tile_orders import packed_tiling
from softcuda.backends.cuda.tiles import Method, MovedAxis, TiledCopy, tile_copy
from softcuda.backends.cuda.walks import DTYPE_CODES, INDICES, SIZED, sized_dtypes
from softcuda.backends.launches import Argument, KernelLaunch, i32, i64, packed, write
from softcuda.dtype import DTYPES, DType
from softcuda.errors import BackendError
from softcuda.graph.params import Dims
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["PERMUTE_KERNELS", "Side", "cast_launch", "copy_launch"]

THREADS: Final = 256

_BLOCKS_EACH: Final = 8  # blocks of a multiprocessor: H200, the HPTT list, 2026-12
_MULTIPROCESSORS: Final = 128  # where the target does not say
_BYTES: Final = dict(zip(SIZED, (1, 2, 4, 8), strict=True))
_ITEMS: Final = {"u8": 16, "u16": 16, "u32": 16, "u64": 8}  # accesses a thread of single elements
_WIDE_ITEMS: Final = 8  # the same where offsets are 64 bits or accesses 16 bytes
_BLOCK: Final = {"u8": 4, "u16": 4, "u32": 4, "u64": 2}
_BLOCK_ITEMS: Final = {"u8": 4, "u16": 4, "u32": 2, "u64": 4}


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
_CASTS: Final = {
    name: KernelSpec(
        "permute_cast",
        name,
        "permute.cu",
        f"permute_cast<{name}, {_WIDE_ITEMS}>",
        (name,),
        THREADS,
        tile=(THREADS * _WIDE_ITEMS,),
    )
    for name in DTYPES
}
PERMUTE_KERNELS: Final[tuple[KernelSpec, ...]] = (*_ROWS.values(), *_CASTS.values())


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
    arguments = (write(), source, i64(made.offset))
    return _launch(_ROWS[kind, tiled.is_direct], kind, tiled, arguments, target)


def cast_launch(
    dims: Dims,
    source: Argument,
    given: Dims,
    made: Side,
    dtypes: tuple[DType, DType],
    target: Target,
) -> KernelLaunch:
    """Return the launch that converts a strided view into a part of the step's output.

    Args:
        dims: extents, none of them 0.
        source: the pointer to the first element that is read.
        given: the strides of what is read [elements].
        made: the strides of what is written, and the offset of its first element in the output.
        dtypes: of what is read, and of what is written.
        target: its multiprocessors decide on the number of blocks.

    Raises:
        BackendError: the copy has more tiles than a grid can count.
    """
    have, want = dtypes
    itemsize = max(have.itemsize, want.itemsize)
    accesses = THREADS * _WIDE_ITEMS
    axes = _moved_axes(dims, given, made.strides)
    tiled = tile_copy(axes, itemsize, Method(1, 1, accesses, accesses))
    if tiled is None:
        raise BackendError(f"a cast of extents {list(dims)} fits no method of cuda_permute")
    kind = _Kind(f"u{8 * want.itemsize}", 1, 1, _WIDE_ITEMS, True)
    arguments = (write(), source, i64(made.offset), i32(DTYPE_CODES[have]))
    return _launch(_CASTS[want.name], kind, tiled, arguments, target)


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
    spec: KernelSpec,
    kind: _Kind,
    tiled: TiledCopy,
    arguments: tuple[Argument, ...],
    target: Target,
) -> KernelLaunch:
    count = math.prod(tiled.counts)
    if count > MAX_INDEX:
        raise BackendError(
            f"a copy in {count} tiles is beyond what cuda_permute counts; allowed are {MAX_INDEX}"
        )
    most = (target.multiprocessors or _MULTIPROCESSORS) * _BLOCKS_EACH
    blocks = -(-count // -(-count // most))
    access = kind.width * kind.block * _BYTES[kind.size]
    data = packed_tiling(tiled, THREADS * kind.items, access, kind.is_wide)
    given = (*arguments, packed(data))
    return KernelLaunch(spec, (blocks, 1, 1), given, (THREADS, 1, 1))
