"""The values of expressions: the oracle, and every optimiser's path step by step, give them."""

from __future__ import annotations

import numpy as np
import pytest
from path_evaluation import evaluate
from tolerance import assert_close

from softcuda.contraction.equation import bind_ranks, equation_of
from softcuda.contraction.optimizers import OPTIMIZERS
from softcuda.contraction.parse import parse_expression, parse_labels
from softcuda.contraction.planning import find_path
from softcuda.contraction.slicing import Storage
from softcuda.dtype import f64
from softcuda.tools.conformance_expressions import FAULTS, RULES, Case, pattern
from softcuda.tools.conformance_oracle import contract, einsum

CASES = [pytest.param(case, id=f"{n}-{case.expression}") for n, case in enumerate(RULES + FAULTS)]


@pytest.mark.parametrize("case", CASES)
def test_the_oracle(case: Case) -> None:
    value = einsum(case.expression, *case.operands)
    assert value.shape == np.shape(case.value)
    assert np.array_equal(value, case.value)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("optimize", OPTIMIZERS)
def test_a_path(case: Case, optimize: str) -> None:
    operands = [np.asarray(operand, np.float64) for operand in case.operands]
    equation = bind_ranks(parse_expression(case.expression), tuple(map(np.ndim, operands)))
    storage = Storage((8,) * len(operands), 8, 8)
    path = find_path(equation, [x.shape for x in operands], storage, optimize=optimize)
    assert path.output_shape == np.shape(case.value)
    assert np.array_equal(evaluate(path, operands), case.value)


def test_integer_labels_sort_as_integers() -> None:
    x = pattern((2, 3))
    equation = bind_ranks(parse_labels([[25, 26]], None), (2,))
    path = find_path(equation, [x.shape], Storage((8,), 8, 8))
    assert np.array_equal(evaluate(path, [x]), x)


def test_sixty_one_labels() -> None:
    even, odd = [[1, 0.5], [0, 1]], [[1, 0], [-0.25, 1]]
    labels = [[0], *([k, k + 1] for k in range(60)), [60]]
    operands = list(map(np.asarray, [[1, -0.5], *[even, odd] * 30, [0.25, 1]]))
    scale = np.linalg.multi_dot([np.abs(x) for x in operands])
    storage = Storage((8,) * 62, 8, 8)
    path = find_path(equation_of(labels, []), [x.shape for x in operands], storage)
    value, expected = evaluate(path, operands), np.asarray(-1.2337989103882405)
    assert_close(value, expected, f64, "matmul", k_extent=2 * len(labels), scale=scale)


def test_a_power_of_four_operands_takes_memory_of_one() -> None:
    x = pattern((1024,)) + 1.5
    equation = bind_ranks(parse_expression("i,i,i,i->i"), (1,) * 4)
    path = find_path(equation, [x.shape] * 4, Storage((8,) * 4, 8, 8))
    assert evaluate(path, [x] * 4).sum() == 14521.80859375
    assert path.peak_bytes <= 2 * x.nbytes


def test_a_result_that_is_larger_than_its_operands() -> None:
    a, b, c = pattern((1, 3)), pattern((3, 2)), pattern((4, 2))
    equation = equation_of(["ik", "kj"], "ij")
    path = find_path(equation, [a.shape, b.shape], Storage((8, 8), 8, 8), output_shape=c.shape)
    assert np.array_equal(evaluate(path, [a, b]), np.repeat(a @ b, 4, axis=0))


def test_a_result_with_a_new_axis() -> None:
    a = pattern((2, 3))
    equation = equation_of(["ij"], "jxi")
    path = find_path(equation, [a.shape], Storage((8,), 8, 8), output_shape=(3, 5, 2))
    assert np.array_equal(evaluate(path, [a]), np.broadcast_to(a.T[:, None], (3, 5, 2)))


def test_the_oracle_sums_a_label_that_stretches() -> None:
    assert np.array_equal(contract(["i", "i"], "", [np.ones(3), [2.0]]), 6.0)
