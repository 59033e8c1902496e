"""Contractions that gemm_tiled.cu computes sooner than contract.cu: plain products of matrices.

gemm_tiled.cu cuts one index of rows, one of columns. Where both operands and the result are
contiguous along the innermost label of such an index, it reads and writes whole sectors as well as
boxes over several labels do, with less to do for each step. Where the depth has several labels that
are not contiguous, or vectors of an operand lie along it, which are taken apart, copies may be
worth it (gemm_packed.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple

from softcuda.backends.cuda.copy_costs import copy_us
from softcuda.backends.cuda.gemm import (
    Variant,
    chosen,
    gemm_launches,
    plan_cycles,
)
from softcuda.backends.cuda.gemm_narrow import NarrowTile
from softcuda.backends.cuda.gemm_packed import (
    MAX_COPIED_BYTES,
    Packing,
    is_near,
    packed_us,
    packings,
    single_us,
)
from softcuda.backends.cuda.gemm_plan import GemmPlan, Reading, plan_gemm
from softcuda.backends.cuda.gemm_tiles import (
    CLOCK,
    GEMM_TILES,
    MULTIPROCESSORS,
    part_bytes,
    variants,
)
from softcuda.backends.cuda.planned import Planned
from softcuda.backends.cuda.products import PreparedProduct
from softcuda.backends.steps import Unit
from softcuda.dtype import compute_dtype, f32
from softcuda.target import Target

__all__ = ["Product", "product_us", "read_anyhow", "sooner_product"]

ANY: Final = 100.0  # see product_us
TAKEN: Final = 0.9  # of what that rule expects, beside what contract.cu's rule expects of itself
COPIES: Final = 0.2  # of a product: what copies in front of it may take
LONG_US: Final = 30.0  # a product that copies may be in front of
WORTH: Final = 0.95  # of the time without copies, which take scratch: what they must come below
WORTH_ROWS: Final = 0.97  # the same of vectors that are taken apart
MAX_ROWS_BYTES: Final = 1 << 26  # of scratch for these: a few percent of the time are no more worth
# Rows and columns of a tile of f32 -> times as long as with rows beside each other that a product
# takes where vectors of A, or of B, are taken apart: 1024, 2048, 4096 and case 15 of TCCG.
APART: Final[Mapping[tuple[int, int], tuple[float, float]]] = MappingProxyType(
    {(128, 128): (1.0, 1.09), (128, 64): (1.03, 1.03), (64, 64): (1.07, 1.07)}
)


class Product(NamedTuple):
    """A product of matrices as gemm_tiled.cu or gemm_narrow.cu computes it.

    Attributes:
        plan: what is multiplied.
        variant: how.
        planned: the launches, those of copies in front included, and their scratch [bytes].
        expected_us: microseconds that they are expected to take.
    """

    plan: GemmPlan
    variant: Variant
    planned: Planned
    expected_us: float


def sooner_product(
    unit: Unit, made: PreparedProduct, target: Target, limit_us: float
) -> Product | None:
    """Return the product of gemm_tiled.cu; None where it takes longer.

    Args:
        unit: a contraction and the chain behind it.
        made: the same, without private labels.
        target: the device.
        limit_us: what contract.cu is expected to take.
    """
    plan = plan_gemm(unit, made)
    found: Product | None = None
    best_us = limit_us
    if is_near(plan):
        turned, variant = _chosen(plan, target)
        us = product_us(turned, variant, target.multiprocessors)
        if us < best_us:
            nbytes = part_bytes(turned.size, variant, compute_dtype(turned.dtype).itemsize)
            launches = gemm_launches(turned, variant, turned.readings, made.pair.scratch_bytes)
            planned = (*made.pair.launches, *launches), made.pair.scratch_bytes + nbytes
            found = Product(turned, variant, planned, us)
            best_us = us
    if best_us > LONG_US and _copies_us(plan) < COPIES * best_us:
        return _behind_copies(unit, made, target, found, best_us) or found
    return found


def _behind_copies(
    unit: Unit, made: PreparedProduct, target: Target, plain: Product | None, us: float
) -> Product | None:
    """Return the product behind copies; None where what it takes without is no longer.

    Args:
        unit: a contraction and the chain behind it.
        made: the same, without private labels.
        target: the device.
        plain: the product of what is not copied, if that is worth it.
        us: microseconds without copies.
    """
    allowed_us, most_bytes = WORTH * us, MAX_COPIED_BYTES
    if plain is not None and Reading.ANY not in plain.plan.readings:
        cycles = plan_cycles(plain.plan, plain.variant, target.multiprocessors)
        allowed_us = WORTH_ROWS * packed_us(cycles) * _apart(plain.plan, plain.variant)
        most_bytes = MAX_ROWS_BYTES
    tried = (one for one in packings(unit, made, target) if one.scratch_bytes <= most_bytes)
    behind = min(tried, key=_expected_us, default=None)
    if behind is None or _expected_us(behind) >= allowed_us:
        return None
    return Product(behind.plan, behind.variant, behind.planned(), _expected_us(behind))


def _expected_us(one: Packing) -> float:
    product_us = packed_us(one.cycles) * _apart(one.plan, one.variant)
    return product_us + single_us(one.plan) + one.copies_us


def _apart(plan: GemmPlan, variant: Variant) -> float:
    """Return how many times as long a product takes for vectors that are taken apart."""
    if plan.dtype is not f32:
        return 1.0
    factors = APART.get((variant.tile.m, variant.tile.n), (1.0, 1.0))
    pairs = zip(plan.readings, factors, strict=True)
    return prod(factor for way, factor in pairs if way is Reading.DEPTH_VECTOR)


def _copies_us(plan: GemmPlan) -> float:
    """Return the microseconds that a copy of the smaller operand takes."""
    size = plan.size
    rows = min(size.m * plan.a.dtype.itemsize, size.n * plan.b.dtype.itemsize)
    return copy_us(size.batches * size.k * rows)


def product_us(plan: GemmPlan, variant: Variant, multiprocessors: int) -> float:
    """Return the microseconds that a product is expected to take: TAKEN of gemm_tiled's rule.

    Results that are stored element by element take longer by `single_us`.
    Kernels that decide as they run how to read an operand take ANY * (1 / rows + 1 / columns)^1.5
    of a tile longer: 1.13 times with 128 x 256, 1.5 times with 64 x 64, as measured.
    """
    tile = variant.tile
    us = TAKEN * plan_cycles(plan, variant, multiprocessors) / CLOCK
    if not isinstance(tile, NarrowTile):
        us += single_us(plan)
    is_any = Reading.ANY in plan.readings
    return us * (1 + ANY * (1 / tile.m + 1 / tile.n) ** 1.5) if is_any else us


def _chosen(plan: GemmPlan, target: Target) -> tuple[GemmPlan, Variant]:
    """Return what gemm_tiled's rule chooses, of all tiles where each step decides how to read."""
    turned, variant = chosen(plan, target)
    if isinstance(variant.tile, NarrowTile) or Reading.ANY not in plan.readings:
        return turned, variant
    return plan, read_anyhow(plan, target)


def read_anyhow(plan: GemmPlan, target: Target) -> Variant:
    """Return the soonest of all tiles and cuts where each step decides how to read."""
    units = target.multiprocessors or MULTIPROCESSORS
    itemsize = compute_dtype(plan.dtype).itemsize
    tried = (
        one for tile in GEMM_TILES[plan.dtype] for one in variants(plan.size, tile, units, itemsize)
    )
    return min(tried, key=lambda one: product_us(plan, one, units))
