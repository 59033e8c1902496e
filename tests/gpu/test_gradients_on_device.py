"""Gradients on the device: every op and named-axis operation against central differences."""

from __future__ import annotations

import pytest
from gradient_cases import DIFFERENTIABLE, cases, check_gradients, check_second_gradients
from named_gradients import NAMED
from op_cases import fast_profile, profile_of

PROFILES = {"fast": fast_profile(), "cuda_naive": profile_of("cuda_naive")}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradients_of_ops_equal_central_differences(op: str, profile: str) -> None:
    given = cases(op)
    assert check_gradients(given, PROFILES[profile]) >= len(given) // 2


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_second_gradients_of_ops_equal_central_differences(op: str) -> None:
    assert check_second_gradients(cases(op), PROFILES["fast"])


def test_gradients_of_named_axes_equal_central_differences() -> None:
    assert check_gradients(NAMED, PROFILES["fast"]) > len(NAMED)
