"""What the rules say of a step of cuda_contract: boxes or tiles, copies, a move of the result."""

from __future__ import annotations

from softcuda.backends.cuda.contract_packed import Boxes
from softcuda.backends.cuda.contract_soonest import Soonest, soonest
from softcuda.backends.cuda.gemm_tiles import MULTIPROCESSORS
from softcuda.backends.cuda.gemm_told import cut_told, tiles_told
from softcuda.backends.cuda.products import PRODUCTS
from softcuda.backends.steps import Step, Unit
from softcuda.sizes import counted
from softcuda.target import Target

__all__ = ["contraction_told"]


def contraction_told(step: Step, target: Target) -> tuple[str, ...]:
    """Return into what a contraction is cut, and what the rules expect of it.

    Args:
        step: a contraction and the chain behind it.
        target: that it was planned for.

    Returns:
        Sentences; none where its launches are not those of the rules.
    """
    if not any(launch.spec.family in PRODUCTS for launch in step.launches):
        return ()
    unit = Unit(step.chain, step.inputs, step.outputs[0], step.lines)
    found = soonest(unit, target)
    if found is None or not _is_launched(step, found):
        return ()
    units = target.multiprocessors or MULTIPROCESSORS
    moved = ("result: made in scratch, where it is written in whole sectors, and moved",)
    return (*_way_told(found, units), *(moved if found.is_moved else ()))


def _is_launched(step: Step, found: Soonest) -> bool:
    """Return whether a step has the launches of a choice."""
    launches, _ = found.planned
    asked = [(one.spec.id, one.grid) for one in step.launches]
    return asked == [(one.spec.id, one.grid) for one in launches]


def _way_told(found: Soonest, units: int) -> tuple[str, str]:
    way = found.way
    if not isinstance(way, Boxes):
        return tiles_told(way.plan, way.variant, units)
    others = []
    if way.copied:
        others.append("the copy in front" if len(way.copied) == 1 else "the copies in front")
    if found.is_moved:
        others.append("the move of the result")
    also = f", {' and '.join(others)} counted" if others else ""
    return (
        f"product: {_boxes_told(way)}",
        f"rule: {found.expected_us:.1f} us on {units} multiprocessors{also}, the fewest of all "
        "boxes, ways to read and cuts",
    )


def _boxes_told(boxes: Boxes) -> str:
    problem, choice = boxes.problem, boxes.choice
    m, n, k = problem.rows.count, problem.columns.count, problem.depth.count
    count = problem.batches.count * choice.tiles_of_batch
    extents = f"{problem.batches.count} x ({m}x{k} @ {k}x{n})"
    cut = cut_told(count - choice.whole, choice)
    box = f"{choice.tile.m}x{choice.tile.n}"
    return f"{extents} in {counted(count, 'box', 'boxes')} {box}; {choice.whole} whole, {cut}"
