"""Launches of running sums: one where rows are many, three where they are few and long."""

from __future__ import annotations

from typing import Final

from softcuda.backends.cuda.axes import Axes
from softcuda.backends.cuda.planned import one_step
from softcuda.backends.cuda.reduce_shapes import MULTIPROCESSORS, REDUCE_THREADS
from softcuda.backends.cuda.row_spaces import axis_rows, pack_rows
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, read, scratch
from softcuda.backends.launches import write as write_output
from softcuda.backends.steps import Step, Unit
from softcuda.dtype import REAL_DTYPES, DType
from softcuda.dtype import i64 as i64_dtype
from softcuda.graph.shapes import contiguous_strides
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["SCAN_KERNELS", "scan_steps"]

_MAX_BLOCKS: Final = 2**30
_MAX_TILES: Final = 1024
_VECTORS: Final = 4  # of a thread of scan_rows at a time
_ALIGNMENT: Final = 256


def _spec(family: str, dtype: DType) -> KernelSpec:
    out = dtype if dtype.is_float else i64_dtype
    names = (out.name, dtype.name)
    return KernelSpec(family, dtype.name, "scan.cu", f"{family}<{dtype}>", names, REDUCE_THREADS)


def _carries_spec(total: str) -> KernelSpec:
    return KernelSpec(
        "scan_carries", total, "scan.cu", f"scan_carries<{total}>", (total,), REDUCE_THREADS
    )


SCAN_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(
        _spec(family, dtype)
        for family in ("scan_rows", "scan_columns")
        for dtype in REAL_DTYPES.values()
    ),
    _carries_spec("f64"),
    _carries_spec("i64"),
)


def scan_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a running sum."""
    return one_step(backend_id, unit, lambda: _planned(unit, target))


def _planned(unit: Unit, target: Target) -> tuple[tuple[KernelLaunch, ...], int]:
    """Return the launches of a running sum and its scratch [bytes]."""
    micro = unit.chain[-1]
    source = unit.operands[micro.sources[0]]
    dims = source.dims
    length = dims[micro.params.axis]
    rows = axis_rows(dims, micro.params.axis, [contiguous_strides(dims), source.strides], 1)
    inner = Axes((length,), tuple((step,) for step in rows.steps))
    width = 2 if source.dtype.itemsize == 8 else 4
    steps = [step for strides in rows.outer.strides for step in strides]
    even = rows.steps == (1, 1) and all(n % width == 0 for n in (length, *steps))
    space = packed(pack_rows(rows.outer, inner, 0, even))
    count = rows.outer.numel
    lanes = target.multiprocessors or MULTIPROCESSORS
    if rows.is_columns(1):
        spec, blocks = _spec("scan_columns", source.dtype), -(-count // REDUCE_THREADS)
        tiles, each = _tiles(lanes * REDUCE_THREADS * 4, count, length, 32), 1
    else:
        spec, blocks = _spec("scan_rows", source.dtype), count
        each = REDUCE_THREADS * width * _VECTORS
        tiles = _tiles(lanes * 2, count, length, 2 * each)
    tile_length = -(-length // (tiles * each)) * each
    tiles = -(-length // tile_length)
    wide = min(blocks, _MAX_BLOCKS)
    grid = (wide, tiles, 1 if rows.is_columns(1) else -(-blocks // wide))
    pointer = read(micro.sources[0])

    def launched(out: Argument, carries: Argument) -> KernelLaunch:
        arguments = (out, pointer, carries, i64(tile_length), space)
        return KernelLaunch(spec, grid, arguments, (REDUCE_THREADS, 1, 1))

    if tiles == 1:
        return (launched(write_output(), i64(0)),), 0
    total = "f64" if micro.dtype.is_float else "i64"
    carried = KernelLaunch(
        _carries_spec(total),
        (min(-(-count // REDUCE_THREADS), _MAX_BLOCKS), 1, 1),
        (scratch(), i64(count), i64(tiles)),
        (REDUCE_THREADS, 1, 1),
    )
    used = -(-count * tiles * 8 // _ALIGNMENT) * _ALIGNMENT
    sums = launched(write_output(), scratch())
    return (launched(i64(0), scratch()), carried, sums), used


def _tiles(wanted: int, rows: int, length: int, shortest: int) -> int:
    """Return in how many tiles a row is cut.

    Args:
        wanted: tiles of all rows that fill the device.
        rows: how many there are.
        length: elements of a row.
        shortest: elements that are worth a tile.
    """
    return max(min(-(-wanted // rows), length // shortest, _MAX_TILES), 1)
