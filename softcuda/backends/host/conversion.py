"""Conversion of arrays between the dtypes of softcuda: rounded once, saturating.

Float to integer truncates towards zero, saturates, and NaN gives 0. Anything to bool is `!= 0`
(NaN gives True). Integers wrap. Floats are rounded once, to nearest even.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from softcuda.backends.host.pieces import BLOCK, boxes

__all__ = ["convert", "plain_bools"]

Array = np.ndarray[Any, Any]

_BF16: Final = np.dtype(ml_dtypes.bfloat16)
_F16: Final = np.dtype(np.float16)
_F32: Final = np.dtype(np.float32)
_F64: Final = np.dtype(np.float64)
_BOOL: Final = np.dtype(np.bool_)


def plain_bools(array: Array) -> Array:
    """Return bools whose true bytes are all 1: the array itself where it holds no others.

    NumPy takes every byte but 0 for true, as after `.view(bool)`; kernels compare the bytes.

    Args:
        array: any dtype; one that is not bool is returned as it is.
    """
    if array.dtype != _BOOL or not array.size:
        return array
    stored = array.view(np.uint8)
    return np.not_equal(stored, 0) if stored.max() > 1 else array


def convert(source: Array, out: Array) -> None:
    """Write `source`, converted to the dtype of `out`, into `out`.

    Args:
        source: any softcuda dtype, any strides; must broadcast to `out`.
        out: any softcuda dtype, any strides; no element of another dtype shares its memory.
    """
    have, want = source.dtype, out.dtype
    if have == want:
        np.copyto(out, source)
        return
    if want.kind == "i" and (have.kind == "f" or have == _BF16):
        function = _to_integer
    elif want == _BF16 and have.kind in "if" and have not in (_F16, _F32):
        function = _to_bf16
    elif want == _BOOL and have == _BF16:
        function = _bf16_to_bool
    else:
        np.copyto(out, source, casting="unsafe")
        return
    if out.size <= BLOCK:
        function(source, out)
        return
    source = np.broadcast_to(source, out.shape)
    for box in boxes(out.shape):
        function(source[box], out[box])


def _bf16_to_bool(source: Array, out: Array) -> None:
    np.not_equal(np.bitwise_and(source.view(np.uint16), 0x7FFF), 0, out)


def _to_bf16(source: Array, out: Array) -> None:
    """Round f64, i32 or i64 to bf16 once.

    By way of f32 two roundings differ from one only where the f32 lies exactly between two
    bf16 and is itself inexact: those few are moved one f32 towards the true value first.
    """
    near = source.astype(_F32, order="C")
    bits = near.view(np.uint32)
    ties = np.equal(np.bitwise_and(bits, 0xFFFF), 0x8000)
    if ties.any():
        exact = np.broadcast_to(source, near.shape)[ties]
        rounded = near[ties].astype(source.dtype)
        away = np.greater(rounded, exact) ^ np.less(exact, 0)
        moved = np.where(rounded == exact, 0, np.where(away, -1, 1))
        bits[ties] = (bits[ties].astype(np.int64) + moved).astype(np.uint32)
    np.copyto(out, near, casting="unsafe")


def _to_integer(source: Array, out: Array) -> None:
    if source.dtype.itemsize < 4:
        source = source.astype(_F32)
    top = 2.0 ** (8 * out.dtype.itemsize - 1)
    if source.size and source.min() >= -top and source.max() < top:
        np.copyto(out, source, casting="unsafe")
        return
    limits = np.iinfo(out.dtype)
    inside = np.logical_and(np.greater_equal(source, -top), np.less(source, top))
    np.copyto(out, np.where(inside, source, source.dtype.type(0)), casting="unsafe")
    np.copyto(out, limits.max, where=np.greater_equal(source, top))
    np.copyto(out, limits.min, where=np.less(source, -top))
