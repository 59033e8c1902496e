"""The rule that chooses the boxes of a contraction, how they are read, and cuts along the depth.

    us = START + max(times) + REST * (sum(times) - max(times))
         + (splits > 1) * (SECOND + 2 * parts / L2) + askew * result / ASKEW
    times = cycles / CLOCK, traffic / DRAM, moved / L2
    cycles = max(rounds / full, lone_rounds / alone)
               * ((BLOCK_M * BLOCK_N * k + LOAD * reads) / rate + made / ISSUED)
             + rounds * stored / STORE + lone_rounds * (EDGE + FLAT * flat sides of many boxes)

with rounds = tasks / multiprocessors and lone_rounds = tasks / (multiprocessors * resident), both
rounded up; `reads` counts accesses: vectors once and HELD of one for each element that comes
through registers, single elements by the sectors they touch. `made` are instructions of chains in
the loads (making_rule.py). `stored` are the bytes of a box of results in whole sectors, SINGLE
times as many where neighbouring threads store elements side by side, SCATTERED where each stores
neighbours; `askew` are single elements of runs that begin anywhere in a sector. `traffic` is what
the operands and the result take of memory, in lines, `moved` what boxes bring from the L2 cache and
to it, in sectors.
The fewest microseconds win; the earlier candidate where they are equal. The numbers here and those
of the boxes are fitted to what an H200 took (benchmarks/sweeps/contract.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from softcuda.backends.cuda.contract_choice import BoxChoice, cut_bytes
from softcuda.backends.cuda.contract_pack import needs_wide_offsets
from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_sides import (
    SECTOR_BYTES,
    SideBoxes,
    side_boxes,
)
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, STATIC_BYTES, ContractTile
from softcuda.backends.cuda.contract_waste import READ_LINE, in_lines, waste_of
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.gemm_tiles import MAX_PART_BYTES, MULTIPROCESSORS, SPLITS
from softcuda.backends.cuda.making_rule import ISSUED, loading_code
from softcuda.dtype import compute_dtype
from softcuda.errors import BackendError

__all__ = ["apart_ns", "choose", "contract_us", "cuts", "shapes", "spread"]

START: Final = 6.0  # microseconds of a launch, from its start to its last store
SECOND: Final = 1.1  # microseconds of the launch that adds parts
CLOCK: Final = 1755.0  # cycles a microsecond
DRAM: Final = 3.9e6  # bytes a microsecond
L2: Final = 3.9e6  # bytes a microsecond, of 132 multiprocessors
LOAD: Final = 10.0  # products that a thread could make in the time of a read
HELD: Final = 0.8  # of a read: what an element costs that comes through registers
HELD_SUMS: Final = 64  # of a thread that such elements pass: with fewer all waits for them
STORE: Final = 26.0  # bytes a cycle of a multiprocessor, in vectors
SINGLE: Final = 2.3  # times as many bytes it takes to store single elements, threads side by side
SCATTERED: Final = 6.0  # the same where neighbours belong to one thread, which stores them in turns
ASKEW: Final = 1.1e6  # bytes a microsecond of such results whose runs begin anywhere in a sector
SECTOR_LANES: Final = 8  # threads of a warp side by side whose elements are a whole sector
EDGE: Final = 300.0  # cycles of a block between two tasks
FLAT: Final = 100.0  # cycles of making a table anew, as flat sides do for each task
READ_EXTRA: Final = 0.3  # of the rest of a line that costs as if it was asked for
WRITTEN_EXTRA: Final = 0.05
SINGLE_EXTRA: Final = 0.08  # the same where results are stored element by element
REST: Final = 0.01  # of what runs beside the longest of the three, and delays it
CACHED: Final = 1 << 23  # bytes of an operand whose lines the L2 cache keeps
MANY_ROUNDS: Final = 3.0  # tasks of a block from which on blocks start apart
MUCH_STORED: Final = 0.12  # share of the time that memory takes for the results, likewise
APART: Final = 0.5  # of the time of a task, between the first block and the last one
MIN_STEPS: Final = 4  # steps of a part
KEPT: Final = 3  # cuts of a side that are tried with every cut of the other


def contract_us(problem: ContractProblem, choice: BoxChoice, multiprocessors: int) -> float:
    """Return the microseconds that a contraction is expected to take: the rule of this module.

    Args:
        problem: what is computed.
        choice: how.
        multiprocessors: of the device.
    """
    tile, units, depth = choice.tile, multiprocessors, problem.depth.count
    itemsize = compute_dtype(problem.dtype).itemsize
    rate = 128.0 if itemsize == 4 else 64.0
    width = problem.width
    batches, rows, columns = problem.batches.count, choice.rows, choice.columns
    cut = batches * choice.tiles_of_batch - choice.whole
    sizes = (problem.a.dtype.itemsize, problem.b.dtype.itemsize, problem.dtype.itemsize)
    areas = (
        batches * rows.axes.count * depth * sizes[0],
        batches * columns.axes.count * depth * sizes[1],
        batches * rows.axes.count * columns.axes.count * sizes[2],
    )
    wasted = choice.waste.sectors
    written = WRITTEN_EXTRA if choice.has_vectors else SINGLE_EXTRA
    lines = [
        1 + extra * (waste - 1) if area > CACHED else 1.0
        for extra, waste, area in zip(
            (READ_EXTRA, READ_EXTRA, written), choice.waste.lines, areas, strict=True
        )
    ]
    stored = tile.m * tile.n * problem.dtype.itemsize * wasted[2] * lines[2]
    if not choice.has_vectors:
        stored *= SINGLE if rows.is_spread else SCATTERED
        stored *= max(SECTOR_LANES / tile.lanes_m, 1.0)
    made = (tile.m * loading_code(problem.a) + tile.n * loading_code(problem.b)) / ISSUED
    edge = EDGE + FLAT * sum(side.is_flat and side.boxes > 1 for side in (rows, columns))

    def cycles(tasks: int, k: int) -> float:
        reads = k * sum(
            room * (1 / width + (HELD if way.is_held else 0) if way.is_vector else sectors)
            for room, way, sectors in (
                (tile.m, rows.way, wasted[0]),
                (tile.n, columns.way, wasted[1]),
            )
        )
        each = (tile.m * tile.n * -(-k // tile.k) * tile.k + LOAD * reads) / rate + k * made
        rounds = -(-tasks // units)
        lone_rounds = -(-tasks // (units * tile.resident))
        summed = each * max(rounds / tile.full, lone_rounds / tile.alone)
        return summed + rounds * stored / STORE + lone_rounds * edge

    spent = cycles(choice.whole, depth) + cycles(cut * choice.splits, min(choice.k_chunk, depth))
    traffic = sum(x * y for x, y in zip(areas, lines, strict=True))
    moved = (
        areas[0] * columns.boxes * wasted[0] * (rows.boxes * tile.m / rows.axes.count)
        + areas[1] * rows.boxes * wasted[1] * (columns.boxes * tile.n / columns.axes.count)
        + areas[2] * wasted[2]
    )
    l2 = L2 * units / 132
    parts = (spent / CLOCK, traffic / DRAM, moved / l2)
    us = START + max(parts) + REST * (sum(parts) - max(parts))
    if choice.waste.is_askew and not choice.has_vectors:
        us += areas[2] / ASKEW
    if choice.splits > 1:
        us += SECOND + 2 * cut_bytes(problem, choice) / l2
    return us


def shapes(
    problem: ContractProblem,
    tile: ContractTile,
    multiprocessors: int,
) -> list[BoxChoice]:
    """Return the choices of boxes of a tile without cuts along the depth, the best first.

    Args:
        problem: what is computed.
        tile: the box.
        multiprocessors: of the device.
    """
    way_a, way_b = problem.ways
    width = problem.width
    found: list[BoxChoice] = []
    itemsize = compute_dtype(problem.dtype).itemsize
    if tile.shared_bytes(itemsize, False, problem.extras) > STATIC_BYTES:
        return found
    is_narrow = tile.shared_bytes(itemsize, True, problem.extras) > STATIC_BYTES
    columns = _best(side_boxes(problem.columns, tile.n, way_b, width, False))
    tried = [(way_a, False)]
    if problem.can_store_vectors:
        has_room = tile.thread_m * tile.thread_n >= HELD_SUMS
        apart = [Way.ROWS_APART] if way_a is Way.ROWS_VECTOR and has_room else []
        tried = [*((way, True) for way in (way_a, *apart, Way.ROWS_SINGLE)), (way_a, False)]
    elif way_a is Way.ROWS_VECTOR:
        tried.append((Way.ROWS_SINGLE, False))
    for way, stores in dict.fromkeys(tried):
        for row in _best(side_boxes(problem.rows, tile.m, way, width, stores)):
            for column in columns:
                whole = problem.batches.count * row.boxes * column.boxes
                waste = waste_of(problem, tile, row, column)
                found.append(BoxChoice(tile, row, column, stores, waste, whole))
    if is_narrow:
        found = [one for one in found if not needs_wide_offsets(problem, one)]
    return sorted(found, key=lambda one: contract_us(problem, one, multiprocessors))


def _best(sides: Sequence[SideBoxes]) -> list[SideBoxes]:
    """Return the cuts of a side that waste least room and sectors, long runs first."""

    def waste(side: SideBoxes) -> tuple[float, int]:
        rest = (*side.axes.result, *side.axes.source)
        lines = [in_lines(side.run(side.axes.result), 4, SECTOR_BYTES, rest)]
        if not side.way.is_along_depth:
            lines.append(in_lines(side.run(side.axes.source), 4, READ_LINE, rest))
        return (1 / side.use) * (1 + sum(lines) / 8), -side.run(side.axes.result)

    return sorted(sides, key=waste)[:KEPT]


def cuts(problem: ContractProblem, choice: BoxChoice, multiprocessors: int) -> Iterator[BoxChoice]:
    """Yield a choice with every cut that leaves enough steps and takes little enough scratch."""
    tiles = problem.batches.count * choice.tiles_of_batch
    slots = multiprocessors * choice.tile.resident
    steps = -(-problem.depth.count // choice.tile.k)
    for whole in dict.fromkeys((0, tiles // slots * slots)):
        if whole == tiles:
            continue
        last = 1
        for splits in sorted({*SPLITS, max(slots // (tiles - whole), 2)}):
            chunk = -(-steps // splits)
            made = replace(
                choice,
                whole=whole,
                splits=-(-steps // max(chunk, 1)),
                k_chunk=chunk * choice.tile.k,
            )
            if chunk < MIN_STEPS or cut_bytes(problem, made) > MAX_PART_BYTES:
                break
            if made.splits > last:
                yield made
            last = made.splits


@lru_cache(maxsize=256)
def choose(problem: ContractProblem, multiprocessors: int) -> BoxChoice:
    """Return the choice with the fewest microseconds by `contract_us`.

    Args:
        problem: what is computed, at least one element.
        multiprocessors: of the device; 0 counts as 128.

    Raises:
        BackendError: the chain reads so many operands that their offsets leave a box no room.
    """
    units = multiprocessors or MULTIPROCESSORS
    every = [
        found for tile in CONTRACT_TILES[problem.dtype] if (found := shapes(problem, tile, units))
    ]
    best = [found[0] for found in every]
    # Boxes that are cut are many tasks: the fewest boxes waste least.
    fewest = [min(found, key=lambda one: one.whole) for found in every]
    if not best:
        raise BackendError(
            f"a chain behind a contraction reads {len(problem.epilogue.operands)} operands, whose "
            f"offsets leave no box room in {STATIC_BYTES} bytes of shared memory; evaluate a part "
            "of the chain before"
        )
    cut = dict.fromkeys((*best, *fewest))
    tried = [*best, *(made for one in cut for made in cuts(problem, one, units))]
    return spread(problem, min(tried, key=lambda one: contract_us(problem, one, units)), units)


def spread(problem: ContractProblem, choice: BoxChoice, multiprocessors: int) -> BoxChoice:
    """Return a choice whose blocks start apart, over the time of a task, where that pays.

    Blocks that start together store together, and faster than memory takes it; then they sum
    together, and memory is idle. Apart they do both at once, but end as much later.

    Args:
        problem: what is computed.
        choice: how.
        multiprocessors: of the device.
    """
    rounds = choice.tasks(problem.batches.count) / (multiprocessors * choice.tile.resident)
    us = contract_us(problem, choice, multiprocessors)
    results = problem.batches.count * problem.rows.count * problem.columns.count
    if rounds < MANY_ROUNDS or results * problem.dtype.itemsize / DRAM < MUCH_STORED * us:
        return choice
    return replace(choice, apart_ns=apart_ns(problem, choice, multiprocessors))


def apart_ns(problem: ContractProblem, choice: BoxChoice, multiprocessors: int) -> int:
    """Return by how much neighbouring blocks start apart to do so over APART of a task [ns]."""
    us = contract_us(problem, choice, multiprocessors)
    return round(1000 * APART * us / max(choice.tasks(problem.batches.count), 1))
