"""Contractions with batch labels inside, and of odd runs: copies in front, results moved behind."""

from __future__ import annotations

import math
from typing import Any

import contract_model
import numpy as np
import pytest
from gemm_units import layout_of_array, unit_of
from tile_model import moved

from softcuda.backends.cuda import contract_soonest
from softcuda.backends.cuda.contract import contract_launches
from softcuda.backends.cuda.contract_choice import cut_bytes
from softcuda.backends.cuda.contract_plan import plan_contraction
from softcuda.backends.cuda.contract_rule import choose, contract_us
from softcuda.backends.cuda.contract_soonest import soonest
from softcuda.backends.cuda.products import PreparedProduct, prepared_product
from softcuda.backends.steps import Unit
from softcuda.dtype import f32
from softcuda.target import Target

Array = np.ndarray[Any, Any]

H200 = Target("cuda", "sm_90a", 132, 227, 60)


def made_of(unit: Unit) -> PreparedProduct:
    return prepared_product("cuda_contract", unit)


def shapes_of(equation: str, extents: dict[str, int]) -> list[tuple[int, ...]]:
    operands = equation.split("->", maxsplit=1)[0].split(",")
    return [tuple(extents[label] for label in operand) for operand in operands]


# Batch labels that are contiguous in the result, in an operand, or in all three.
INSIDE = [
    ("caed,cdb->baec", {"c": 96, "a": 37, "e": 72, "d": 48, "b": 128}, 0, True),
    ("acd,cdb->bad", {"a": 997, "b": 512, "c": 600, "d": 37}, 1, True),
    ("bca,adc->cbd", {"a": 301, "b": 301, "c": 96, "d": 512}, 1, False),
    ("dab,cad->dcb", {"a": 301, "b": 512, "c": 512, "d": 64}, 1, False),
    ("ijb,jkb->ikb", {"i": 256, "j": 256, "k": 256, "b": 64}, 2, True),
]


@pytest.mark.parametrize(("equation", "extents", "copies", "is_moved"), INSIDE)
def test_batches_inside_are_moved_out(
    equation: str, extents: dict[str, int], copies: int, is_moved: bool
) -> None:
    """Boxes would move each sector of them 8 times."""
    unit = unit_of(equation, shapes_of(equation, extents), f32)
    found = soonest(unit, H200)
    assert found is not None and found.is_moved == is_moved
    launches, nbytes = found.planned
    families = [launch.spec.family.split("_")[0] for launch in launches]
    assert families[:copies] == ["permute"] * copies
    assert (families[-1] == "permute") == is_moved
    assert families.count("permute") == copies + is_moved
    kinds = [launch.arguments[0].kind for launch in launches]
    assert kinds.count("write") == 1 and kinds[-1] == "write"
    result = 4 * math.prod(extents[label] for label in equation.partition("->")[2])
    assert nbytes >= result * is_moved
    boxes = choose(plan_contraction(made_of(unit)), 132)
    assert found.expected_us < 0.95 * contract_us(plan_contraction(made_of(unit)), boxes, 132)


def test_results_that_are_small_or_lie_well_are_not_moved() -> None:
    for equation, shapes in (
        ("ijb,jkb->ikb", [(16, 8, 16), (8, 16, 16)]),
        ("bij,bjk->bik", [(64, 256, 256), (64, 256, 256)]),
        ("ij,jk->ik", [(2048, 2048), (2048, 2048)]),
    ):
        found = soonest(unit_of(equation, shapes, f32), H200)
        assert found is not None and not found.is_moved


@pytest.mark.parametrize("near", [0, 1])
def test_a_moved_result_is_the_contraction(near: int) -> None:
    """What boxes write into scratch is what the last launch moves."""
    equation, sizes = "caed,cdb->baec", {"c": 8, "a": 5, "e": 12, "d": 16, "b": 24}
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-9, 9, shape).astype(np.int32) for shape in shapes_of(equation, sizes))
    unit = unit_of(equation, [layout_of_array(x), layout_of_array(y)], f32)
    made = made_of(unit)
    turned = list(contract_soonest._dense_results(made))[near]
    source = turned.pair.pair.out
    problem = plan_contraction(turned)
    choice = choose(problem, 132)
    launches = contract_launches(problem, choice, 132, turned.pair.scratch_bytes)
    planned = launches, cut_bytes(problem, choice)
    (first, *_, move), nbytes = contract_soonest._moved(
        unit, planned, source, made.pair.pair.out, H200
    )
    assert first.arguments[0].kind == "scratch" and move.arguments[1] == first.arguments[0]
    count = math.prod(sizes[label] for label in equation.partition("->")[2])
    assert nbytes >= 4 * count
    operands = [each.reshape(-1).astype(np.float64) for each in (x, y)]
    if problem.a is not made.pair.a:
        operands.reverse()
    between = contract_model.carried_out(first, operands[0], operands[1], count)
    out = np.zeros(count, np.int32)
    moved(move, between.astype(np.int32), 0, out)
    expected = np.einsum(equation, x.astype(np.int64), y.astype(np.int64))
    assert np.array_equal(out.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("equation", "extents"),
    [
        ("edfc,eba->afcbd", {"a": 31, "b": 37, "c": 16, "d": 17, "e": 24, "f": 16}),
        ("aged,cbfg->fedcba", dict(zip("abcdefg", (23, 17, 13, 19, 17, 19, 29), strict=True))),
    ],
)
def test_results_of_odd_runs_go_to_tiles(equation: str, extents: dict[str, int]) -> None:
    """Boxes store their elements beyond the ends of sectors, which takes longer than copies."""
    found = soonest(unit_of(equation, shapes_of(equation, extents), f32), H200)
    assert found is not None
    assert found.planned[0][-1].spec.family == "gemm_tiled"
    assert [launch.spec.family for launch in found.planned[0][:-1]] in (
        ["permute_tile"],
        ["permute_tile"] * 2,
    )
