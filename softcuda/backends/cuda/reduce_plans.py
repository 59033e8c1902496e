"""The rules of cuda_reduce: which kernel reduces, by how many threads an output, in how many parts.

Measured on an H200 by benchmarks/sweeps/reduce.py; docs/kernels_reduce.md tells what was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from softcuda.backends.cuda.reduce_shapes import (
    MULTIPROCESSORS,
    REDUCE_THREADS,
    ReduceTile,
    family_tile,
    is_light,
    power_above,
)
from softcuda.backends.cuda.spaces import (
    SPLIT_BESIDE,
    SPLIT_CHUNKS,
    SPLIT_REST,
    Axis,
    Loops,
)
from softcuda.backends.cuda.states import Measure
from softcuda.target import Target

__all__ = ["Plan", "Varying", "dealt", "planned"]

_MAX_PARTS: Final = 8192
_MOST_PARTS: Final = 1 << 15  # below the blocks along y that a launch may have
_SHARES: Final = 16  # blocks for each that the device holds, where batches are dealt
_MAX_BLOCKS: Final = 2**30
_SHORT: Final = 32  # vectors of the longest row that reduce_short_rows takes
_WARP: Final = 32
_VECTOR_BYTES: Final = 16
_STATES_SHARE: Final = 64  # bytes that are read for each of states of parts

_ALONE: Final = 2  # batches of columns that take a block less time than joining parts takes

# Blocks of columns for each multiprocessor from which the reduced axes are not shared.
_ENOUGH: Final = 1.9


class Varying(NamedTuple):
    """What is read.

    Attributes:
        numbers: of the source sets that are not constant, among the stride sets.
        is_bare: no ops stand in front of the reduction.
    """

    numbers: tuple[int, ...]
    is_bare: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """One variant and how its threads share the loops.

    Attributes:
        family: the kernel.
        tile: what a thread reads.
        team: threads an output; of reduce_columns, threads across.
        parts: blocks that share the reduced axes.
        split: which of these they share.
        each: iterations of it that a block takes at most; where batches are dealt, batches.
        is_even: strides and extents are multiples of a vector.
        is_beside_even: strides along `beside` are.
        by_chunk: of reduce_even_rows: a thread's vectors follow the row, not `beside`.
        turn: blocks that take batches by turns, a power of two.
        longs: blocks that take `each` batches; those after them take one.
    """

    family: str
    tile: ReduceTile
    team: int
    parts: int
    split: int
    each: int
    is_even: bool
    is_beside_even: bool
    by_chunk: bool = False
    turn: int = 1
    longs: int = 1

    @property
    def outputs(self) -> int:
        """Outputs of a block; of reduce_columns: tiles."""
        if self.family == "reduce_columns":
            return 1
        rows = self.tile.loads if self.family == "reduce_short_rows" else 1
        return REDUCE_THREADS // self.team * rows


def planned(
    loops: Loops, measure: Measure, tile: ReduceTile, shape: Varying, target: Target
) -> Plan:
    """Return how a reduction is computed."""
    lanes = target.multiprocessors or MULTIPROCESSORS
    if not loops.is_rows:
        tile = family_tile("reduce_columns", measure, tile, shape.is_bare)
        return _columns(loops, measure, tile, shape, lanes)
    even, beside_even = _evenness(loops, tile.width, shape, loops.inner.extent)
    if even and loops.inner.extent:
        plan = _even_rows(loops, measure, tile, shape, lanes)
        if plan is not None and loops.results <= plan.outputs * _MAX_BLOCKS:
            return plan
    tile = family_tile("reduce_rows", measure, tile, shape.is_bare)
    vectors = -(-loops.inner.extent // tile.width)
    outputs = max(loops.results, 1)
    team = min(8, power_above(vectors))
    most = min(REDUCE_THREADS, power_above(-(-vectors // tile.loads)))
    while team < most and outputs * team < lanes * 1024:
        team *= 2
    counts = {
        SPLIT_REST: loops.outer_reduced // max(loops.beside.extent, 1),
        SPLIT_BESIDE: loops.beside.extent,
        SPLIT_CHUNKS: -(-(loops.inner.extent + 2 * (tile.width - 1)) // tile.width // team),
    }
    plan = Plan("reduce_rows", tile, team, 1, SPLIT_REST, 0, even, beside_even)
    return _once(plan, counts, -(-outputs // plan.outputs), lanes)


def _even_rows(
    loops: Loops, measure: Measure, tile: ReduceTile, shape: Varying, lanes: int
) -> Plan | None:
    """Return how rows that are vectors from end to end are reduced; None: by reduce_rows."""
    vectors, beside = loops.inner.extent // tile.width, loops.beside.extent
    light, outputs = is_light(measure), loops.results
    is_one, batches = loops.outer_reduced == 1, _batches(measure, tile.width)
    if is_one and light and vectors <= _SHORT and len(loops.kept) <= 1:
        short = family_tile("reduce_short_rows", measure, tile, shape.is_bare)
        plan = Plan("reduce_short_rows", short, power_above(vectors), 1, 0, 0, True, True)
        if outputs >= plan.outputs * lanes:
            return plan
    by_chunk = beside == 1 or vectors > REDUCE_THREADS
    if by_chunk:
        if vectors < 2 or (measure.is_placed and not is_one):
            return None
        team = power_above(-(-vectors // (tile.loads * batches)))
        most = power_above(-(-vectors // tile.loads))
        while team < most and outputs * team < lanes * tile.blocks * REDUCE_THREADS:
            team *= 2
        team = min(max(team, min(8, power_above(vectors))), REDUCE_THREADS)
    else:
        team = power_above(vectors)
        if vectors % _WARP or measure.is_placed:
            return None
    plan = Plan("reduce_even_rows", tile, team, 1, SPLIT_BESIDE, 0, True, True, by_chunk)
    count = -(-vectors // team) if by_chunk else beside
    blocks = -(-outputs // plan.outputs)
    # Blocks that are long do not fill the device often; a rest of short ones costs little.
    waves = 4 if batches == 1 else 1
    if blocks >= waves * lanes * tile.blocks or count <= 2 * tile.loads:
        return plan
    return dealt(plan, -(-count // tile.loads), blocks, lanes)


def dealt(plan: Plan, batches: int, blocks: int, lanes: int, rounds: int = 0) -> Plan:
    """Return the plan with batches dealt to parts: see Space of reduce_space.cuh.

    Args:
        plan: says how many blocks a multiprocessor holds.
        batches: what is dealt.
        blocks: blocks of one part.
        lanes: multiprocessors.
        rounds: batches of a long part; 0 for what gives every multiprocessor enough blocks.
    """
    held = lanes * plan.tile.blocks
    rounds = rounds or batches * blocks // (_SHARES * held)
    rounds = max(rounds, -(-batches // _MOST_PARTS), 1)
    if rounds == 1 and batches <= _MAX_PARTS:
        return replace(plan, parts=batches, split=SPLIT_BESIDE, each=1, longs=0)
    turn = _turn(held, blocks)
    stretch = turn * rounds
    longs, rest = batches // stretch * turn, batches % stretch
    if longs == 0 or longs + rest > _MAX_PARTS:
        longs, rest = -(-batches // stretch) * turn, 0
    return replace(
        plan, parts=longs + rest, split=SPLIT_BESIDE, each=rounds, turn=turn, longs=longs
    )


def _turn(held: int, blocks: int) -> int:
    """Return how many parts run at once where a part is `blocks` blocks: a power of two."""
    return power_above(max(held // blocks, 1) + 1) // 2


def _batches(measure: Measure, width: int) -> int:
    """Return how many batches of vectors a thread takes of a row.

    One where states are cheap to join, so that blocks are short and many; more where joining takes
    longer than measuring.
    """
    if not is_light(measure):
        return 16
    return 1 if width <= 4 else 4


def _columns(loops: Loops, measure: Measure, tile: ReduceTile, shape: Varying, lanes: int) -> Plan:
    """Return how columns are reduced: by as many threads across as leave each one batch of rows.

    Blocks are then short and many, down to 8 threads across, whose vectors are a line of memory.
    """
    even, beside_even = _evenness(loops, tile.width, shape, tile.width)
    vectors = -(-loops.inner.extent // tile.width)
    widest = min(REDUCE_THREADS, power_above(vectors))
    wanted = power_above(-(-REDUCE_THREADS * tile.loads // loops.outer_reduced))
    team = min(max(wanted, 8), widest)
    is_enough = -(-vectors // team) * loops.outer_kept >= _ENOUGH * lanes
    if not is_enough:
        team = min(32, widest)
    plan = Plan("reduce_columns", tile, team, 1, SPLIT_REST, 0, even, beside_even)
    if is_enough:
        return plan
    blocks, down = -(-vectors // team) * loops.outer_kept, REDUCE_THREADS // team
    rest = loops.outer_reduced // loops.beside.extent
    groups = -(-loops.beside.extent // down)
    if rest > groups:
        return _once(plan, {SPLIT_REST: rest, SPLIT_BESIDE: groups}, blocks, lanes)
    held = lanes * tile.blocks
    batches = -(-groups // tile.loads)
    if batches <= _ALONE:
        return plan
    parted = dealt(plan, batches, blocks, lanes, max(batches * blocks // held, 1))
    states = 2 * parted.parts * measure.nbytes  # of a result: written and read
    if states * _STATES_SHARE <= loops.outer_reduced * _VECTOR_BYTES // tile.width:
        return parted
    return dealt(plan, batches, blocks, lanes, -(-batches // _turn(held, blocks)))


def _once(plan: Plan, counts: dict[int, int], blocks: int, lanes: int) -> Plan:
    """Return the plan in so many parts that its blocks fill the device once, as far as possible.

    Args:
        plan: says how many blocks a multiprocessor holds, and what keeps a thread busy once.
        counts: iterations of each loop that can be shared.
        blocks: blocks of one part.
        lanes: multiprocessors.
    """
    split = max(counts, key=lambda loop: counts[loop])
    held = lanes * plan.tile.blocks
    total = 1
    for count in counts.values():
        total *= count
    most = max(min(total // (2 * plan.tile.loads), counts[split], _MAX_PARTS), 1)
    parts = max(min(held // blocks, most), 1)
    return replace(plan, parts=parts, split=split, each=-(-counts[split] // parts))


def _evenness(loops: Loops, width: int, shape: Varying, extent: int) -> tuple[bool, bool]:
    """Return whether all vectors are whole, and whether a step along `beside` keeps them so."""
    inner = [loops.inner.strides[k] for k in shape.numbers]
    dense = [k for k in shape.numbers if loops.inner.strides[k] == 1]

    def is_kept(axes: Sequence[Axis]) -> bool:
        return all(axis.strides[k] % width == 0 for axis in axes for k in dense)

    beside = is_kept((loops.beside,))
    even = bool(dense) and all(step in (0, 1) for step in inner) and extent % width == 0
    return even and beside and is_kept(loops.kept) and is_kept(loops.rest), beside
