"""How far a result may lie from the true value, and the assertion that uses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.dtype import DType, f64
from softcuda.tools.tolerance import EPSILON, EXACT, SMALLEST, STEPS, difference, tolerance

__all__ = [
    "DIFFERENCE_STEP",
    "EPSILON",
    "EXACT",
    "SLOPE_TOLERANCE",
    "SMALLEST",
    "STEPS",
    "assert_close",
    "tolerance",
]

Array = np.ndarray[Any, Any]

# Central differences of fourth order in f64: with steps of about eps^(1/4) the error of the
# formula, slope * step^4, and that of rounding, value * eps / step, are both below eps^(2/3).
DIFFERENCE_STEP = EPSILON[f64] ** 0.25
SLOPE_TOLERANCE = EPSILON[f64] ** 0.5


def assert_close(
    actual: Array, expected: Array, dtype: DType, op: str, *, k_extent: int = 1, scale: Any = 0.0
) -> None:
    """Fail where a result is not what a reference says; arguments as `difference` takes them."""
    found = difference(actual, expected, dtype, op, k_extent=k_extent, scale=scale)
    if found:
        raise AssertionError(found)
