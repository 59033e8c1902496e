"""The soonest way to a contraction: boxes or tiles, behind copies, and a move of the result.

Boxes write whole sectors where rows or columns hold the label along which the result is contiguous.
Where a batch label is that one, or a label of a few elements, they write a part of each sector,
which memory reads before it is written, for each part anew. The result is then made in scratch,
where the label along which an operand is contiguous is contiguous too, and one more launch moves
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from softcuda.backends.cuda.contract import contract_launches
from softcuda.backends.cuda.contract_choice import BoxChoice, cut_bytes
from softcuda.backends.cuda.contract_pack import CONTRACTION_BYTES, EXTRA_INDICES, extra_rank
from softcuda.backends.cuda.contract_packed import MIN_BYTES, WASTED, WORTH, Boxes, sooner_boxes
from softcuda.backends.cuda.contract_plan import ContractProblem, plan_contraction
from softcuda.backends.cuda.contract_products import Product, sooner_product
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, STATIC_BYTES
from softcuda.backends.cuda.copy_costs import copy_us
from softcuda.backends.cuda.gemm import product_launches
from softcuda.backends.cuda.gemm_packed import MAX_COPIED_BYTES, far_first
from softcuda.backends.cuda.permute import Side, copy_launch
from softcuda.backends.cuda.planned import Planned, aligned, one_step, redirected
from softcuda.backends.cuda.products import (
    PreparedProduct,
    fits_parameters,
    numbers_of,
    prepared_product,
    shown_product,
)
from softcuda.backends.launches import read, scratch
from softcuda.backends.steps import Step, Unit
from softcuda.contraction.axes import Axes
from softcuda.dtype import compute_dtype
from softcuda.target import Target

__all__ = ["Soonest", "prepare_contract", "soonest"]

_NAME: Final = "cuda_contract"


class Soonest(NamedTuple):
    """A contraction as it is expected to take the least time.

    Attributes:
        way: its boxes, or its tiles.
        planned: the launches, all that is copied and moved included, and their scratch [bytes].
        expected_us: microseconds that they are expected to take.
        is_moved: the result is made in scratch, and moved.
    """

    way: Boxes | Product
    planned: Planned
    expected_us: float
    is_moved: bool = False


def prepare_contract(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction of floats and the elementwise chain behind it.

    Where the chain reads more operands than boxes have room for, or their strides take more
    parameters than a kernel has, gemm_tiled.cu, which needs less for each, takes the unit.

    Raises:
        BackendError: ops stand in front of the contraction, or the chain reads so many operands
            that their strides are more than a kernel takes.
    """

    def planned() -> Planned:
        found = soonest(unit, target)
        return product_launches(unit, target) if found is None else found.planned

    return one_step(_NAME, unit, planned, shown_product)


def soonest(unit: Unit, target: Target) -> Soonest | None:
    """Return how a contraction takes the least time; None where no box and no kernel takes it.

    Args:
        unit: a contraction whose result has elements, and the chain behind it.
        target: the device.
    """
    made = prepared_product(_NAME, unit)
    if not _has_box(plan_contraction(made)):
        return None
    best = _as_it_lies(unit, made, target)
    if best is None or not _is_scattered(best.way, made):
        return best
    place, nbytes = made.pair.pair.out, made.pair.pair.out.numel * unit.result.dtype.itemsize
    if not MIN_BYTES <= nbytes <= MAX_COPIED_BYTES:
        return best
    move_us = copy_us(nbytes)
    for turned in _dense_results(made):
        found = _as_it_lies(unit, turned, target)
        if found is not None and found.expected_us + move_us < WORTH * best.expected_us:
            planned = _moved(unit, found.planned, turned.pair.pair.out, place, target)
            best = Soonest(found.way, planned, found.expected_us + move_us, is_moved=True)
    return best


def _as_it_lies(unit: Unit, made: PreparedProduct, target: Target) -> Soonest | None:
    """Return the soonest way to a result where it is asked for; None where no kernel takes it."""
    boxes = sooner_boxes(unit, made, target)
    product = sooner_product(unit, made, target, boxes.expected_us)
    if product is not None:
        return Soonest(product, product.planned, product.expected_us)
    pair, problem, choice = boxes.pair, boxes.problem, boxes.choice
    if not _fits(problem, choice):
        return None
    launches = contract_launches(problem, choice, target.multiprocessors, pair.scratch_bytes)
    nbytes = pair.scratch_bytes + cut_bytes(problem, choice)
    return Soonest(boxes, ((*pair.launches, *launches), nbytes), boxes.expected_us)


def _is_scattered(way: Boxes | Product, made: PreparedProduct) -> bool:
    """Return whether boxes write a part of each sector."""
    return isinstance(way, Boxes) and way.choice.waste.sectors[2] >= WASTED


def _dense_results(made: PreparedProduct) -> Iterator[PreparedProduct]:
    """Yield a contraction with its result in another order: batches outermost, a side innermost."""
    pair = made.pair.pair
    classes = pair.classes
    sides = far_first(pair.a, classes.m), far_first(pair.b, classes.n)
    for far, near in (sides, sides[::-1]):
        if near:
            order = (*far_first(pair.a, classes.batch), *far, *near)
            out = Axes.dense(order, pair.dims(order))
            yield made._replace(pair=made.pair._replace(pair=pair.with_result(out)))


def _moved(unit: Unit, planned: Planned, source: Axes, out: Axes, target: Target) -> Planned:
    """Return launches that write scratch, and behind them the one that moves it.

    Args:
        unit: what is computed.
        planned: the launches that write the result, and their scratch [bytes].
        source: the result as they write it.
        out: the result as it is asked for.
        target: the device.
    """
    launches, used = planned
    place, own = scratch(aligned(used)), source.over(out.labels)
    where = [read(number) for number in range(len(unit.operands))]
    itemsize = unit.result.dtype.itemsize
    sides = Side(0, own.strides), Side(0, out.strides)
    move = copy_launch(own.dims, place, *sides, itemsize, target)
    return (*redirected(launches, where, place), move), aligned(used) + own.numel * itemsize


def _has_box(problem: ContractProblem) -> bool:
    """Return whether the offsets of a chain's operands leave a box room in shared memory."""
    itemsize, tiles = compute_dtype(problem.dtype).itemsize, CONTRACT_TILES[problem.dtype]
    return any(one.shared_bytes(itemsize, True, problem.extras) <= STATIC_BYTES for one in tiles)


def _fits(problem: ContractProblem, choice: BoxChoice) -> bool:
    """Return whether a kernel takes the strides of a chain's operands."""
    count = len(problem.epilogue.operands) + len(numbers_of(problem.factors))
    nbytes = 8 * EXTRA_INDICES * extra_rank(problem, choice) * max(count, 1)
    return fits_parameters(CONTRACTION_BYTES, nbytes, count)
