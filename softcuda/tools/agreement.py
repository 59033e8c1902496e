"""Whether a backend's result is right: compared with a reference in float64."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.dtype import DType

__all__ = ["disagreement"]

Array = np.ndarray[Any, Any]

_EPSILON: Final = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
_ULPS: Final = 16.0  # what good libraries' functions differ by, with room


def disagreement(found: Array, reference: Array, dtype: DType, terms: int) -> str:
    """Return where a result is not the reference's, "" where it is.

    |found - reference| <= 16 eps sqrt(terms) (|reference| + rms(reference)), NaN where the
    reference has NaN, equal infinities; bools and integers equal.

    Args:
        found: the result, any shape, of `dtype`.
        reference: the same in float64 (or in `dtype`), of the same shape.
        dtype: dtype of the result.
        terms: how many elements each result sums up, at least 1.
    """
    if found.shape != reference.shape:
        return f"its shape is {list(found.shape)}, right is {list(reference.shape)}"
    if not found.size:
        return ""
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            return _first(found != reference.astype(dtype.numpy), found, reference)
        right = reference.astype(dtype.numpy).astype(np.float64)
        wide = found.astype(np.float64)
        finite = np.isfinite(right)
        scale = np.sqrt(np.mean(np.square(right, where=finite, out=np.zeros_like(right))))
        bound = _ULPS * _EPSILON[dtype.name] * np.sqrt(max(terms, 1)) * (np.abs(right) + scale)
        close = np.abs(wide - right) <= bound
        same = (wide == right) | (np.isnan(wide) & np.isnan(right))
        return _first(~(same | (close & finite)), found, reference)


def _first(wrong: Array, found: Array, reference: Array) -> str:
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return (
        f"{count} of {wrong.size} elements are wrong, the first at "
        f"{[int(i) for i in place]}: {found[place]}, right is {reference[place]}"
    )
