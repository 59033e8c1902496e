"""Sums over some axes of one block, fast on every axis and accurate on every axis.

f32 is added pairwise (NumPy's own loop, along the last axis) or at most 128 deep, then in f64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from softcuda.graph.params import Dims

__all__ = ["fold_axis", "sum_axes", "wide"]

Array = np.ndarray[Any, Any]

FOLD_ELEMS: Final = 4096  # width that rows too short for a vector loop are joined to
SHORT: Final = 16  # a last axis of at most this many is added column by column
DEEPEST: Final = 128  # adds in f32 that may follow each other: those of NumPy's pairwise leaf

_SERIAL: Final = (np.add, np.multiply)  # whose reduction of one axis has no vector loop

_F32: Final = np.dtype(np.float32)
_F64: Final = np.dtype(np.float64)


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that sums and products are kept in: f64, i64 for bools and integers."""
    return _F64 if dtype.kind == "f" else np.dtype(np.int64)


def fold_axis(ufunc: Any, x: Array, axes: Dims, dtype: np.dtype[Any] | None) -> Array:
    """Return ufunc.reduce over axes; narrow rows of a contiguous block are joined first.

    A short last axis is folded column by column.

    Args:
        ufunc: associative but for rounding.
        x: a block, any strides.
        axes: the axes to reduce, sorted.
        dtype: the dtype to reduce in; None for that of x.
    """
    if x.ndim > 1 and axes == (x.ndim - 1,) and x.shape[-1] <= SHORT:
        folded = x[..., 0].astype(dtype or x.dtype)
        for place in range(1, x.shape[-1]):
            ufunc(folded, x[..., place], out=folded)
        return np.asarray(folded)
    kept = x.shape[1:]
    width = math.prod(kept)
    joins = x.ndim > 1 or ufunc in _SERIAL
    if joins and axes == (0,) and width <= FOLD_ELEMS // 4 and x.flags.c_contiguous:
        group = FOLD_ELEMS // width
        rows = x.shape[0] - x.shape[0] % group
        if rows >= 4 * group:
            joined = x[:rows].reshape(rows // group, group * width)
            folded = ufunc.reduce(joined, axis=0, dtype=dtype).reshape(group, *kept)
            total = ufunc.reduce(folded, axis=0, dtype=dtype)
            if rows < x.shape[0]:
                total = ufunc(total, ufunc.reduce(x[rows:], axis=0, dtype=dtype))
            return np.asarray(total)
    return np.asarray(ufunc.reduce(x, axis=axes, dtype=dtype))


def sum_axes(x: Array, axes: Dims) -> Array:
    """Return the sum of a block over `axes` (sorted), in f64 or i64.

    Args:
        x: f32, f64, bool, i32 or i64, any strides.
        axes: at least one.
    """
    if x.dtype != _F32:
        return fold_axis(np.add, x, axes, wide(x.dtype))
    if not x.flags.c_contiguous and x.ndim > 1:
        x = np.ascontiguousarray(x)
    total = x
    for axis in reversed(axes):
        single = total.dtype == _F32
        total = _sum_one(total, axis) if single else np.asarray(np.add.reduce(total, axis=axis))
    if not np.isfinite(total).all():  # perhaps only in f32
        total = np.asarray(np.add.reduce(x, axis=axes, dtype=_F64))
    return total.astype(_F64, copy=False)


def _sum_one(x: Array, axis: int) -> Array:
    """Return the sum of f32 over one axis of a contiguous block: f32, or f64 where deep."""
    extent = x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    width = math.prod(after)
    group = max(1, FOLD_ELEMS // max(width, 1)) if width <= FOLD_ELEMS // 4 else 1
    depth = min(DEEPEST, extent // group)
    if width == 1 and (x.ndim > 1 or depth < 4):
        if extent > SHORT:
            return np.asarray(np.add.reduce(x, axis=axis))
        total = x.take(0, axis)
        for place in range(1, extent):
            total = np.add(total, x[(slice(None),) * axis + (place,)])
        return np.asarray(total)
    if group == 1 and extent <= DEEPEST:
        return np.asarray(np.add.reduce(x, axis=axis))
    if depth < 4:
        return np.asarray(np.add.reduce(x, axis=axis, dtype=_F64))
    # [.., rounds, depth, group, width]: f32 over depth, f64 over rounds and group, then the rest
    used = extent - extent % (depth * group)
    head = x[(slice(None),) * axis + (slice(0, used),)]
    rounds = used // (depth * group)
    split = head.reshape(*before, rounds, depth, group * width)
    part = np.add.reduce(split, axis=axis + 1).reshape(*before, rounds * group, *after)
    total = np.asarray(np.add.reduce(part, axis=axis, dtype=_F64))
    if used < extent:
        rest = x[(slice(None),) * axis + (slice(used, extent),)]
        total = np.add(total, np.add.reduce(rest, axis=axis, dtype=_F64))
    return np.asarray(total)
