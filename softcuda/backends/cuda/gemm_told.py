"""What the rule of gemm_tiles says of a step that is a product of matrices, in words."""

from __future__ import annotations

from typing import Final

from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.gemm import MAX_BLOCKS, Variant, chosen, plan_cycles, planned_product
from softcuda.backends.cuda.gemm_narrow import FILL, MIN_CHUNK, NarrowTile
from softcuda.backends.cuda.gemm_plan import GemmPlan
from softcuda.backends.cuda.gemm_tiles import (
    CLOCK,
    MULTIPROCESSORS,
    tile_count,
)
from softcuda.backends.cuda.planned import Launches
from softcuda.backends.steps import Step, Unit
from softcuda.sizes import counted
from softcuda.target import Target

__all__ = ["cut_told", "product_told", "tiles_told"]

_FAMILIES: Final = ("gemm_tiled", "gemm_narrow")


def product_told(step: Step, target: Target) -> tuple[str, ...]:
    """Return which tiles a product is cut into, and what the rule expects of them.

    Args:
        step: a contraction and the chain behind it.
        target: that it was planned for.

    Returns:
        Sentences; none where its launches are not those of the rule.
    """
    if not any(launch.spec.family in _FAMILIES for launch in step.launches):
        return ()
    unit = Unit(step.chain, step.inputs, step.outputs[0], step.lines)
    units = target.multiprocessors or MULTIPROCESSORS
    plan, variant = chosen(planned_product(unit)[1], target)
    return tiles_told(plan, variant, units) if _is_launched(step.launches, plan, variant) else ()


def tiles_told(plan: GemmPlan, variant: Variant, units: int) -> tuple[str, str]:
    """Return into which tiles a product is cut, and what the rule expects of them.

    Args:
        plan: what is multiplied.
        variant: how.
        units: multiprocessors.
    """
    return f"product: {_tiles_told(plan, variant)}", f"rule: {_rule_told(plan, variant, units)}"


def _is_launched(launches: Launches, plan: GemmPlan, variant: Variant) -> bool:
    """Return whether one of the launches has the tile and the blocks of a choice."""
    blocks = variant.whole + (tile_count(plan.size, variant.tile) - variant.whole) * variant.splits
    return any(
        launch.spec.family in _FAMILIES
        and f"_{variant.tile.name}_" in f"{launch.spec.variant}_"
        and (blocks == launch.grid[0] or blocks > MAX_BLOCKS)
        for launch in launches
    )


def _tiles_told(plan: GemmPlan, variant: Variant) -> str:
    size, tile = plan.size, variant.tile
    count = tile_count(size, tile)
    extents = f"{size.batches} x ({size.m}x{size.k} @ {size.k}x{size.n})"
    cut = cut_told(count - variant.whole, variant)
    return f"{extents} in {counted(count, 'tile')} {tile.m}x{tile.n}; {variant.whole} whole, {cut}"


def cut_told(cut: int, choice: Variant | BoxChoice) -> str:
    """Return how many tiles are cut, and into which parts: "3 cut into 2 parts of k 64 each".

    Args:
        cut: how many tiles are.
        choice: that has them.
    """
    parts = f" into {choice.splits} parts of k {choice.k_chunk} each" if cut else ""
    return f"{cut} cut{parts}"


def _rule_told(plan: GemmPlan, variant: Variant, units: int) -> str:
    tile = variant.tile
    if isinstance(tile, NarrowTile):
        return (
            f"a few rows take gemm_narrow, cut into ceil({FILL} * {units} / tiles) parts of k "
            f"{MIN_CHUNK} or more; no time is expected of it"
        )
    cycles = plan_cycles(plan, variant, units)
    return (
        f"{cycles:.0f} cycles on {units} multiprocessors, {cycles / CLOCK:.1f} us at "
        f"{CLOCK:.0f} MHz, the fewest of all tiles and cuts"
    )
