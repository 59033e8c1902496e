"""Products whose operands are copied first: into rows of neighbours, by depth.

gemm_tiled.cu reads an operand fastest where its depth is one axis and neighbouring rows are
neighbours in memory. Where the depth has several labels that are not contiguous, each step looks
its elements up. With much to multiply a copy of the operand costs less than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from softcuda.backends.cuda.contract_sides import SECTOR_BYTES
from softcuda.backends.cuda.copy_costs import COPY_US, copy_us
from softcuda.backends.cuda.gemm import Variant, chosen, gemm_launches, plan_cycles
from softcuda.backends.cuda.gemm_narrow import NarrowTile
from softcuda.backends.cuda.gemm_plan import GemmIndex, GemmPlan, Reading, plan_gemm
from softcuda.backends.cuda.gemm_tiles import CLOCK, part_bytes
from softcuda.backends.cuda.naive_contraction import Factor, PreparedPair
from softcuda.backends.cuda.permute import Side, copy_launch
from softcuda.backends.cuda.planned import Planned, aligned, redirected
from softcuda.backends.cuda.products import PreparedProduct
from softcuda.backends.launches import KernelLaunch, read, scratch
from softcuda.backends.steps import Unit
from softcuda.contraction.axes import Axes
from softcuda.dtype import compute_dtype
from softcuda.target import Target

__all__ = ["Packing", "far_first", "is_near", "packed_pair", "packed_us", "packings", "single_us"]

TAKEN: Final = 0.97  # of what that rule expects
SINGLE: Final = 2.0e6  # bytes a microsecond of results that are stored element by element
MAX_COPIED_BYTES: Final = 1 << 30  # of scratch
MIN_AREA: Final = 64 * 64  # of a tile: the rule of smaller ones expects too little


class Packing(NamedTuple):
    """A product behind copies of some of its operands.

    Attributes:
        plan: the product of what is copied.
        variant: how it is computed.
        copies: the launches in front of it.
        scratch_bytes: what the copies take of the step's scratch.
        cycles: what the rule expects of the product.
        copies_us: microseconds that the copies are expected to take.
    """

    plan: GemmPlan
    variant: Variant
    copies: tuple[KernelLaunch, ...]
    scratch_bytes: int
    cycles: float
    copies_us: float

    def planned(self) -> Planned:
        """Return the launches and their scratch [bytes]."""
        plan, variant = self.plan, self.variant
        launches = gemm_launches(plan, variant, plan.readings, self.scratch_bytes)
        nbytes = part_bytes(plan.size, variant, compute_dtype(plan.dtype).itemsize)
        return (*self.copies, *launches), self.scratch_bytes + nbytes


def packed_us(cycles: float) -> float:
    """Return the microseconds that a product of rows, by depth, takes of what its rule expects."""
    return TAKEN * cycles / CLOCK


def single_us(plan: GemmPlan) -> float:
    """Return the microseconds that results take longer that are stored element by element."""
    count = plan.size.batches * plan.size.m * plan.size.n
    return 0.0 if plan.stores_vectors else count * plan.dtype.itemsize / SINGLE


def is_near(plan: GemmPlan) -> bool:
    """Return whether neighbours of an index of both operands and of the result are contiguous."""
    sides = plan.rows, plan.columns
    reads = all(
        _has_run(side, 0, stored.dtype.itemsize)
        or _has_run(plan.depth, operand, stored.dtype.itemsize)
        for operand, (side, stored) in enumerate(zip(sides, (plan.a, plan.b), strict=True))
    )
    return reads and (plan.columns.count == 1 or _has_run(plan.columns, 1, plan.dtype.itemsize))


def _has_run(index: GemmIndex, operand: int, itemsize: int) -> bool:
    """Return whether an operand is contiguous along an index, for a sector or the whole index."""
    if index.nearest(operand) != 1:
        return False
    run = index.axes.dims[-1]
    return run == index.count or run * itemsize >= SECTOR_BYTES


def packings(unit: Unit, made: PreparedProduct, target: Target) -> Iterator[Packing]:
    """Yield the products behind copies of one operand, or of both, that need no look-up.

    Args:
        unit: a contraction and the chain behind it.
        made: the same, without private labels.
        target: the device.
    """
    for copied in ((0,), (1,), (0, 1)):
        packed, nbytes = packed_pair(unit, made.pair, copied, target)
        plan = plan_gemm(unit, made._replace(pair=packed))
        if not is_near(plan):
            continue
        plan, variant = chosen(plan, target)
        if nbytes > MAX_COPIED_BYTES or isinstance(variant.tile, NarrowTile):
            continue
        if variant.tile.m * variant.tile.n < MIN_AREA or Reading.ANY in plan.readings:
            continue
        cycles = plan_cycles(plan, variant, target.multiprocessors)
        copies_us = copy_us(nbytes) + (len(copied) - 1) * COPY_US
        yield Packing(plan, variant, packed.launches, packed.scratch_bytes, cycles, copies_us)


def packed_pair(
    unit: Unit, made: PreparedPair, copied: Sequence[int], target: Target
) -> tuple[PreparedPair, int]:
    """Return a pair some of whose operands are copies, and the bytes of these.

    Args:
        unit: whose operands are read.
        made: the pair, without private labels.
        copied: numbers of the operands that are copied: rows beside each other, by depth.
        target: the device.
    """
    pair = made.pair
    axes, factors = [pair.a, pair.b], [made.a, made.b]
    launches, used, total = list(made.launches), made.scratch_bytes, 0
    leader = axes[0] if len(copied) == 2 else axes[1 - copied[0]]
    depth = far_first(leader, pair.classes.k)
    where = [read(number) for number in range(len(unit.operands))]
    for operand in copied:
        own = axes[operand]
        rows = (pair.classes.m, pair.classes.n)[operand]
        order = (
            *far_first(pair.out, pair.classes.batch),
            *depth,
            *far_first(pair.out, rows),
        )
        source = own.over(order)
        dense = Axes.dense(source.labels, source.dims)
        itemsize = factors[operand].dtype.itemsize
        start = _start(unit, factors[operand])
        launch = copy_launch(
            source.dims,
            factors[operand].argument,
            Side(start, source.strides),
            Side(0, dense.strides),
            itemsize,
            target,
        )
        place = scratch(used)
        launches += redirected([launch], where, place)
        axes[operand], factors[operand] = dense, factors[operand]._replace(argument=place)
        nbytes = dense.numel * itemsize
        used += aligned(nbytes)
        total += nbytes
    packed = replace(pair, a=axes[0], b=axes[1])
    return PreparedPair(packed, factors[0], factors[1], tuple(launches), used), total


def far_first(axes: Axes, labels: Sequence[int]) -> list[int]:
    """Return labels of an operand, those whose neighbours lie farthest apart first."""
    strides = dict(zip(axes.labels, axes.strides, strict=True))
    return sorted(labels, key=lambda label: -abs(strides[label]))


def _start(unit: Unit, factor: Factor) -> int:
    kind, value = factor.argument
    return unit.operands[value].offset if kind == "read" and isinstance(value, int) else 0
