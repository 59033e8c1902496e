"""Random expressions: every optimiser, with and without slices, against the joint index space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from path_evaluation import evaluate

from softcuda.contraction.equation import Equation, bind_ranks
from softcuda.contraction.optimizers import OPTIMIZERS
from softcuda.contraction.parse import parse_expression
from softcuda.contraction.path import ContractionPath
from softcuda.contraction.planning import find_path
from softcuda.contraction.slicing import Storage
from softcuda.tools.conformance_oracle import einsum
from softcuda.tools.conformance_random import MOST_OPERANDS, laid_out, random_expression

SEEDS = 250
ITEM = 8


def random_positions(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """Return a path of groups of one, two and more positions."""
    groups = []
    while count > 1:
        size = int(rng.integers(1, min(count, 4) + 1))
        groups.append(tuple(int(p) for p in rng.permutation(count)[:size]))
        count -= size - 1
    return groups


def last_two(inputs: list[set[str]], output: set[str], extents: Any, limit: Any) -> Any:
    """Return the path that takes the last two operands again and again."""
    assert set().union(*inputs) == extents.keys() and output <= extents.keys()
    return [(count - 2, count - 1) for count in range(len(inputs), 1, -1)]


def planned(seed: int) -> tuple[Equation, list[Any], np.ndarray[Any, Any], list[Any]]:
    case = random_expression(seed)
    rng = np.random.default_rng([seed, 2])
    operands = [laid_out(operand, rng) for operand in case.operands()]
    equation = bind_ranks(parse_expression(case.text), tuple(map(np.ndim, operands)))
    optimizers = [*OPTIMIZERS, random_positions(rng, len(operands)), last_two]
    return equation, operands, einsum(case.text, *operands), optimizers


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_optimiser_agrees_with_the_joint_index_space(seed: int) -> None:
    equation, operands, expected, optimizers = planned(seed)
    shapes = [operand.shape for operand in operands]
    storage = Storage((ITEM,) * len(operands), ITEM, 2)
    for optimize in optimizers:
        here = f"random_expression({seed}): {equation}, optimize={optimize!r}"
        path = find_path(equation, shapes, storage, optimize=optimize)
        assert np.array_equal(evaluate(path, operands), expected), here
        limit = max(path.largest_bytes // 3, ITEM)
        sliced = find_path(equation, shapes, storage, optimize=optimize, memory_limit=limit)
        assert sliced.largest_bytes <= limit, here
        assert np.array_equal(evaluate(sliced, operands), expected), f"{here}, limit={limit}"
        again = find_path(equation, shapes, storage, optimize=sliced)
        assert (again.tree, again.sliced) == (sliced.tree, sliced.sliced), here
        assert "order:" in str(sliced)


def test_the_expressions_meet_everything() -> None:
    cases = [random_expression(seed) for seed in range(SEEDS)]
    assert {len(case.shapes) for case in cases} == set(range(1, MOST_OPERANDS + 1))
    assert {d for case in cases for shape in case.shapes for d in shape} >= {0, 1, 2, 3}
    assert any("..." in case.text for case in cases)
    assert any("->" not in case.text for case in cases)
    assert any(len(set(term)) < len(term) for case in cases for term in case.text.split(","))
    assert any(() in case.shapes for case in cases)


def test_slices_are_met() -> None:
    sliced: list[ContractionPath] = []
    for seed in range(SEEDS):
        case = random_expression(seed)
        equation = bind_ranks(parse_expression(case.text), tuple(map(len, case.shapes)))
        storage = Storage((ITEM,) * len(case.shapes), ITEM, 2)
        sliced.append(find_path(equation, case.shapes, storage, memory_limit=ITEM))
    cuts = [path for path in sliced if path.sliced]
    assert len(cuts) > SEEDS // 10
    assert any(step.runs == 1 for path in cuts for step in path.steps)
    assert any(cut.label in path.equation.output for path in cuts for cut in path.sliced)
    assert any(cut.label not in path.equation.output for path in cuts for cut in path.sliced)
