"""What `explain` says of a contraction that contract.cu computes: boxes, cuts, expected time."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from gemm_units import unit_of
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import cuda_contract
from softcuda.backends.cuda.contract import planned_contraction
from softcuda.backends.cuda.contract_rule import choose, contract_us
from softcuda.dtype import f32
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)

CHAIN: list[Any] = [("add", (-1, 2), None), ("relu", (-1,), None)]
CASES: list[tuple[str, list[tuple[int, ...]], list[Any], str]] = [
    ("cged,bafg->fedcba", [(16, 24, 16, 24), (16, 24, 16, 24)], [], "permute_tile contract"),
    ("adb,cd->cba", [(312, 312, 312), (24, 312)], [], "contract"),
    ("adb,cd->cba", [(24, 12, 40), (24, 12), (24, 40, 24)], CHAIN, "contract"),
    ("dca,cbd->ba", [(312, 296, 312), (296, 296, 312)], [], "contract contract_sum"),
    ("adbp,cdq->cba", [(5, 6, 4, 3), (7, 6, 4)], [], "private_sum private_sum contract"),
]
BOXES = re.compile(
    r"product: (\d+) x \((\d+)x(\d+) @ \3x(\d+)\) in (\d+) box(?:es)? (\d+x\d+); (\d+) whole, "
    r"(\d+) cut(?: into (\d+) parts of k (\d+) each)?"
)


@pytest.mark.parametrize(("equation", "shapes", "chain", "families"), CASES)
def test_boxes_are_told_as_they_are_launched(
    equation: str, shapes: list[tuple[int, ...]], chain: list[Any], families: str
) -> None:
    (step,) = cuda_contract.prepare(unit_of(equation, shapes, f32, chain), H200)
    assert [launch.spec.family for launch in step.launches] == families.split()
    boxes, rule = cuda_contract.told(step, H200)
    found = BOXES.fullmatch(boxes)
    assert found is not None
    launch = next(launch for launch in step.launches if launch.spec.family == "contract")
    assert f"_{found[6]}x" in launch.spec.variant
    count, whole, cut, parts = (int(found[group] or 1) for group in (5, 7, 8, 9))
    assert whole + cut == count
    assert launch.grid[0] <= whole + cut * parts
    assert (cut > 0) == ("contract_sum" in families)
    assert rule.endswith("the fewest of all boxes, ways to read and cuts")
    assert ("the copy in front counted" in rule) == ("permute_tile" in families)


def test_the_time_is_that_of_the_rule() -> None:
    unit = unit_of("adb,cd->cba", [(312, 312, 312), (24, 312)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    _, problem = planned_contraction(unit)
    expected = contract_us(problem, choose(problem, 132), 132)
    _, rule = cuda_contract.told(step, H200)
    assert rule.startswith(f"rule: {expected:.1f} us on 132 multiprocessors, the fewest")


def test_nothing_is_told_of_launches_that_the_rule_does_not_choose() -> None:
    """As of a saved executable that another version made."""
    unit = unit_of("adb,cd->cba", [(312, 312, 312), (24, 312)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    (launch,) = step.launches
    other = step._replace(launches=(replace(launch, grid=(7, 1, 1)),))
    assert cuda_contract.told(other, H200) == ()


def test_explain_says_it_and_nothing_of_tiles() -> None:
    a, b = (sc.input((24,) * 4, device="cuda") for _ in range(2))
    product = sc.einsum("abcd,dbea->ec", a, b)
    made = sc.compile(product, fast_profile(matmul="cuda_contract"), target="sm_90a")
    text = made.explain(product)
    assert "product: 1 x (24x13824 @ 13824x24) in 1 box 32x32; 0 whole, 1 cut into" in text
    assert "us on 128 multiprocessors, the fewest of all boxes" in text and "tiles" not in text


def test_a_moved_result_and_copies_are_told() -> None:
    """A batch label is the contiguous one of the result, and of one operand in the second case."""
    unit = unit_of("caed,cdb->baec", [(96, 37, 72, 48), (96, 48, 128)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    product, rule, result = cuda_contract.told(step, H200)
    assert product.startswith("product: 96 x (") and " in " in product
    assert "the move of the result counted" in rule
    assert result == "result: made in scratch, where it is written in whole sectors, and moved"
    unit = unit_of("bca,adc->cbd", [(301, 96, 301), (301, 512, 96)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    _, rule = cuda_contract.told(step, H200)
    assert "the copy in front counted" in rule


def test_nothing_is_told_of_dots() -> None:
    """They are reductions."""
    (step,) = cuda_contract.prepare(unit_of("ij,ji->i", [(17, 33), (33, 17)], f32), H200)
    assert cuda_contract.told(step, H200) == ()
