"""Correct first: a result against a float64 reference."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Accuracy", "compare", "tolerance"]

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 21  # elements compared at a time


class Accuracy(NamedTuple):
    """How far a result is from its reference."""

    error: float
    nan_mismatches: int

    def within(self, allowed: float) -> bool:
        """Return whether the relative error is allowed and no NaN differs."""
        return self.nan_mismatches == 0 and self.error <= allowed


def compare(out: Array, reference: Array) -> Accuracy:
    """Return norm(out - reference) / norm(reference) and the count of NaN mismatches.

    Args:
        out: any shape and dtype.
        reference: the same shape, f64.

    Returns:
        Elements that are NaN, or the same infinity, on both sides count as equal; the error is
        inf where the shapes differ. A reference of norm 0 gives the norm of the difference.
    """
    if out.shape != reference.shape:
        return Accuracy(math.inf, max(out.size, reference.size))
    flat, expected = out.reshape(-1), reference.reshape(-1)
    distance = norm = 0.0
    mismatches = 0
    for start in range(0, flat.size, _BLOCK):
        got = flat[start : start + _BLOCK].astype(np.float64)
        want = expected[start : start + _BLOCK]
        got_nan, want_nan = np.isnan(got), np.isnan(want)
        mismatches += int(np.count_nonzero(got_nan != want_nan))
        aside = got_nan | want_nan | (np.isinf(got) & (got == want))
        with np.errstate(all="ignore"):
            difference = np.where(aside, 0.0, got - want)
        kept = np.where(aside, 0.0, want)
        distance += float(np.dot(difference, difference))
        norm += float(np.dot(kept, kept))
    if norm == 0.0:
        return Accuracy(math.sqrt(distance), mismatches)
    return Accuracy(math.sqrt(distance / norm), mismatches)


def tolerance(dtype: str, summed: int = 1, steps: int = 1) -> float:
    """Return the relative error [in the norm] up to which a result counts as correct.

    Args:
        dtype: "bf16", "f32" or "f64".
        summed: addends of the longest sum; rounding errors of a blocked sum add like a walk.
        steps: operations one after the other.
    """
    epsilon = {"bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}[dtype]
    return 4.0 * epsilon * math.sqrt(summed) * max(1.0, math.sqrt(steps))
