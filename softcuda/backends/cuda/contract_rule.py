"""The rule that chooses the boxes of a contraction, how they are read, and cuts along the depth.

    us = START + max(times) + REST * (sum(times) - max(times))
         + (splits > 1) * (SECOND + 2 * parts / L2)
    times = cycles / CLOCK, traffic / DRAM, moved / L2
    cycles = max(rounds / full, lone_rounds / alone) * (BLOCK_M * BLOCK_N * k + LOAD * reads) / rate
             + rounds * stored / STORE + lone_rounds * (EDGE + FLAT * flat sides)

with rounds = tasks / multiprocessors and lone_rounds = tasks / (multiprocessors * resident), both
rounded up; `reads` counts accesses, vectors once. `stored` are the bytes of a box of results in
whole sectors, SINGLE times as many where they are stored element by element. `traffic` is what the
operands and the result take of memory, in lines, `moved` what boxes bring from the L2 cache and to
it, in sectors. The fewest microseconds win; the earlier candidate where they are equal. The numbers
here and those of the boxes are fitted to what an H200 took (benchmarks/sweeps/contract.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_sides import (
    SECTOR_BYTES,
    SideBoxes,
    Way,
    joint_run,
    side_boxes,
)
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, STATIC_BYTES, ContractTile
from softcuda.backends.cuda.gemm_tiles import MAX_PART_BYTES, MULTIPROCESSORS, SPLITS
from softcuda.dtype import compute_dtype
from softcuda.errors import BackendError

__all__ = ["BoxChoice", "choose", "contract_us", "cut_bytes", "cuts", "shapes"]

START: Final = 4.6  # microseconds of a launch, from its start to its last store
SECOND: Final = 1.1  # microseconds of the launch that adds parts
CLOCK: Final = 1755.0  # cycles a microsecond
DRAM: Final = 3.83e6  # bytes a microsecond
L2: Final = 3.89e6  # bytes a microsecond, of 132 multiprocessors
LOAD: Final = 14.9  # products that a thread could make in the time of a read
STORE: Final = 23.0  # bytes a cycle of a multiprocessor, in vectors
SINGLE: Final = 1.9
EDGE: Final = 2880.0  # cycles of a block between two tasks
FLAT: Final = 200.0  # cycles of making a table anew, as flat sides do for each task
READ_LINE: Final = 64  # bytes that memory gives at once
WRITTEN_LINE: Final = 128  # bytes that the L2 cache gives to memory at best
READ_EXTRA: Final = 0.85  # of the rest of a line that costs as if it was asked for
WRITTEN_EXTRA: Final = 0.55
REST: Final = 0.02  # of what runs beside the longest of the three, and delays it
CACHED: Final = 1 << 23  # bytes of an operand whose lines the L2 cache keeps
MIN_STEPS: Final = 4  # steps of a part
KEPT: Final = 3  # cuts of a side that are tried with every cut of the other


class Waste(NamedTuple):
    """How much more than a, b and the result boxes take.

    Attributes:
        sectors: between multiprocessors and the L2 cache.
        lines: between the L2 cache and memory, if no neighbour shared a line.
    """

    sectors: tuple[float, float, float]
    lines: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class BoxChoice:
    """How a contraction is computed.

    Attributes:
        tile: what a block sums.
        rows: the rows in boxes.
        columns: the columns in boxes.
        has_vectors: results are stored in vectors of neighbouring rows.
        waste: what its boxes take of memory beside what they need.
        whole: tiles that one task sums; the others are cut along the depth.
        splits: parts of those.
        k_chunk: depth of a part, a multiple of the tile's.
    """

    tile: ContractTile
    rows: SideBoxes
    columns: SideBoxes
    has_vectors: bool
    waste: Waste
    whole: int
    splits: int = 1
    k_chunk: int = 1

    @property
    def tiles_of_batch(self) -> int:
        """Tiles of one batch."""
        return self.rows.boxes * self.columns.boxes

    def tasks(self, batches: int) -> int:
        """Return what blocks take in turns: whole tiles and parts of others."""
        return self.whole + (batches * self.tiles_of_batch - self.whole) * self.splits


def cut_bytes(problem: ContractProblem, choice: BoxChoice) -> int:
    """Return the scratch that the parts of cut tiles take [bytes]."""
    cut = problem.batches.count * choice.tiles_of_batch - choice.whole
    area = choice.tile.m * choice.tile.n * compute_dtype(problem.dtype).itemsize
    return cut * choice.splits * area if choice.splits > 1 else 0


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
    lines = [
        1 + extra * (waste - 1) if area > CACHED else 1.0
        for extra, waste, area in zip(
            (READ_EXTRA, READ_EXTRA, WRITTEN_EXTRA), choice.waste.lines, areas, strict=True
        )
    ]
    stored = tile.m * tile.n * problem.dtype.itemsize * wasted[2] * lines[2]
    stored *= 1.0 if choice.has_vectors else SINGLE
    edge = EDGE + FLAT * (rows.is_flat + columns.is_flat)

    def cycles(tasks: int, k: int) -> float:
        reads = k * sum(
            room / (width if side.way is Way.ROWS_VECTOR else 1)
            for room, side in ((tile.m, rows), (tile.n, columns))
        )
        each = (tile.m * tile.n * -(-k // tile.k) * tile.k + LOAD * reads) / rate
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
    if choice.splits > 1:
        us += SECOND + 2 * cut_bytes(problem, choice) / l2
    return us


def _waste(
    problem: ContractProblem, tile: ContractTile, rows: SideBoxes, columns: SideBoxes
) -> Waste:
    """Return what boxes of these sides take beside what they need."""
    runs, steps = [], []
    for side, strides in ((rows, problem.depth.a), (columns, problem.depth.b)):
        run = 1
        if side.way is not Way.DEPTH_SINGLE:
            run = side.run(side.axes.source)
        elif any(abs(stride) == 1 for stride in strides):
            run = max((part.extent for part in problem.depth.digits[:1]), default=1)
        runs.append(run)
        steps.append(min(run, tile.k) if side.way is Way.DEPTH_SINGLE else run)
    sizes = (problem.a.dtype.itemsize, problem.b.dtype.itemsize, problem.dtype.itemsize)
    steps.append(rows.run(rows.axes.result))
    runs.append(joint_run(rows, columns))
    rest = (
        (*rows.axes.source, *problem.depth.a, *problem.batches.source),
        (*columns.axes.source, *problem.depth.b, *problem.batches_b),
        (*rows.axes.result, *columns.axes.result, *problem.batches.result),
    )
    lines = (READ_LINE, READ_LINE, WRITTEN_LINE)
    a, b, out = (_in_lines(*given) for given in zip(runs, sizes, lines, rest, strict=True))
    first, second, third = (
        -(-n * size // SECTOR_BYTES) * SECTOR_BYTES / (n * size)
        for n, size in zip(steps, sizes, strict=True)
    )
    return Waste((first, second, third), (a, b, out))


def _in_lines(run: int, itemsize: int, line: int, strides: Sequence[int]) -> float:
    """Return how much more than themselves runs of neighbours take in whole lines.

    Runs begin at sectors where all strides are whole sectors; others begin anywhere.
    """
    nbytes = run * itemsize
    sector = SECTOR_BYTES // itemsize
    is_aligned = all(stride % sector == 0 for stride in strides if abs(stride) > 1)
    if is_aligned and run % sector == 0:
        return -(-nbytes // line) * line / nbytes
    return 1 + (line - itemsize) / nbytes


def shapes(problem: ContractProblem, tile: ContractTile, multiprocessors: int) -> list[BoxChoice]:
    """Return the choices of boxes of a tile without cuts along the depth, the best first."""
    way_a, way_b = problem.ways
    width = problem.width
    found: list[BoxChoice] = []
    itemsize = compute_dtype(problem.dtype).itemsize
    if tile.shared_bytes(itemsize, True, problem.extras) > STATIC_BYTES:
        return found
    columns = _best(side_boxes(problem.columns, tile.n, way_b, width, False))
    ways = [(way_a, False)]
    if problem.can_store_vectors:
        ways = [(way_a, True), (Way.ROWS_SINGLE, True), (way_a, False)]
    for way, stores in dict.fromkeys(ways):
        for row in _best(side_boxes(problem.rows, tile.m, way, width, stores)):
            for column in columns:
                whole = problem.batches.count * row.boxes * column.boxes
                waste = _waste(problem, tile, row, column)
                found.append(BoxChoice(tile, row, column, stores, waste, whole))
    return sorted(found, key=lambda one: contract_us(problem, one, multiprocessors))


def _best(sides: Sequence[SideBoxes]) -> list[SideBoxes]:
    """Return the cuts of a side that waste least room and sectors."""

    def waste(side: SideBoxes) -> float:
        rest = (*side.axes.result, *side.axes.source)
        lines = [_in_lines(side.run(side.axes.result), 4, SECTOR_BYTES, rest)]
        if side.way is not Way.DEPTH_SINGLE:
            lines.append(_in_lines(side.run(side.axes.source), 4, READ_LINE, rest))
        return (1 / side.use) * (1 + sum(lines) / 8)

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
        for splits in SPLITS:
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
    best = [
        found[0]
        for tile in CONTRACT_TILES[problem.dtype]
        if (found := shapes(problem, tile, units))
    ]
    if not best:
        raise BackendError(
            f"a chain behind a contraction reads {len(problem.epilogue.operands)} operands, whose "
            f"offsets leave no box room in {STATIC_BYTES} bytes of shared memory; evaluate a part "
            "of the chain before"
        )
    tried = [*best, *(cut for one in best for cut in cuts(problem, one, units))]
    return min(tried, key=lambda one: contract_us(problem, one, units))
