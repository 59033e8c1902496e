"""What the kernels of permute.cu do with the bytes of a launch, on NumPy arrays."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from softcuda.backends.launches import KernelLaunch

Array = np.ndarray[Any, Any]

TILE_AXES, GRID_AXES = 16, 64


class Order(NamedTuple):
    """One order of a tile, unpacked: rows of (extent, place, step in, step out)."""

    digits: list[tuple[int, int, int, int]]
    total: int
    partial: tuple[int, int]
    edges: tuple[int, int]


class Tiling(NamedTuple):
    """The struct of a launch, unpacked; grid rows are (tiles, step in, step out)."""

    read: Order
    written: Order
    grid: list[tuple[int, int, int]]
    row_stride: int
    partial: tuple[int, int]
    total: int


def unpacked(launch: KernelLaunch) -> Tiling:
    data = launch.arguments[-1].value
    assert isinstance(data, bytes)
    shape = "<3Ii2q" if "i64" in launch.spec.expression or is_cast(launch) else "<3I3i"
    read, at = _order(data, 0, shape)
    written, at = _order(data, at, shape)
    steps = struct.unpack_from(f"<{2 * GRID_AXES}q", data, at)
    at += 16 * GRID_AXES
    (row_stride,) = struct.unpack_from("<q", data, at)
    tiles = struct.unpack_from(f"<{3 * GRID_AXES}I", data, at + 8)[::3]
    rank, p, q, count, _ = struct.unpack_from("<5i", data, at + 8 + 12 * GRID_AXES)
    grid = list(zip(tiles, steps[:GRID_AXES], steps[GRID_AXES:], strict=True))[:rank]
    return Tiling(read, written, grid, row_stride, (p, q), count)


def is_cast(launch: KernelLaunch) -> bool:
    return launch.spec.family == "permute_cast"


def _order(data: bytes, at: int, shape: str) -> tuple[Order, int]:
    each = struct.calcsize(shape)
    rows = [struct.unpack_from(shape, data, at + k * each) for k in range(TILE_AXES)]
    at += TILE_AXES * each
    rank, count, p, q, edge_p, edge_q = struct.unpack_from("<6i", data, at)
    digits = [(row[0], row[3], row[4], row[5]) for row in rows[:rank]]
    return Order(digits, count, (p, q), (edge_p, edge_q)), at + 24


def places(order: Order, is_edge: tuple[bool, bool]) -> tuple[Array, Array, Array]:
    """Return place, step in and step out of every access that the tile has."""
    rest = np.arange(order.total)
    found = np.zeros((3, order.total), np.int64)
    inside = np.ones(order.total, bool)
    for number, (extent, *steps) in enumerate(order.digits):
        at = rest % extent
        rest //= extent
        found += np.array(steps, np.int64)[:, None] * at
        for axis, edge, here in zip(order.partial, order.edges, is_edge, strict=True):
            if here and axis == number:
                inside &= at < edge
    return found[0][inside], found[1][inside], found[2][inside]


def moved(launch: KernelLaunch, source: Array, first_in: int, out: Array) -> None:
    """Do what the launch does, by way of the tile's places where the kernel has them.

    Args:
        launch: of copy_launch or cast_launch.
        source: the buffer that is read, flat.
        first_in: the element of it that the launch's pointer names.
        out: the buffer that is written, flat.
    """
    tiling = unpacked(launch)
    inner = [int(x) for x in launch.spec.expression.split("<")[1].strip(">").split(",")[1:3]]
    is_direct = launch.spec.family == "permute_runs"
    width, block = (inner[0], 1) if is_direct else (1, 1) if is_cast(launch) else inner
    plane = (
        launch.spec.threads * int(launch.spec.expression.split(",")[3 - is_direct])
        if (block > 1)
        else 0
    )
    first_out = launch.arguments[2].value
    assert isinstance(first_out, int)
    for number in range(tiling.total):
        rest, base_in, base_out, edge = number, first_in, first_out, [False, False]
        for axis, (tiles, step_in, step_out) in enumerate(tiling.grid):
            at, rest = rest % tiles, rest // tiles
            base_in, base_out = base_in + at * step_in, base_out + at * step_out
            for k in (0, 1):
                edge[k] |= tiling.partial[k] == axis and at == tiles - 1
        is_edge = (edge[0], edge[1])
        place, _, offsets = places(tiling.written, is_edge)
        if is_direct:
            from_in = places(tiling.written, is_edge)[1]
        else:
            from_in = _read_back(tiling, is_edge, plane, block)[place]
        for k in range(width * block):
            step = k * tiling.row_stride if block > 1 else k
            out[base_out + offsets + k] += source[base_in + from_in + step]


def _read_back(tiling: Tiling, is_edge: tuple[bool, bool], plane: int, block: int) -> Array:
    """Return by place where in the input an access lies that the tile holds."""
    size = max(tiling.read.total, plane * block)
    held = np.full(size, -(1 << 40), np.int64)
    number, steps, _ = places(tiling.read, is_edge)
    for column in range(block):
        held[number + column * plane] = steps + column
    return held
