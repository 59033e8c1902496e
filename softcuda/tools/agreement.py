"""Whether a backend's result is right: compared with a reference in float64."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.dtype import DType

__all__ = ["disagreement"]

Array = np.ndarray[Any, Any]

_EPSILON: Final = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
_ULPS: Final = 16.0  # what good libraries' functions differ by, with room
_WHOLE: Final = 1 << 20  # up to so many elements all are compared, beyond about as many of them
_TAIL: Final = 4096  # and the last ones, where a kernel's last block is


def disagreement(found: Array, reference: Array, dtype: DType, terms: int) -> str:
    """Return where a result is not the reference's, "" where it is.

    |found - reference| <= 16 eps sqrt(terms) (|reference| + rms(reference)), NaN where the
    reference has NaN, equal infinities; bools and integers equal. Of more than 2^20 elements a
    sample at equal distances is compared, and the last 4096.

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
    places = _places(found.size)
    dims, found, reference = found.shape, found.reshape(-1)[places], reference.reshape(-1)[places]
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            wrong = found != reference.astype(dtype.numpy)
            return _first(wrong, found, reference, _Sample(dims, places))
        right = reference.astype(dtype.numpy).astype(np.float64)
        wide = found.astype(np.float64)
        finite = np.isfinite(right)
        scale = np.sqrt(np.mean(np.square(right, where=finite, out=np.zeros_like(right))))
        bound = _ULPS * _EPSILON[dtype.name] * np.sqrt(max(terms, 1)) * (np.abs(right) + scale)
        close = np.abs(wide - right) <= bound
        same = (wide == right) | (np.isnan(wide) & np.isnan(right))
        return _first(~(same | (close & finite)), found, reference, _Sample(dims, places))


class _Sample(NamedTuple):
    """Which elements of an array are compared: its extents, and their places in row-major order."""

    dims: tuple[int, ...]
    places: Array | slice


def _places(count: int) -> Array | slice:
    if count <= _WHOLE:
        return slice(None)
    step = -(-count // _WHOLE) | 1  # an odd step meets every lane of a vector and of a block
    tail = np.arange(count - _TAIL, count)
    return np.concatenate((np.arange(0, count - _TAIL, step), tail))


def _first(wrong: Array, found: Array, reference: Array, sample: _Sample) -> str:
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    first = int(np.argmax(wrong))
    flat = first if isinstance(sample.places, slice) else int(sample.places[first])
    place = np.unravel_index(flat, sample.dims)
    return (
        f"{count} of {wrong.size} elements are wrong, the first at "
        f"{[int(i) for i in place]}: {found[first]}, right is {reference[first]}"
    )
