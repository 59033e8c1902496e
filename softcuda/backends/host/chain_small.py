"""Reductions of a few elements: NumPy's own call, where it has softcuda's meaning."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from softcuda.graph.params import Dims

__all__ = ["bind_small"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

SMALL_ELEMS = 16384  # above, the tiles of chain_reduce are faster

_UFUNCS: Final[dict[str, Any]] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}
_NUMBERS: Final = ("sum", "prod")


def bind_small(name: str, source: Array, out: Array, axes: Dims, keepdims: bool) -> list[Call]:
    """Return the calls of a small reduction, or none where it needs more than a ufunc.

    sum, prod and mean of f32 and f64 are accumulated in f64, those of integers and bools in i64
    (the mean in f64); min and max only of integers and bools, whose zeros have no sign.
    """
    kind = source.dtype.kind
    if source.size > SMALL_ELEMS or name not in _UFUNCS or out.dtype.itemsize == 2:
        return []
    ufunc = _UFUNCS[name]
    if name in _NUMBERS and (kind in "bi" or source.dtype.itemsize >= 4):
        wide = np.dtype(np.int64 if kind in "bi" else np.float64)
        return [(ufunc.reduce, (source, axes, wide, out, keepdims))]
    if name == "mean" and (kind in "bi" or source.dtype.itemsize >= 4):
        total = np.empty(out.shape)
        count = np.float64(math.prod(source.shape[axis] for axis in axes))
        return [
            (ufunc.reduce, (source, axes, total.dtype, total, keepdims)),
            (np.divide, (total, count, out)),
        ]
    if (name in ("any", "all") and kind == "b") or (name in ("min", "max") and kind in "bi"):
        return [(ufunc.reduce, (source, axes, None, out, keepdims))]
    return []
