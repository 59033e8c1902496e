"""Faults reported of other libraries, on the CPU backends: the right values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from op_cases import profile_of
from reported_cases import LABELS, REPORTS, Leaf, Pairs, contraction, pattern

import softcuda as sc

BACKENDS = ("cpu_fallback", "cpu_blas", "cpu_fused")


@pytest.mark.parametrize("backend_id", BACKENDS)
@pytest.mark.parametrize("report", REPORTS)
def test_reported_inputs_give_the_right_values(
    report: Callable[[Leaf], Pairs], backend_id: str
) -> None:
    found, expected = zip(*report(sc.asarray), strict=True)
    results = sc.compile(list(found), profile_of(backend_id)).run()
    for number, (result, right) in enumerate(zip(results, expected, strict=True)):
        message = f"{report.__doc__} pair {number}"
        np.testing.assert_array_equal(result.numpy(), right, err_msg=message, strict=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_labels_are_a_part_of_what_is_cached(dtype: type) -> None:
    """cupy-7812: one cache, operands of equal shapes, dtypes and strides, other labels."""
    a, b = pattern((20, 20, 20, 20), 0, dtype), pattern((20, 20), 1, dtype)
    x, y = sc.tensor(a), sc.tensor(b)
    for equation in LABELS:
        right = np.einsum(equation, a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_array_equal(contraction(equation, x, y).numpy(), right.astype(dtype))
