"""How far a result may lie from the true value: one function, and the comparison that uses it."""

from __future__ import annotations

import math
from typing import Any, Final

import ml_dtypes
import numpy as np

from softcuda.dtype import DType, bf16, compute_dtype, f16, f32, f64, real_dtype

__all__ = ["EPSILON", "EXACT", "SMALLEST", "STEPS", "difference", "tolerance"]

Array = np.ndarray[Any, Any]

# Unit in the last place of 1.
EPSILON = {f16: 2.0**-10, bf16: 2.0**-7, f32: 2.0**-23, f64: 2.0**-52}
SMALLEST = {f16: 2.0**-24, bf16: 2.0**-133, f32: 2.0**-149, f64: 2.0**-1074}

# Ops whose result is one correctly rounded operation on the operands, or none.
EXACT_NAMES = """
    neg abs sign square relu conj real imag floor ceil round sqrt reciprocal copy cast
    add sub mul div floor_divide remainder minimum maximum where clip min max concat stack pad
    tril triu take gather full eye isnan isinf isfinite logical_not eq ne lt le gt ge
    logical_and logical_or logical_xor any all argmin argmax one_hot outer
"""
EXACT = frozenset(EXACT_NAMES.split())
# Steps of rounding in the compute dtype, for what is neither exact nor a sum.
STEPS = {
    "multiply_add": 1.0,
    "rsqrt": 2.0,
    "gelu": 64.0,  # the tail: an error of x / sqrt(2) grows by x^2
    "pow": 8.0,
    "sigmoid": 6.0,
    "silu": 8.0,
    "mish": 10.0,
    "softplus": 6.0,
    "softsign": 2.0,
    "softmax": 24.0,
    "log_softmax": 24.0,
    "layer_norm": 48.0,
    "linspace": 4.0,
    "arange": 2.0,
}
_COMPLEX: Final = 4.0  # a product rounds each part three times, and both parts err


def tolerance(dtype: DType, k_extent: int = 1, op: str = "add") -> float:
    """Return the error that is allowed, relative to the magnitude of what is added up.

    Args:
        dtype: dtype of the result.
        k_extent: how many terms each element sums.
        op: token of the op.

    Returns:
        Half a unit of the result's dtype for its one rounding, and what the arithmetic may lose
        in the compute dtype; 0 for integers and bools. For complex numbers 4 times that of their
        parts, relative to absolute values.
    """
    if not dtype.is_inexact:
        return 0.0
    if dtype.is_complex:
        return _COMPLEX * tolerance(real_dtype(dtype), k_extent, op)
    rounding = EPSILON[dtype] * (0.5 + 2.0**-10)
    unit = EPSILON[compute_dtype(dtype)]
    if op in EXACT:
        return rounding
    if op == "matmul":
        return rounding + unit * (2 * math.sqrt(k_extent) + 2)
    return rounding + unit * (STEPS.get(op, 4.0) + 2 * math.log2(max(k_extent, 1)))


def difference(
    actual: Array, expected: Array, dtype: DType, op: str, *, k_extent: int = 1, scale: Any = 0.0
) -> str:
    """Return where a result is not what a reference in f64 says; "" where it is.

    The error of an element may be `tolerance` times its own magnitude or `scale`, whichever is
    larger, and the smallest subnormal. NaN must meet NaN, an infinity the same infinity. Integers
    and bools are compared in their own dtype, exactly.

    Args:
        actual: the result, any dtype.
        expected: the true values, same shape.
        dtype: dtype that the result is rounded to.
        op: token of the op.
        k_extent: how many terms each element sums.
        scale: magnitude of what was added up, broadcast against `expected`.
    """
    expected = np.asarray(expected)
    if actual.dtype != dtype.numpy:
        return f"{op}: dtype {actual.dtype}, expected {dtype.numpy}"
    if actual.shape != expected.shape:
        return f"{op}: shape {actual.shape} for {expected.shape}"
    if not actual.size:
        return ""
    if not dtype.is_inexact:
        return _worst(actual, expected, np.not_equal(actual, expected), op)
    part, wide = real_dtype(dtype), np.complex128 if dtype.is_complex else np.float64
    have = actual.astype(wide)
    with np.errstate(all="ignore"):
        rounded = expected.astype(dtype.numpy).astype(wide)
        magnitude = np.maximum(np.abs(expected), np.abs(scale))
        bound = tolerance(dtype, k_extent, op) * magnitude + SMALLEST[part]
        near = np.abs(have - expected) <= bound
        # At the edge of the range a rounding error decides between the greatest value and inf.
        finfo: Any = ml_dtypes.finfo
        largest = float(finfo(part.numpy).max)
        edge = np.isinf(have) & (np.sign(have) == np.sign(expected))
        near |= edge & (np.abs(expected) + bound >= largest)
        near |= (have == rounded) | (np.isnan(have) & np.isnan(expected))
    return _worst(have, expected, ~near, op)


def _worst(actual: Array, expected: Array, bad: Array, op: str) -> str:
    """Return the count, the worst element, its coordinate and both values; "" if none is bad."""
    if not bad.any():
        return ""
    wide = np.result_type(actual, expected) if actual.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        error = np.abs(np.subtract(actual, expected, dtype=wide))
    error = np.where(bad, np.where(np.isnan(error), np.inf, error), -1.0)
    place = np.unravel_index(int(np.argmax(error)), bad.shape)
    where = tuple(int(i) for i in place)
    return (
        f"{op}: {int(bad.sum())} of {bad.size} elements differ; worst at {where}: "
        f"{actual[place]!r}, expected {expected[place]!r}"
    )
