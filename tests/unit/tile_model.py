"""What the kernels of permute.cu do with the bytes of a launch, on NumPy arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from softcuda.backends.launches import KernelLaunch

Array = np.ndarray[Any, Any]

TILE_AXES = 16
LANE_BYTES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "uint4": 16}


class Order(NamedTuple):
    """One order of a tile, unpacked: rows of (extent, place, step on each side)."""

    digits: list[tuple[int, ...]]
    total: int
    partial: tuple[int, int]
    edges: tuple[int, int]


class Tiling(NamedTuple):
    """The struct of a launch, unpacked; grid rows are (tiles, step on each side)."""

    read: Order
    written: Order
    grid: list[tuple[int, ...]]
    row_strides: tuple[int, ...]
    column_strides: tuple[int, ...]
    partial: tuple[int, int]
    total: int
    swizzle: int


class Shape(NamedTuple):
    """What a kernel's expression says: bytes of a lane (0: an element), rows, columns, sides."""

    lane_bytes: int
    rows: int
    columns: int
    sides: int


def shape_of(launch: KernelLaunch) -> Shape:
    family, _, inside = launch.spec.expression.partition("<")
    given = inside.strip(">").split(", ")
    if family == "elementwise_turned":
        return Shape(0, int(given[1]), int(given[2]), int(given[6]))
    block = [int(x) for x in given[1:3]] if family == "permute_tile" else [1, 1]
    return Shape(LANE_BYTES[given[0]], *block, 2)


def unpacked(launch: KernelLaunch) -> Tiling:
    (data,) = [a.value for a in launch.arguments if isinstance(a.value, bytes)]
    sides = shape_of(launch).sides
    room = 64 if sides == 2 else 32
    shape = f"<3Ii{sides}{'q' if 'i64' in launch.spec.expression else 'i'}"
    read, at = _order(data, 0, shape)
    written, at = _order(data, at, shape)
    steps = np.frombuffer(data, "<i8", sides * room, at).reshape(sides, room)
    at += steps.nbytes
    strides = struct.unpack_from(f"<{2 * sides}q", data, at)
    at += 16 * sides
    tiles = struct.unpack_from(f"<{3 * room}I", data, at)[::3]
    rank, p, q, count, swizzle = struct.unpack_from("<3iIi", data, at + 12 * room)
    grid = [(tiles[k], *map(int, steps[:, k])) for k in range(rank)]
    rows, columns = strides[:sides], strides[sides:]
    return Tiling(read, written, grid, rows, columns, (p, q), count, swizzle)


def _order(data: bytes, at: int, shape: str) -> tuple[Order, int]:
    each = struct.calcsize(shape)
    rows = [struct.unpack_from(shape, data, at + k * each) for k in range(TILE_AXES)]
    at += TILE_AXES * each
    rank, count, p, q, edge_p, edge_q = struct.unpack_from("<6i", data, at)
    digits = [(row[0], *row[3:]) for row in rows[:rank]]
    return Order(digits, count, (p, q), (edge_p, edge_q)), at + 24


def places(order: Order, is_edge: tuple[bool, bool]) -> Array:
    """Return place, and step on each side, of every access that the tile has."""
    rest = np.arange(order.total)
    found = np.zeros((len(order.digits[0]) - 1 if order.digits else 3, order.total), np.int64)
    inside = np.ones(order.total, bool)
    for number, (extent, *steps) in enumerate(order.digits):
        at = rest % extent
        rest //= extent
        found += np.array(steps, np.int64)[:, None] * at
        for axis, edge, here in zip(order.partial, order.edges, is_edge, strict=True):
            if here and axis == number:
                inside &= at < edge
    return found[:, inside]


def moved(launch: KernelLaunch, source: Array, first_in: int, out: Array) -> None:
    """Do what the launch does, by way of the tile's places where the kernel has them.

    Args:
        launch: of copy_launch, or of a chain that changes no value.
        source: the buffer that is read, flat.
        first_in: the element of it that the launch's pointer names.
        out: the buffer that is written, flat; what is moved is added to it.
    """
    tiling, shape = unpacked(launch), shape_of(launch)
    lane = max(shape.lane_bytes // source.itemsize, 1)
    source = source.astype(np.int64)
    assert max(len(x.digits) for x in (tiling.read, tiling.written)) <= TILE_AXES
    for number in range(tiling.total):
        for read, write in moves(launch, number):
            for k in range(lane):
                out[write * lane + k] += source[first_in + read * lane + k]


def moves(launch: KernelLaunch, number: int) -> Iterator[tuple[Array, Array]]:
    """Yield the lanes that one tile of a launch reads, and where it writes them."""
    tiling, shape = unpacked(launch), shape_of(launch)
    first_out = launch.arguments[2].value
    assert isinstance(first_out, int)
    rest, base_in, base_out, edge = number, 0, first_out, [False, False]
    for axis, (tiles, step_in, step_out, *_) in enumerate(tiling.grid):
        at, rest = rest % tiles, rest // tiles
        base_in, base_out = base_in + at * step_in, base_out + at * step_out
        for k in (0, 1):
            edge[k] |= tiling.partial[k] == axis and at == tiles - 1
    is_edge = (edge[0], edge[1])
    place, from_in, to_out, *_ = places(tiling.written, is_edge)
    if launch.spec.family != "permute_runs":
        from_in = _read_back(tiling, is_edge)[place]
    for row in range(shape.rows):
        for column in range(shape.columns):
            read = base_in + from_in + row * tiling.row_strides[0] + column
            write = base_out + to_out + column * tiling.column_strides[1] + row
            yield read, write


def _read_back(tiling: Tiling, is_edge: tuple[bool, bool]) -> Array:
    """Return by place where in the input an access lies that the tile holds."""
    held = np.full(tiling.read.total, -(1 << 40), np.int64)
    number, steps, *_ = places(tiling.read, is_edge)
    held[number] = steps
    return held
