"""Memory limits: what fits stays whole, what does not is cut with few operations more."""

from __future__ import annotations

import math
from typing import Any

import pytest
from path_evaluation import evaluate
from tolerance import assert_close

from softcuda.contraction.equation import Equation, equation_of
from softcuda.contraction.path import ContractionPath
from softcuda.contraction.planning import find_path
from softcuda.contraction.slicing import Storage, largest_divisor
from softcuda.dtype import f64
from softcuda.errors import ArgumentError
from softcuda.tools.conformance_expressions import pattern
from softcuda.tools.conformance_oracle import contract

EXTENTS = {"i": 6, "j": 8, "k": 9, "l": 5, "m": 7, "h": 4}


def path_of(
    equation: Equation, *, between: int = 8, output: int = 8, **options: Any
) -> ContractionPath:
    extents = [EXTENTS[name] for name in equation.names]
    shapes = [tuple(extents[label] for label in labels) for labels in equation.inputs]
    return find_path(equation, shapes, Storage((8,) * len(shapes), between, output), **options)


def agrees(path: ContractionPath) -> None:
    operands = [pattern(dims, shift) for shift, dims in enumerate(path.shapes)]
    equation = path.equation
    expected = contract(equation.inputs, equation.output, operands)
    scale = contract(equation.inputs, equation.output, [abs(x) for x in operands])
    summed = math.prod(path.extents)
    assert_close(evaluate(path, operands), expected, f64, "matmul", k_extent=summed, scale=scale)


CHAIN = equation_of(["ij", "jk", "kl", "lm"], "im")


def test_a_limit_that_an_order_meets_cuts_nothing() -> None:
    free = path_of(CHAIN)
    bound = path_of(CHAIN, memory_limit=free.largest_bytes)
    assert bound.sliced == () and bound.flops == free.flops
    assert bound.tree == free.tree


def test_another_order_is_taken_before_anything_is_cut() -> None:
    equation = equation_of(["ij", "jk", "k", "im"], "m")
    cheap = path_of(equation, optimize=[(0, 1), (0, 2), (0, 1)])
    limit = 8 * 8
    assert cheap.largest_bytes > limit
    bound = path_of(equation, memory_limit=limit)
    assert bound.sliced == () and bound.largest_bytes <= limit


@pytest.mark.parametrize(
    "optimize", ["auto", "optimal", "greedy", "random-greedy", "left-to-right"]
)
@pytest.mark.parametrize("limit", [8, 24, 100, 200])
def test_slices_meet_the_limit_and_keep_the_value(optimize: str, limit: int) -> None:
    path = path_of(CHAIN, optimize=optimize, memory_limit=limit)
    assert path.largest_bytes <= limit
    assert path.sliced
    agrees(path)


def test_slices_are_divisors_and_as_few_as_may_be() -> None:
    path = path_of(equation_of(["ij", "jk", "kl"], "il"), memory_limit=4 * 9 * 8)
    [cut] = path.sliced
    assert path.equation.names[cut.label] == "j"
    assert (cut.extent, cut.chunk, cut.slices) == (8, 4, 2)
    assert path.flops == path_of(path.equation).flops
    agrees(path)


@pytest.mark.parametrize(
    ("extent", "most", "divisor"), [(12, 12, 12), (12, 11, 6), (13, 12, 1), (36, 17, 12), (1, 1, 1)]
)
def test_divisors(extent: int, most: int, divisor: int) -> None:
    assert largest_divisor(extent, most) == divisor


def test_what_no_slice_reaches_runs_once_and_first() -> None:
    path = path_of(CHAIN, optimize=[("sliced", "i"), (0, 1), (0, 1), (0, 1)])
    assert path.slices == 6
    assert [step.runs for step in path.steps] == [1, 6, 6]
    once = path.steps[0]
    assert once.output == (2, 4)
    assert path.flops == sum(step.flops * step.runs for step in path.steps)
    assert path.nbytes == sum(step.nbytes * step.runs for step in path.steps)
    agrees(path)


def test_labels_of_the_output_are_the_outer_loops() -> None:
    given = [("sliced", "k", ("m", 1), ("j", 4), "i"), (0, 1, 2, 3)]
    path = path_of(CHAIN, optimize=given)
    names = [CHAIN.names[cut.label] for cut in path.sliced]
    assert names == ["i", "m", "j", "k"]
    assert path.slices == 6 * 7 * 2 * 9
    assert path.slice_extents == (1, 4, 1, 5, 1)
    agrees(path)


def test_slices_of_the_whole_extent_are_none() -> None:
    assert path_of(CHAIN, optimize=[("sliced", ("i", 6)), (0, 1, 2, 3)]).sliced == ()


def test_a_given_path_is_cut_where_it_does_not_fit() -> None:
    given = [("sliced", "m"), (0, 1), (0, 1), (0, 1)]
    path = path_of(CHAIN, optimize=given, memory_limit=64)
    assert path.largest_bytes <= 64
    assert "m" in [CHAIN.names[cut.label] for cut in path.sliced]
    assert path_of(CHAIN, optimize=path).sliced == path.sliced
    agrees(path)


def test_the_sum_over_slices_counts_where_it_is_in_another_type() -> None:
    given = [("sliced", "k"), (0, 1, 2, 3)]
    same = path_of(CHAIN, optimize=given)
    other = path_of(CHAIN, optimize=given, output=2)
    assert (same.accumulator_bytes, other.accumulator_bytes) == (0, 6 * 7 * 8)
    assert other.peak_bytes == same.peak_bytes + 6 * 7 * 8
    limited = path_of(CHAIN, optimize=given, output=2, memory_limit=6 * 7 * 4)
    assert limited.largest_bytes <= 6 * 7 * 4
    assert limited.accumulator_bytes > 0
    agrees(limited)


def test_private_sums_are_intermediates_too() -> None:
    path = path_of(equation_of(["ihj", "jk"], "ik"), memory_limit=8 * 8)
    assert len(path.steps) == 2
    assert path.largest_bytes <= 8 * 8
    agrees(path)


def test_repeated_and_stretched_labels_are_sliced() -> None:
    equation = equation_of(["iij", "j", "ik"], "ik")
    operands = [pattern((4, 4, 3)), pattern((1,), 1), pattern((1, 5), 2)]
    shapes = [x.shape for x in operands]
    given = [("sliced", ("i", 2), "j"), (0, 1, 2)]
    path = find_path(equation, shapes, Storage((8,) * 3, 8, 8), optimize=given)
    assert path.slices == 6
    expected = contract(equation.inputs, equation.output, operands)
    assert_close(evaluate(path, operands), expected, f64, "matmul", k_extent=3, scale=4.0)


def test_a_limit_below_one_element() -> None:
    with pytest.raises(ArgumentError, match="memory_limit is 7 bytes and one element takes 8"):
        path_of(CHAIN, memory_limit=7)
    assert path_of(equation_of(["ij", "jk"], "ik"), memory_limit=0).steps


def test_more_operands_than_are_searched_exactly() -> None:
    ring = equation_of([[k, (k + 1) % 12] for k in range(12)], [])
    shapes = [(4, 4)] * 12
    path = find_path(ring, shapes, Storage((8,) * 12, 8, 8), memory_limit=64)
    assert path.largest_bytes <= 64 and path.sliced
    operands = [pattern((4, 4), shift) for shift in range(12)]
    whole = find_path(ring, shapes, Storage((8,) * 12, 8, 8))
    scale = evaluate(whole, [abs(x) for x in operands])
    value, expected = evaluate(path, operands), evaluate(whole, operands)
    assert_close(value, expected, f64, "matmul", k_extent=4**4, scale=scale)
