"""How a contraction is computed: a box, its sides, cuts along the depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_sides import SideBoxes
from softcuda.backends.cuda.contract_tiles import ContractTile
from softcuda.dtype import compute_dtype

__all__ = ["BoxChoice", "Waste", "cut_bytes"]


class Waste(NamedTuple):
    """How much more than a, b and the result boxes take.

    Attributes:
        sectors: between multiprocessors and the L2 cache.
        lines: between the L2 cache and memory, if no neighbour shared a line.
        is_askew: runs of the result begin anywhere in a sector.
    """

    sectors: tuple[float, float, float]
    lines: tuple[float, float, float]
    is_askew: bool


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
        apart_ns: nanoseconds by which neighbouring blocks start apart.
    """

    tile: ContractTile
    rows: SideBoxes
    columns: SideBoxes
    has_vectors: bool
    waste: Waste
    whole: int
    splits: int = 1
    k_chunk: int = 1
    apart_ns: int = 0

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
