"""The gradient rule of every op, against central differences in f64."""

from __future__ import annotations

import pytest
from gradient_cases import (
    DIFFERENTIABLE,
    cases,
    check_gradients,
    check_second_gradients,
    undifferentiable,
)

from softcuda.graph.op import OPS


def test_every_op_that_makes_floats_of_floats_has_a_rule() -> None:
    assert not undifferentiable()
    assert set(DIFFERENTIABLE) <= set(OPS)


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradients_equal_central_differences(op: str) -> None:
    given = cases(op)
    assert check_gradients(given, "default") >= len(given) // 2


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradients_of_gradients_equal_central_differences(op: str) -> None:
    assert check_second_gradients(cases(op), "default")
