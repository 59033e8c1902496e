"""What boxes of a contraction move of memory beside what they need: sectors, and lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.backends.cuda.contract_choice import Waste
from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_sides import SECTOR_BYTES, SideBoxes, joint_run
from softcuda.backends.cuda.contract_tiles import ContractTile

__all__ = ["READ_LINE", "in_lines", "waste_of"]

READ_LINE: Final = 64  # bytes that memory gives at once
WRITTEN_LINE: Final = 128  # bytes that the L2 cache gives to memory at best


def waste_of(
    problem: ContractProblem, tile: ContractTile, rows: SideBoxes, columns: SideBoxes
) -> Waste:
    """Return what boxes of these sides take beside what they need.

    Args:
        problem: what is computed.
        tile: the boxes.
        rows: the rows in boxes.
        columns: the columns in boxes.
    """
    runs, steps = [], []
    for side, strides in ((rows, problem.depth.a), (columns, problem.depth.b)):
        run = 1
        if not side.way.is_along_depth:
            run = side.run(side.axes.source)
        elif any(abs(stride) == 1 for stride in strides):
            run = max((part.extent for part in problem.depth.digits[:1]), default=1)
        runs.append(run)
        steps.append(min(run, tile.k) if side.way.is_along_depth else run)
    sizes = (problem.a.dtype.itemsize, problem.b.dtype.itemsize, problem.dtype.itemsize)
    steps.append(rows.run(rows.axes.result))
    runs.append(joint_run(rows, columns))
    rest = (
        (*rows.axes.source, *problem.depth.a, *problem.batches.source),
        (*columns.axes.source, *problem.depth.b, *problem.batches_b),
        (*rows.axes.result, *columns.axes.result, *problem.batches.result),
    )
    lines = (READ_LINE, READ_LINE, WRITTEN_LINE)
    a, b, out = (in_lines(*given) for given in zip(runs, sizes, lines, rest, strict=True))
    first, second, third = (
        -(-n * size // SECTOR_BYTES) * SECTOR_BYTES / (n * size)
        for n, size in zip(steps, sizes, strict=True)
    )
    return Waste((first, second, third), (a, b, out), not _are_whole(rest[2], sizes[2]))


def in_lines(run: int, itemsize: int, line: int, strides: Sequence[int]) -> float:
    """Return how much more than themselves runs of neighbours take in whole lines.

    Runs begin at sectors where all strides are whole sectors; others begin anywhere.

    Args:
        run: neighbours beside each other.
        itemsize: bytes of each.
        line: bytes of a line.
        strides: between runs [elements].
    """
    nbytes = run * itemsize
    if _are_whole(strides, itemsize) and nbytes % SECTOR_BYTES == 0:
        return -(-nbytes // line) * line / nbytes
    return 1 + (line - itemsize) / nbytes


def _are_whole(strides: Sequence[int], itemsize: int) -> bool:
    """Return whether strides but those of neighbours are whole sectors."""
    sector = SECTOR_BYTES // itemsize
    return all(stride % sector == 0 for stride in strides if abs(stride) > 1)
