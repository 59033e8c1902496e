"""What the rule of contract.cu's boxes says of a step that is a contraction, in words."""

from __future__ import annotations

from softcuda.backends.cuda.contract import contract_launches
from softcuda.backends.cuda.contract_packed import Boxes, sooner_boxes
from softcuda.backends.cuda.gemm_tiles import MULTIPROCESSORS
from softcuda.backends.cuda.gemm_told import cut_told
from softcuda.backends.cuda.planned import Launches
from softcuda.backends.cuda.products import prepared_product
from softcuda.backends.steps import Step, Unit
from softcuda.sizes import counted
from softcuda.target import Target

__all__ = ["boxes_told"]


def boxes_told(step: Step, target: Target) -> tuple[str, ...]:
    """Return into which boxes a contraction is cut, and what the rule expects of them.

    Args:
        step: a contraction and the chain behind it.
        target: that it was planned for.

    Returns:
        Sentences; none where its launches are not those of the rule.
    """
    if not any(launch.spec.family == "contract" for launch in step.launches):
        return ()
    unit = Unit(step.chain, step.inputs, step.outputs[0], step.lines)
    made = prepared_product(step.backend_id, unit)
    boxes = sooner_boxes(unit, made, target)
    if not _is_launched(step.launches, boxes, target):
        return ()
    units = target.multiprocessors or MULTIPROCESSORS
    copied = "" if boxes.pair is made.pair else ", the copy of its rows counted"
    return (
        f"product: {_boxes_told(boxes)}",
        f"rule: {boxes.expected_us:.1f} us on {units} multiprocessors{copied}, the fewest of all "
        "boxes, ways to read and cuts",
    )


def _is_launched(launches: Launches, boxes: Boxes, target: Target) -> bool:
    """Return whether launches end with those of a choice."""
    chosen = contract_launches(boxes.problem, boxes.choice, target.multiprocessors, 0)
    last = launches[-len(chosen) :]
    return [(one.spec.id, one.grid) for one in last] == [(one.spec.id, one.grid) for one in chosen]


def _boxes_told(boxes: Boxes) -> str:
    problem, choice = boxes.problem, boxes.choice
    m, n, k = problem.rows.count, problem.columns.count, problem.depth.count
    count = problem.batches.count * choice.tiles_of_batch
    extents = f"{problem.batches.count} x ({m}x{k} @ {k}x{n})"
    cut = cut_told(count - choice.whole, choice)
    box = f"{choice.tile.m}x{choice.tile.n}"
    return f"{extents} in {counted(count, 'box', 'boxes')} {box}; {choice.whole} whole, {cut}"
