"""Launches of index_add and scatter_add: keys, a sort, then sums of runs level by level.

x is copied into the result first; values of another dtype, or whose rows are not evenly spaced, are
copied into scratch. Every index becomes an entry (key, position); sort.cu puts equal
keys side by side in the order of their positions; scatter.cu adds up the values of each run.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from softcuda.backends.cuda.axes import Axes, fuse_axes, needs_wide_index
from softcuda.backends.cuda.complex_parts import doubled, parted
from softcuda.backends.cuda.indexed import indexed
from softcuda.backends.cuda.planned import Launches, aligned, launch_in_row
from softcuda.backends.cuda.sort import INDEX_BYTES, plan_sort
from softcuda.backends.cuda.walks import (
    WALK_THREADS,
    blocks_for,
    each_block,
    index_name,
    pack_walk,
)
from softcuda.backends.cuda.written import dense_operand, write_operand
from softcuda.backends.launches import (
    Argument,
    KernelLaunch,
    i64,
    packed,
    read,
    scratch,
    status,
    write,
)
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import REAL_DTYPES, DType, compute_dtype, real_dtype
from softcuda.dtype import i64 as long
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["SCATTER_KERNELS", "chunk_lengths", "plan_scatter"]

_THREADS_WANTED: Final = 1 << 18  # that add up the values: a device full of them
_SHORTEST: Final = 8  # entries a thread adds up: as many as it loads at once
_LONGEST: Final = 128
_LEVEL_LENGTH: Final = 64  # the same above level 0, and of the last level of all


def _spec(family: str, types: tuple[str, ...], dtypes: tuple[str, ...]) -> KernelSpec:
    expression = f"{family}<{', '.join(types)}>"
    return KernelSpec(family, "_".join(types), "scatter.cu", expression, dtypes, WALK_THREADS)


_NUMBERS: Final = tuple(name for name, dtype in REAL_DTYPES.items() if not dtype.is_bool)
SCATTER_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(_spec("scatter_keys", (index,), ("i32", "i64")) for index in INDEX_BYTES),
    *(_spec("scatter_values", (x, index), (x,)) for x in _NUMBERS for index in INDEX_BYTES),
    *(_spec("scatter_sums", (x,), (x,)) for x in _NUMBERS),
)
_SPECS: Final = {(spec.family, spec.variant): spec for spec in SCATTER_KERNELS}


@dataclass(frozen=True, slots=True)
class _Problem:
    """A scatter as the kernels see it; strides in elements.

    Attributes:
        count: entries: one an index.
        limit: every key lies below it.
        index_step: what an index counts for in its key.
        out_step: elements of the result from one key to the next.
        keys: the indices; strides: of the rest of a key, of the indices.
        rows: the indices; strides: of the values.
        columns: what a key addresses; strides: of the values, of the result, of sums.
    """

    count: int
    limit: int
    index_step: int
    out_step: int
    keys: Axes
    rows: Axes
    columns: Axes

    @property
    def is_wide(self) -> bool:
        """Whether a key, a position, an offset or the number of a thread passes 2^31."""
        out = Axes((self.limit,), ((self.out_step,),))
        values = Axes((self.count, self.columns.numel), ())  # there are not more threads
        return any(map(needs_wide_index, (out, values, self.keys, self.rows, self.columns)))

    @property
    def index(self) -> str:
        """The INDEX of the kernels: "i32" or "i64"."""
        return index_name(self.is_wide)


def chunk_lengths(count: int, columns: int) -> tuple[tuple[int, int], ...]:
    """Return (entries, entries of a chunk) of every level; the last one has a single chunk.

    A level has two entries for every chunk of the one below it. The lengths follow from the shapes
    alone, and with them the order in which values meet.

    Example:
        >>> chunk_lengths(1000, 1)
        ((1000, 8), (250, 64), (8, 8))
    """
    if count <= _LEVEL_LENGTH:
        return ((count, count),)
    wanted = max(count * columns // _THREADS_WANTED, 1)
    length = min(max(1 << (wanted.bit_length() - 1), _SHORTEST), _LONGEST)
    levels = [(count, length)]
    while length < count:
        count = 2 * -(-count // length)
        length = min(count, _LEVEL_LENGTH)
        levels.append((count, length))
    return tuple(levels)


def plan_scatter(unit: Unit, micro: Micro, target: Target) -> tuple[Launches, int]:
    """Return the launches of an index_add or scatter_add and its scratch [bytes].

    Args:
        unit: the op alone; its result has elements.
        micro: the op.
        target: for the grids.
    """
    out = unit.result
    x, indices, source = micro.sources
    launches = write_operand(unit, x, write())
    if not numel(unit.operands[indices].dims):
        return launches, 0
    values, pointer, used = unit.operands[source], read(source), 0
    problem = _adding(micro, unit.operands[indices], values, out)
    if values.dtype is not out.dtype or problem.rows.rank > 1:
        pointer, used = scratch(), aligned(numel(values.dims) * out.dtype.itemsize)
        launches += write_operand(unit, source, pointer)
        dense = dense_operand(values, out.dtype)
        problem = _adding(micro, unit.operands[indices], dense, out)
    launches += (_keys(unit, micro, problem, used, target),)
    sorting = plan_sort(problem.count, problem.limit, problem.index, used, target)
    pointers = (pointer, scratch(sorting.place))
    dtype = real_dtype(out.dtype)
    sums, end = _sums(problem, dtype, pointers, sorting.end, target)
    return (*launches, *sorting.launches, *sums), end


def _adding(micro: Micro, indices: Operand, values: Operand, out: Operand) -> _Problem:
    """Return the problem; that of complex numbers is over parts, which are added for themselves."""
    if out.dtype.is_complex and values.dtype.is_complex:
        if micro.op.name == "scatter_add":  # an index for each of both parts
            indices = doubled(indices, 0)
        values, out = parted(values), parted(out)
    return _problem(micro, indices, values, out)


def _problem(micro: Micro, indices: Operand, values: Operand, out: Operand) -> _Problem:
    axis, dims = micro.params.axis, indices.dims
    dense = contiguous_strides(out.dims)
    if micro.op.name == "scatter_add":
        return _Problem(
            count=numel(dims),
            limit=numel(out.dims),
            index_step=dense[axis],
            out_step=1,
            keys=fuse_axes(dims, [(*dense[:axis], 0, *dense[axis + 1 :]), indices.strides]),
            rows=fuse_axes(dims, [values.strides]),
            columns=Axes((), ((), (), ())),
        )
    last = axis + len(dims)
    beside = (*out.dims[:axis], *out.dims[axis + 1 :])
    read_at = (*values.strides[:axis], *values.strides[last:])
    written_at = (*dense[:axis], *dense[axis + 1 :])
    return _Problem(
        count=numel(dims),
        limit=out.dims[axis],
        index_step=1,
        out_step=dense[axis],
        keys=fuse_axes(dims, [(0,) * len(dims), indices.strides]),
        rows=fuse_axes(dims, [values.strides[axis:last]]),
        columns=fuse_axes(beside, [read_at, written_at, contiguous_strides(beside)]),
    )


def _keys(unit: Unit, micro: Micro, problem: _Problem, place: int, target: Target) -> KernelLaunch:
    """Return the launch that makes an entry of every index, at a place in the scratch."""
    is_wide = problem.is_wide
    arguments = (
        scratch(place),
        read(micro.sources[1]),
        status(),
        i64(problem.count),
        packed(pack_walk(problem.keys.dims, problem.keys.strides, is_wide)),
        indexed(unit, micro),
        i64(problem.index_step),
    )
    blocks = blocks_for(problem.count, each_block(is_wide), target)
    return launch_in_row(_SPECS["scatter_keys", problem.index], blocks, arguments)


def _sums(
    problem: _Problem,
    dtype: DType,
    pointers: tuple[Argument, Argument],
    place: int,
    target: Target,
) -> tuple[Launches, int]:
    """Return the launches that add up the values of runs, and where their scratch ends [bytes].

    Args:
        problem: the scatter.
        dtype: of the values and of the result.
        pointers: the values, and their sorted entries.
        place: where the scratch for sums begins [bytes].
        target: for the grids.
    """
    columns = problem.columns.numel
    sum_bytes = (compute_dtype(dtype) if dtype.is_float else long).itemsize
    spec = _SPECS["scatter_values", f"{dtype.name}_{problem.index}"]
    given, is_wide = pointers, problem.is_wide
    rows: tuple[Argument, ...] = (i64(problem.rows.inner_strides[0]),)
    launches = []
    for count, length in chunk_lengths(problem.count, columns):
        chunks = -(-count // length)
        keys = sums = i64(0)
        if chunks > 1:
            keys, place = scratch(place), place + aligned(2 * chunks * long.itemsize)
            sums, place = scratch(place), place + aligned(2 * chunks * columns * sum_bytes)
        level = packed(_pack_level(problem, count, length, is_wide))
        arguments = (write(), keys, sums, *given, level, *rows)
        blocks = blocks_for(chunks * columns, WALK_THREADS, target)
        launches.append(launch_in_row(spec, blocks, arguments))
        spec, given = _SPECS["scatter_sums", dtype.name], (sums, keys)
        rows, is_wide = (), True
    return tuple(launches), place


def _pack_level(problem: _Problem, count: int, length: int, is_wide: bool) -> bytes:
    """Return the bytes of `Level<INDEX>` of scatter.cu, INDEX i64 where `is_wide`."""
    columns = problem.columns
    chunks = -(-count // length)
    numbers = (count, length, chunks * columns.numel, columns.numel, problem.out_step)
    strides = [(0, *s) for s in columns.strides]
    walk = pack_walk((chunks, *columns.dims), strides, is_wide)
    return struct.pack("<5q", *numbers) + walk + bytes(-len(walk) % 8)
