"""What contract.cu does with the bytes of a launch, on NumPy arrays, box by box."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from softcuda.backends.launches import KernelLaunch

Array = np.ndarray[Any, Any]

BYTES = 2208
NO_LIMIT = 2**31 - 1


class Index(NamedTuple):
    """A MultiIndex: extents, innermost first."""

    extents: tuple[int, ...]

    def digits(self, index: Array) -> list[Array]:
        """Return the position along each axis; the last one takes what is left."""
        found = []
        for extent in self.extents[:-1]:
            found.append(index % extent)
            index = index // extent
        return [*found, index]

    def offsets(self, strides: Sequence[int], index: Array) -> Array:
        """Return the offsets of indices."""
        steps = zip(self.digits(index), strides, strict=False)
        return np.asarray(sum(digit * step for digit, step in steps), np.int64)


class Origin(NamedTuple):
    """Where a box begins: offsets in the operand and the result, limits, index of its first row."""

    source: int
    result: int
    limits: tuple[int, int]
    first: int


class Side(NamedTuple):
    """A Side, unpacked."""

    tiles: Index
    tile_strides: tuple[tuple[int, ...], ...]  # from, to
    entries: Index
    entry_strides: tuple[tuple[int, ...], ...]  # from, place, edge
    places: Index
    place_strides: tuple[tuple[int, ...], ...]  # to, edge
    count: int
    block: int
    is_flat: bool
    edge_axes: tuple[int, int]
    edge_limits: tuple[int, int]
    pitch: int

    def origin(self, number: int) -> Origin:
        if self.is_flat:
            return Origin(0, 0, (NO_LIMIT, NO_LIMIT), number * self.block)
        digits = [int(d) for d in self.tiles.digits(np.array(number))]
        source, result = (
            sum(d * s for d, s in zip(digits, steps, strict=False)) for steps in self.tile_strides
        )
        limits = tuple(
            limit if axis >= 0 and digits[axis] == self.tiles.extents[axis] - 1 else NO_LIMIT
            for axis, limit in zip(self.edge_axes, self.edge_limits, strict=True)
        )
        return Origin(source, result, (limits[0], limits[1]), 0)

    def exists(self, edges: Array, index: Array, origin: Origin) -> Array:
        inside = (edges & 0xFFFFFFFF) < origin.limits[0]
        return np.asarray(inside & (edges >> 32 < origin.limits[1]) & (index < self.count))

    def read(self, origin: Origin) -> tuple[Array, Array]:
        """Return offset in the operand and place in the box of every row that is read."""
        index = origin.first + np.arange(self.block)
        source, place, edge = (self.entries.offsets(s, index) for s in self.entry_strides)
        kept = self.exists(edge, index, origin)
        if self.is_flat:
            place = np.arange(self.block)
        return source[kept], place[kept]

    def written(self, origin: Origin) -> Array:
        """Return the offset in the result of every place of the box; -1 where there is none."""
        index = origin.first + np.arange(self.block)
        result, edge = (self.places.offsets(s, index) for s in self.place_strides)
        return np.where(self.exists(edge, index, origin), result, -1)


class ContractProblem(NamedTuple):
    """A Contraction, unpacked."""

    rows: Side
    columns: Side
    batches: Index
    batch_strides: tuple[tuple[int, ...], ...]  # a, b, out
    depth: Index
    depth_strides: tuple[tuple[int, ...], ...]  # a, b
    tiles: int
    band: int
    splits: int
    tiles_m: int
    terms: int
    tasks: int
    whole: int
    k_chunk: int
    has_vectors: int

    def tile(self, number: int) -> tuple[int, int, int]:
        """Return batch, row and column of a tile."""
        batch, inside = divmod(number, self.tiles)
        across = self.tiles // self.tiles_m
        band, within = divmod(inside, self.band * across)
        rows = min(self.band, self.tiles_m - band * self.band)
        return batch, band * self.band + within % rows, within // rows

    def task(self, number: int) -> tuple[int, int, int]:
        """Return tile, first k and end of a task."""
        if number < self.whole:
            return number, 0, self.terms
        cut, part = divmod(number - self.whole, self.splits)
        first = part * self.k_chunk
        return self.whole + cut, first, min(first + self.k_chunk, self.terms)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, shape: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + shape, self.data, self.at)
        self.at += struct.calcsize("<" + shape)
        return found

    def index(self) -> Index:
        (count,) = self.take("i")
        return Index(self.take("24I4x")[::3][:count])

    def strides(self, count: int) -> tuple[tuple[int, ...], ...]:
        return tuple(self.take("8q") for _ in range(count))

    def side(self) -> Side:
        tiles, tile_strides = self.index(), self.strides(2)
        entries, entry_strides = self.index(), self.strides(3)
        places, place_strides = self.index(), self.strides(2)
        count, block, is_flat, *edges, pitch = self.take("8i")
        return Side(
            *(tiles, tile_strides, entries, entry_strides, places, place_strides),
            *(count, block, bool(is_flat), (edges[0], edges[1]), (edges[2], edges[3]), pitch),
        )


def problem_in(launch: KernelLaunch) -> ContractProblem:
    """Return the fields of a launch's Contraction."""
    data = next(a.value for a in launch.arguments if isinstance(a.value, bytes))
    assert len(data) == BYTES
    reader = _Reader(data)
    rows, columns = reader.side(), reader.side()
    batches, batch_strides = reader.index(), reader.strides(3)
    depth, depth_strides = reader.index(), reader.strides(2)
    tiles, band_tiles, band, last, splits = reader.take("15I")[::3]
    tiles_m, terms, tasks, whole, k_chunk, has_vectors, apart, one = reader.take("7if")
    assert one == 1.0 and apart >= 0
    assert band_tiles == band * (tiles // tiles_m) and last == (tiles_m % band or band)
    return ContractProblem(
        *(rows, columns, batches, batch_strides, depth, depth_strides, tiles, band, splits),
        *(tiles_m, terms, tasks, whole, k_chunk, has_vectors),
    )


def carried_out(launch: KernelLaunch, first: Array, second: Array, count: int) -> Array:
    """Return what tasks add up to, in f64, NaN where nothing is written.

    Args:
        launch: of the kernel `contract`.
        first: elements from the one that the launch's operand a names, by offset: flat.
        second: the same of b.
        count: elements of the result.
    """
    problem = problem_in(launch)
    box = [int(x) for x in re.findall(r"Box<(\d+), (\d+)", launch.spec.expression)[0]]
    ways = re.findall(r"(?:ROWS|DEPTH)_[A-Z]+", launch.spec.expression)
    assert box == [problem.rows.block, problem.columns.block]
    out = np.full(count, np.nan)
    for number in range(problem.tasks):
        tile, k_first, k_end = problem.task(number)
        batch, tile_m, tile_n = problem.tile(tile)
        bases = [int(problem.batches.offsets(s, np.array(batch))) for s in problem.batch_strides]
        depths = [
            problem.depth.offsets(s, np.arange(k_first, k_end)) for s in problem.depth_strides
        ]
        held, written = [], []
        for side, at, operand in ((problem.rows, tile_m, 0), (problem.columns, tile_n, 1)):
            origin = side.origin(at)
            source, place = side.read(origin)
            _check_reads(ways[operand], side.pitch, source, place, depths[operand])
            array = (first, second)[operand]
            matrix = np.full((side.block, k_end - k_first), np.nan)
            start = bases[operand] + origin.source
            matrix[place] = array[start + source[:, None] + depths[operand][None, :]]
            held.append(matrix)
            written.append((side.written(origin), origin.result))
            assert np.array_equal(np.sort(place), np.flatnonzero(written[-1][0] >= 0))
        (rows, row_base), (columns, column_base) = written
        sums = held[0][rows >= 0] @ held[1][columns >= 0].T
        base = bases[2] + row_base + column_base
        places = base + rows[rows >= 0][:, None] + columns[columns >= 0][None, :]
        assert k_first > 0 or np.isnan(out[places]).all(), "an element is written once"
        out[places] = sums if k_first == 0 else out[places] + sums
        _check_vectors(problem, rows, columns)
    return out


def _check_vectors(problem: ContractProblem, rows: Array, columns: Array) -> None:
    """Four rows from a multiple of four on are neighbours, where the kernel stores vectors."""
    if problem.has_vectors:
        quads = rows.reshape(-1, 4)
        there = quads[quads[:, 0] >= 0]
        assert (np.diff(there, axis=1) == 1).all()
        assert (there[:, 0] % 4 == 0).all() and (columns[columns >= 0] % 4 == 0).all()


def _check_reads(way: str, pitch: int, source: Array, place: Array, depths: Array) -> None:
    """Four rows from a multiple of four on are an aligned vector, where one is read."""
    if way in ("ROWS_VECTOR", "ROWS_APART"):
        rows, places = source.reshape(-1, 4), place.reshape(-1, 4)
        assert (np.diff(rows, axis=1) == 1).all() and (rows[:, 0] % 4 == 0).all()
        assert (np.diff(places, axis=1) == (pitch if way == "ROWS_APART" else 1)).all()
        assert (depths % 4 == 0).all()
