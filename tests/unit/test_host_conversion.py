"""Conversions between all dtypes: one rounding, saturation, and the edges of each."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_harness import ALL, FLOATS, layouts, run

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import BLOCK, boxes
from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.graph.params import Cast

Array = np.ndarray[Any, Any]

NAN, INF = math.nan, math.inf
BITS = {bf16: 8, f16: 11, f32: 24, f64: 53}
LEAST = {bf16: -133, f16: -24, f32: -149, f64: -1074}
GREATEST = {bf16: 128, f16: 16, f32: 128, f64: 1024}


def nearest(value: Fraction, dtype: DType) -> float:
    """Return a number rounded once, to nearest even, by exact arithmetic."""
    if value == 0:
        return 0.0
    exponent = math.frexp(abs(value))[1] if abs(value) < 1e300 else 1000
    quantum = Fraction(2) ** max(exponent - BITS[dtype], LEAST[dtype])
    result = round(value / quantum) * quantum  # Fraction rounds half to even
    return math.copysign(INF, value) if abs(result) >= 2 ** GREATEST[dtype] else float(result)


def true_conversion(value: Any, dtype: DType) -> Any:
    """Return what one element becomes."""
    number = value.item() if value.dtype.kind in "bi" else float(value)
    if dtype is bool_:
        return number != 0
    if dtype.is_float:
        special = isinstance(number, float) and not math.isfinite(number)
        return number if special else nearest(Fraction(number), dtype)
    bits = 8 * dtype.itemsize - 1
    if not isinstance(number, float):
        return (int(number) + (1 << bits)) % (1 << (bits + 1)) - (1 << bits)
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return (1 << bits) - 1 if number > 0 else -(1 << bits)
    return min(max(math.trunc(number), -(1 << bits)), (1 << bits) - 1)


def converted(values: Array, dtype: DType) -> Array:
    out = np.empty(values.shape, dtype.numpy)
    with np.errstate(all="ignore"):
        convert(values, out)
    return out


def check(values: Array, dtype: DType) -> None:
    result = converted(values, dtype)
    for place in np.ndindex(values.shape):
        have, want = result[place], true_conversion(values[place], dtype)
        have = have.item() if dtype.kind < 2 else float(have)
        same = have == want or (have != have and want != want)
        assert same, f"{values[place]!r} to {dtype}: {have!r}, expected {want!r}"


def edges(dtype: DType) -> Array:
    """Return numbers around every limit and tie that a conversion may get wrong."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_integer:
        top = 8 * dtype.itemsize - 1
        powers = [2**k + d for k in (7, 8, 9, 16, 24, 25, 31, 32, 53, 62) for d in (-1, 0, 1)]
        ties = [(2**24 + 2**16) * 2**k + d for k in (0, 3, 30) for d in (-1, 0, 1)]
        whole = [0, 1, 3, 65504, 65519, 65520, 65521, *powers, *ties, 2**top - 1]
        kept = [v for v in whole if v < 2**top]
        return np.array([*kept, *(-v for v in kept), -(2**top)], dtype.numpy)
    limits = [2.0**k for k in (31, 63, 15, 16, 127, 128, -14, -24, -25, -126, -133, -134, -149)]
    steps = [1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-8 - 2.0**-30]
    steps += [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1.5, 1 - 2.0**-24, 1 - 2.0**-53, 0.75]
    numbers = np.multiply.outer([*limits, 1.0, 3.0, 2.0**-140], steps).ravel()
    special = [0.0, INF, NAN, 65504.0, 65519.99, 65520.0, 2147483647.0, 2147483648.5, 0.49, 1.99]
    half = np.concatenate([numbers, special])
    with np.errstate(all="ignore"):
        return np.concatenate([half, -half]).astype(dtype.numpy)


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_edges(source: DType, target: DType) -> None:
    check(edges(source), target)


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_layouts(source: DType, target: DType) -> None:
    for array in layouts(source, 4):
        check(array[..., :3] if array.ndim else array, target)
        whole = run("cast", array, params=Cast(target))
        assert whole.tobytes() == converted(np.array(array), target).tobytes()


@pytest.mark.parametrize("target", [bf16, f16], ids=str)
def test_doubles_are_rounded_once(target: DType) -> None:
    rng = np.random.default_rng(7)
    near = rng.standard_normal(3000).astype(target.numpy).astype(np.float64)
    step = np.abs(near) * 2.0 ** -BITS[target]
    check(np.concatenate([near + step * f for f in (0.5, 1, 1 + 2.0**-30, 1 - 2.0**-30)]), target)


def test_bf16_is_nearest_even() -> None:
    pairs = [
        (0.2691408770292272, 0.26953125),
        (7 * 3.140625, 22.0),
        (3.14, 3.140625),
        (1 + 1 / 256, 1.0),
        (1 + 3 / 256, 1.015625),
        (float(np.finfo(np.float32).max), INF),
    ]
    for dtype in (f32, f64):
        values = np.array([x for x, _ in pairs], dtype.numpy)
        assert converted(values, bf16).astype(float).tolist() == [y for _, y in pairs]


def test_bf16_reads_back_every_value() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    for dtype in (f32, f64):
        back = converted(converted(every, dtype), bf16)
        number = ~np.isnan(every.astype(np.float32))
        assert np.array_equal(back.view(np.uint16)[number], every.view(np.uint16)[number])
    assert np.isnan(converted(every, f32)).sum() == np.isnan(every.astype(np.float32)).sum()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("target", [i32, i64], ids=str)
def test_nan_and_infinity_become_integers(dtype: DType, target: DType) -> None:
    limits = np.iinfo(target.numpy)
    values = np.array([NAN, INF, -INF, -0.0], dtype.numpy)
    assert converted(values, target).tolist() == [0, limits.max, limits.min, 0]
    assert converted(values, bool_).tolist() == [True, True, True, False]


def test_large_arrays_go_in_pieces() -> None:
    values = np.linspace(-3e9, 3e9, 3 * BLOCK + 11)
    assert (
        converted(values, i32).tolist() == np.clip(np.trunc(values), -(2**31), 2**31 - 1).tolist()
    )
    wide = np.broadcast_to(values[:5000, None], (5000, 40))
    assert np.array_equal(converted(wide, i64), np.trunc(wide).astype(np.int64))


@pytest.mark.parametrize("dims", [(), (0,), (5, 0), (7,), (4, 5, 6), (1, 1, 9), (3, 100)], ids=str)
@pytest.mark.parametrize("limit", [1, 4, 7, 1000])
def test_boxes_tile_the_space(dims: tuple[int, ...], limit: int) -> None:
    seen = np.zeros(dims, int)
    for box in boxes(dims, limit):
        assert 0 < seen[box].size <= limit
        seen[box] += 1
    assert (seen == 1).all()
