"""Which kernel reduces, by how many threads an output and in how many parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from softcuda.backends.cuda.emitter import Part, chain_digest, chain_header, chain_label, emit
from softcuda.backends.cuda.spaces import (
    SPLIT_BESIDE,
    SPLIT_CHUNKS,
    SPLIT_REST,
    Axis,
    Loops,
)
from softcuda.backends.cuda.states import Measure
from softcuda.dtype import DType
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "MULTIPROCESSORS",
    "REDUCE_THREADS",
    "ROWS",
    "Plan",
    "ReduceTile",
    "Varying",
    "parts_spec",
    "parts_team",
    "plan_columns",
    "plan_rows",
    "power_above",
    "reduce_spec",
    "reduce_tile",
]

REDUCE_THREADS: Final = 256
VECTOR_BYTES: Final = 16
MULTIPROCESSORS: Final = 132  # where the target does not say
MAX_PARTS: Final = 1024
ROWS: Final = 4  # of a team at once, in reduce_short_rows

# States that are cheap to join: their short rows have a kernel of their own.
_LIGHT: Final = ("Sum", "Extreme")


class ReduceTile(NamedTuple):
    """Elements of a vector, vectors in flight of every operand, vectors measured at a time."""

    width: int
    loads: int
    group: int


class Varying(NamedTuple):
    """The source sets that are not constant: their numbers among the stride sets."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One variant and how its threads share the loops.

    Attributes:
        family: the kernel.
        tile: what a thread reads.
        team: threads an output; of reduce_columns, threads across.
        parts: blocks that share the reduced axes.
        split: which of these they share.
        is_even: strides and extents are multiples of a vector.
        is_beside_even: strides along `beside` are.
    """

    family: str
    tile: ReduceTile
    team: int
    parts: int
    split: int
    is_even: bool
    is_beside_even: bool


def power_above(value: int) -> int:
    """Return the smallest power of two that is at least `value`.

    Example:
        >>> power_above(0), power_above(5), power_above(8)
        (1, 8, 8)
    """
    return 1 << max(value - 1, 0).bit_length()


def reduce_tile(measure: Measure, dtypes: Sequence[DType], varying: int = 1) -> ReduceTile:
    """Return what a thread reads at once: 64 bytes an operand, less of several operands.

    Args:
        measure: wide values and states take more registers an element.
        dtypes: of the operands.
        varying: how many of them are more than one number.
    """
    if measure.state.startswith("Powers"):
        return ReduceTile(1, 1, 1)
    widest = max(d.itemsize for d in dtypes)
    most = 4 if measure.is_placed or measure.value > 4 else 16
    width = min(VECTOR_BYTES // widest, most)
    held = 4 if measure.state == "LogSumExp<f64>" else 32
    loads = max(min(4, held // width) // max(varying, 1), 1)
    loads = 1 << (loads.bit_length() - 1)
    return ReduceTile(width, loads, max(min(loads, 16 // width), 1))


def plan_rows(
    loops: Loops, measure: Measure, tile: ReduceTile, shape: Varying, target: Target
) -> Plan:
    """Return how rows are reduced."""
    even, beside_even = _evenness(loops, tile.width, shape, loops.inner.extent)
    vectors = -(-loops.inner.extent // tile.width)
    outputs = max(loops.results, 1)
    lanes = target.multiprocessors or MULTIPROCESSORS
    is_short = even and loops.outer_reduced == 1 and 1 <= vectors <= 32
    light = measure.state.split("<")[0] in _LIGHT
    if is_short and light and outputs * vectors >= lanes * 2048:
        team = power_above(vectors)
        short = ReduceTile(tile.width, ROWS, 1)
        return Plan("reduce_short_rows", short, team, 1, SPLIT_REST, True, True)
    team = min(8, power_above(vectors))
    most = min(REDUCE_THREADS, power_above(-(-vectors // tile.loads)))
    while team < most and outputs * team < lanes * 4096:
        team *= 2
    blocks = -(-outputs // (REDUCE_THREADS // team))
    counts = {
        SPLIT_REST: loops.outer_reduced // loops.beside.extent,
        SPLIT_BESIDE: loops.beside.extent,
        SPLIT_CHUNKS: -(-vectors // team),
    }
    parts, split = _parts(counts, blocks, tile.loads, lanes)
    return Plan("reduce_rows", tile, team, parts, split, even, beside_even)


def plan_columns(loops: Loops, tile: ReduceTile, shape: Varying, target: Target) -> Plan:
    """Return how columns are reduced."""
    even, beside_even = _evenness(loops, tile.width, shape, tile.width)
    needed = min(REDUCE_THREADS, power_above(-(-loops.inner.extent // tile.width)))
    across = min(32, needed)
    while across < needed and REDUCE_THREADS // across * tile.loads > loops.outer_reduced:
        across *= 2
    lanes = target.multiprocessors or MULTIPROCESSORS
    tiles = -(-loops.inner.extent // (across * tile.width)) * loops.outer_kept
    counts = {
        SPLIT_REST: loops.outer_reduced // loops.beside.extent,
        SPLIT_BESIDE: loops.beside.extent,
    }
    down = REDUCE_THREADS // across
    parts, split = _parts(counts, tiles, tile.loads * down, lanes)
    return Plan("reduce_columns", tile, across, parts, split, even, beside_even)


def _parts(counts: dict[int, int], blocks: int, each: int, lanes: int) -> tuple[int, int]:
    """Return in how many parts blocks share the reduced axes, and which of them.

    Args:
        counts: iterations of each loop that can be shared.
        blocks: blocks of one part.
        each: iterations that keep a thread busy once.
        lanes: multiprocessors.
    """
    split = max(counts, key=lambda loop: counts[loop])
    if blocks >= 2 * lanes:
        return 1, split
    total = 1
    for count in counts.values():
        total *= count
    wanted = -(-8 * lanes // blocks)
    return max(min(wanted, total // (2 * each), counts[split], MAX_PARTS), 1), split


def _evenness(loops: Loops, width: int, shape: Varying, extent: int) -> tuple[bool, bool]:
    """Return whether all vectors are whole, and whether a step along `beside` keeps them so."""
    inner = [loops.inner.strides[k] for k in shape.numbers]
    dense = [k for k in shape.numbers if loops.inner.strides[k] == 1]

    def is_kept(axes: Sequence[Axis]) -> bool:
        return all(axis.strides[k] % width == 0 for axis in axes for k in dense)

    beside = is_kept((loops.beside,))
    even = bool(dense) and all(step in (0, 1) for step in inner) and extent % width == 0
    return even and beside and is_kept(loops.kept) and is_kept(loops.rest), beside


def reduce_spec(
    measure: Measure,
    prologue: Part,
    epilogue: Part,
    family: str,
    tile: ReduceTile,
    rank: int = 8,
) -> KernelSpec:
    """Return the kernel of a reduction in one of reduce.cu's variants."""
    header = chain_header(
        emit(prologue.chain, prologue.dtypes, "Prologue"),
        emit(epilogue.chain, epilogue.dtypes, "Epilogue"),
    )
    read = [d.name for d in (*prologue.dtypes, *epilogue.dtypes[1:])]
    numbers = [str(n) for n in (tile if family == "reduce_rows" else tile[:2])]
    arguments = (measure.state, "Prologue", "Epilogue", *numbers, str(rank), *read)
    ops = (*prologue.chain, *epilogue.chain)
    label = f"{chain_label(ops)}_{chain_digest(header)}_" if ops else ""
    variant = f"{label}{measure.name}_{prologue.dtypes[0]}_{epilogue.result}_{'x'.join(numbers)}"
    return KernelSpec(
        family,
        variant if rank == 8 else f"{variant}_rank{rank}",
        "reduce.cu",
        f"{family}<{', '.join(arguments)}>",
        dtypes=(epilogue.result.name, *read),
        threads=REDUCE_THREADS,
        tile=(tile.width, tile.loads),
        headers=(header,),
    )


def parts_spec(measure: Measure, epilogue: Part, rank: int = 8) -> KernelSpec:
    """Return the kernel that joins the parts of a reduction."""
    header = chain_header(emit(epilogue.chain, epilogue.dtypes, "Epilogue"))
    read = [d.name for d in epilogue.dtypes[1:]]
    arguments = (measure.state, "Epilogue", str(rank), *read)
    label = f"{chain_label(epilogue.chain)}_{chain_digest(header)}_" if epilogue.chain else ""
    variant = f"{label}{measure.name}_{epilogue.result}"
    return KernelSpec(
        "reduce_parts",
        variant if rank == 8 else f"{variant}_rank{rank}",
        "reduce.cu",
        f"reduce_parts<{', '.join(arguments)}>",
        dtypes=(epilogue.result.name, *read),
        threads=REDUCE_THREADS,
        headers=(header,),
    )


def parts_team(parts: int, results: int, target: Target) -> int:
    """Return how many threads join the parts of one result."""
    lanes = target.multiprocessors or MULTIPROCESSORS
    return min(power_above(parts), 32 if results >= 8 * lanes else REDUCE_THREADS)
