"""What the sweep of matrix products times: a tile, a cut, and a way to read the operands."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import softcuda as sc
from benchmarks.gpu_work import PROFILE
from benchmarks.sweeps.gemm_cases import Case, shown
from softcuda.backends.cuda.gemm import Variant, planned_product
from softcuda.backends.cuda.gemm_narrow import NarrowTile
from softcuda.backends.cuda.gemm_plan import GemmPlan, Reading
from softcuda.backends.cuda.gemm_tiles import GemmTile, GemmVariant, tile_count
from softcuda.backends.steps import Unit
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.dtype import f32
from softcuda.graph.trace import trace
from softcuda.profile.resolve import default_profile
from softcuda.profile.resolve import read as read_profile
from softcuda.target import Target

__all__ = ["Candidate", "planned", "ways"]

Readings = tuple[Reading, Reading]

COPIED_AREA: Final = 64 * 64  # elements of a tile from which 4-byte copies are tried


class Candidate(NamedTuple):
    """A variant of a product, and how its operands are read."""

    variant: Variant
    readings: Readings
    way: str = ""  # where it is not the plan's: any, copied

    @property
    def tile(self) -> str:
        """The tile as the sweep names it, and the way to read."""
        made = self.variant.tile
        if isinstance(made, NarrowTile):
            return f"{made.name} {made.warps} warps, {made.columns} columns"
        return f"{shown(made)} {self.way}".strip()

    @property
    def shown(self) -> str:
        """The tile and the cut."""
        if self.variant.splits == 1:
            return self.tile
        return f"{self.tile} / {self.variant.whole}+{self.variant.splits}"


def planned(case: Case, target: Target) -> GemmPlan:
    """Return the product that the compiler plans for a case."""
    b, m, n, k = case[:4]
    a = sc.input((b, k, m) if case.is_a_turned else (b, m, k), f32)
    c = sc.input((b, n, k) if case.is_b_turned else (b, k, n), f32)
    left = sc.permute_dims(a, (0, 2, 1)) if case.is_a_turned else a
    right = sc.permute_dims(c, (0, 2, 1)) if case.is_b_turned else c
    settings = Settings(read_profile(Path(PROFILE)), default_profile(), target)
    program = compile_graph(trace([left @ right]).graph, settings)
    (step,) = (step for step in program.steps if step.backend_id == "cuda_tiled")
    return planned_product(Unit(step.chain, step.inputs, step.outputs[0], step.lines))[1]


def ways(plan: GemmPlan, tile: GemmTile, is_first: bool) -> list[Candidate]:
    """Return a tile without cuts, read as planned and in other ways.

    Args:
        plan: the product.
        tile: what a block sums.
        is_first: whether reading in any way is tried too.
    """
    variant = GemmVariant(tile, tile_count(plan.size, tile), 1, tile.k)
    made = [Candidate(variant, plan.readings)]
    if Reading.DEPTH_VECTOR in plan.readings and tile.m * tile.n >= COPIED_AREA:
        single = {Reading.DEPTH_VECTOR: Reading.DEPTH_SINGLE}
        a, b = (single.get(reading, reading) for reading in plan.readings)
        made.append(Candidate(variant, (a, b), "copied"))
    if is_first:
        made.append(Candidate(variant, (Reading.ANY, Reading.ANY), "any"))
    return made
