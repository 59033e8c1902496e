"""Correct first: a result against a float64 reference."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from benchmarks.host_work import in_threads, slices

__all__ = ["Accuracy", "compare", "tolerance"]

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 17  # elements compared at a time, by a thread


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
        reference: the same shape, f64; of another dtype where that is exact.

    Returns:
        Elements that are NaN, or the same infinity, on both sides count as equal; the error is
        inf where the shapes differ. A reference of norm 0 gives the norm of the difference.
    """
    if out.shape != reference.shape:
        return Accuracy(math.inf, max(out.size, reference.size))
    flat, expected = out.reshape(-1), reference.reshape(-1)
    parts = in_threads(
        lambda part: _compared(flat[part], expected[part]), slices(flat.size, _BLOCK)
    )
    distance, norm = (sum(part[k] for part in parts) for k in (0, 1))
    mismatches = sum(part[2] for part in parts)
    if norm == 0.0:
        return Accuracy(math.sqrt(distance), mismatches)
    return Accuracy(math.sqrt(distance / norm), mismatches)


def _compared(out: Array, reference: Array) -> tuple[float, float, int]:
    """Return the sums of squares of out - reference and of reference, and the NaN mismatches."""
    got, want = out.astype(np.float64), reference.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = got - want
        distance = _squares(difference)
        if not math.isfinite(distance):  # only then can there be a NaN or an infinity
            got_nan, want_nan = np.isnan(got), np.isnan(want)
            mismatches = int(np.count_nonzero(got_nan != want_nan))
            aside = got_nan | want_nan | (np.isinf(got) & (got == want))
            distance = _squares(np.where(aside, 0.0, difference))
            return distance, _squares(np.where(aside, 0.0, want)), mismatches
        return distance, _squares(want), 0


def _squares(values: Array) -> float:
    return float(np.square(values).sum())


def tolerance(dtype: str, summed: int = 1, steps: int = 1) -> float:
    """Return the relative error [in the norm] up to which a result counts as correct.

    Args:
        dtype: "bf16", "f32" or "f64".
        summed: addends of the longest sum; rounding errors of a blocked sum add like a walk.
        steps: operations one after the other.
    """
    epsilon = {"bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}[dtype]
    return 4.0 * epsilon * math.sqrt(summed) * max(1.0, math.sqrt(steps))
