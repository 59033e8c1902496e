"""Products of a few rows or columns: which kernel they take, how it is cut, what it is given."""

from __future__ import annotations

from typing import Any

import pytest
from gemm_units import unit_of

from softcuda.backends import cuda_tiled
from softcuda.backends.cuda.gemm import chosen, planned_product
from softcuda.backends.cuda.gemm_narrow import MAX_FEW, NarrowTile, turned
from softcuda.backends.cuda.gemm_plan import GemmPlan
from softcuda.backends.cuda.gemm_tiles import MAX_PART_BYTES, GemmSize, part_bytes, tile_count
from softcuda.backends.launches import read
from softcuda.backends.steps import Step
from softcuda.dtype import f32, f64
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)


def step_of(equation: str, *shapes: Any) -> Step:
    (step,) = cuda_tiled.prepare(unit_of(equation, list(shapes), f32), H200)
    return step


def plan_of(equation: str, *shapes: Any) -> GemmPlan:
    return planned_product(unit_of(equation, list(shapes), f64))[1]


@pytest.mark.parametrize(
    ("equation", "shapes", "arguments"),
    [
        ("ij,jk->ik", ((1, 512), (512, 100)), "1, 8, 4, 4, false"),
        ("ij,jk->ik", ((3, 512), (512, 101)), "4, 8, 4, 1, false"),
        ("ij,kj->ik", ((4, 512), (100, 512)), "4, 8, 4, 4, true"),
        ("ij,kj->ik", ((8, 511), (100, 511)), "8, 8, 4, 1, true"),
        ("ij,j->i", ((300, 512), (512,)), "1, 16, 2, 4, true"),
        ("ij,jk->ik", ((300, 512), (512, 3)), "4, 8, 4, 4, true"),
        ("ji,jk->ik", ((512, 300), (512, 6)), "8, 8, 4, 4, false"),
    ],
)
def test_the_wide_operand_decides(
    equation: str, shapes: tuple[tuple[int, ...], ...], arguments: str
) -> None:
    """By its order in memory and by whether it has whole vectors; the few are always rows."""
    launch = step_of(equation, *shapes).launches[0]
    assert f"f32, f32, f32, {arguments}, " in launch.spec.expression
    wide = max((0, 1), key=lambda number: _count(shapes[number]))
    assert launch.arguments[3] == read(wide)


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((9, 512), (512, 100))),
        ("ij,jk->ik", ((8, 512), (512, 63))),
        ("ij,kj->ik", ((5, 512), (100, 512))),
        ("ij,jk->ik", ((300, 512), (512, 6))),
        ("ij,jk->ik", ((4, 0), (0, 100))),
        ("iab,bak->ik", ((4, 8, 6), (6, 8, 100))),
    ],
)
def test_others_take_tiles(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """More rows or columns, too few of the others, nothing to sum, several axes of k."""
    plan, variant = chosen(planned_product(unit_of(equation, list(shapes), f32))[1], H200)
    assert not isinstance(variant.tile, NarrowTile)
    assert plan.size.k in (0, 48, 512)


@pytest.mark.parametrize("units", [0, 20, 132])
def test_parts_cover_k(units: int) -> None:
    target = Target("cuda", "sm_90a", units, 227, 60)
    for few, wide, k in ((1, 64, 10**6), (8, 4096, 4096), (5, 100, 300), (1, 10**6, 4096)):
        plan, variant = chosen(plan_of("ij,jk->ik", (few, k), (k, wide)), target)
        assert isinstance(variant.tile, NarrowTile)
        assert plan.size == GemmSize(1, few, wide, k)
        tiles = tile_count(plan.size, variant.tile)
        assert (variant.splits == 1) == (variant.whole == tiles)
        assert variant.splits == 1 or variant.splits * variant.k_chunk >= k
        assert part_bytes(plan.size, variant, 8) <= MAX_PART_BYTES
        assert variant.tile.m <= MAX_FEW


def test_a_turned_product_is_the_same() -> None:
    plan = plan_of("bij,bjk->bik", (2, 3, 40), (2, 40, 70))
    other = turned(plan)
    assert other.size == plan.size._replace(m=plan.size.n, n=plan.size.m)
    assert other.depth.strides(0) == plan.depth.strides(1)
    assert other.batches.strides(1) == plan.batches.strides(0)
    assert turned(other) == plan


def test_a_known_start_decides_on_vectors() -> None:
    """An operand that begins inside its buffer has vectors where it begins at one of them."""
    unit = unit_of("ij,jk->ik", [(64, 64), (64, 64)], f32)
    for start, names in ((0, "k4"), (4, "k4"), (3, "k")):
        moved = unit._replace(operands=(unit.operands[0]._replace(offset=start), unit.operands[1]))
        (step,) = cuda_tiled.prepare(moved, H200)
        assert step.launches[0].spec.variant.split("_")[-2] == names


def test_far_rows_are_read_with_wide_offsets() -> None:
    far = ((64, 8), (2**26, 1))
    launch = step_of("ij,jk->ik", far, (8, 64)).launches[0]
    assert "ANY, ANY" in launch.spec.expression
