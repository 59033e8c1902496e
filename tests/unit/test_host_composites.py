"""softmax, log_softmax and layer_norm against f64, on every layout and axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from host_harness import ALL, FLOATS, layouts, line_of, run, sample

from softcuda.dtype import DType, f16, f32, f64
from softcuda.graph.params import LayerNorm, Softmax
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]

NAN, INF = math.nan, math.inf


def shares(x: Array, axis: int) -> Array:
    if not x.size:
        return x
    last = np.ascontiguousarray(np.moveaxis(x, axis, -1))  # where NumPy adds in pairs
    powers = np.exp(last - last.max(-1, keepdims=True))
    return np.moveaxis(powers / powers.sum(-1, keepdims=True), -1, axis)


def check_softmax(array: Array, axis: int) -> None:
    line, _ = line_of("softmax", [array], Softmax(axis))
    wide = array.astype(np.float64)
    expected = shares(wide, axis)
    k = array.shape[axis]
    result = run("softmax", array, params=Softmax(axis))
    assert_close(result, expected, line.dtype, "softmax", k_extent=k)
    logs = run("log_softmax", array, params=Softmax(axis))
    scale = np.abs(wide).max() if wide.size else 0.0
    assert_close(logs, np.log(expected), line.dtype, "log_softmax", k_extent=k, scale=scale)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_softmax_on_every_layout(dtype: DType) -> None:
    for array in layouts(dtype):
        for axis in range(array.ndim):
            check_softmax(array, axis)


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_softmax_longer_than_a_tile(dtype: DType) -> None:
    rows = sample(dtype, (2, 70001))
    check_softmax(rows, 1)
    check_softmax(np.ascontiguousarray(rows.T), 0)
    check_softmax(rows[:, ::-3], 1)
    check_softmax(rows, 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rows_without_a_finite_maximum(name: str, dtype: DType) -> None:
    rows = np.array([[1, NAN, 2], [-INF, -INF, -INF], [0, -INF, 0], [5e4, 0, -5e4]], dtype.numpy)
    result = run(name, rows, params=Softmax(1)).astype(float)
    assert np.isnan(result[:2]).all()
    want = [0.5, 0.0, 0.5] if name == "softmax" else [-math.log(2), -INF, -math.log(2)]
    assert_close(result[2].astype(dtype.numpy), np.array(want), dtype, name)
    assert result[3, 0] == (1.0 if name == "softmax" else 0.0)


def normalised(x: Array, count: int, eps: float, factors: list[Array]) -> Array:
    axes = tuple(range(x.ndim - count, x.ndim))
    result = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    if factors:
        result = result * factors[0]
    return result + factors[1] if len(factors) > 1 else result


def check_layer_norm(array: Array, count: int, factors: list[Array]) -> None:
    params = LayerNorm(count, "1e-05", len(factors) > 0, len(factors) > 1)
    inputs = [array, *factors]
    line, _ = line_of("layer_norm", inputs, params)
    result = run("layer_norm", *inputs, params=params)
    wide = [x.astype(np.float64) for x in inputs]
    expected = normalised(wide[0], count, 1e-5, wide[1:]) if array.size else wide[0]
    scale = max((np.abs(x).max() for x in wide if x.size), default=0.0) ** 2
    k = math.prod(array.shape[array.ndim - count :])
    assert_close(result, expected, line.dtype, "layer_norm", k_extent=k, scale=scale)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_layer_norm_on_every_layout(dtype: DType) -> None:
    for array in layouts(dtype):
        for count in range(1, array.ndim + 1):
            tail = array.shape[array.ndim - count :]
            factors = [sample(dtype, tail, 3), sample(f32, tail, 4)]
            for given in ([], factors[:1], factors):
                check_layer_norm(array, count, given)


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_layer_norm_longer_than_a_tile(dtype: DType) -> None:
    rows = sample(dtype, (2, 70001))
    factors = [sample(dtype, (70001,), 3), sample(dtype, (70001,), 4)]
    check_layer_norm(rows, 1, factors)
    check_layer_norm(rows[:, ::-1], 1, factors[:1])
    check_layer_norm(rows, 2, [])
    check_layer_norm(np.asfortranarray(rows), 1, factors)


def test_a_bias_without_a_weight() -> None:
    array, bias = sample(f32, (5, 6)), sample(f32, (6,), 1)
    result = run("layer_norm", array, bias, params=LayerNorm(1, "1e-05", False, True))
    expected = normalised(array.astype(float), 1, 1e-5, []) + bias.astype(float)
    assert_close(result, expected, f32, "layer_norm", k_extent=6, scale=4.0)


def test_a_row_of_equals_is_its_bias() -> None:
    array = np.full((2, 300), 1e4, np.float32)
    bias = np.full(300, 0.25, np.float32)
    result = run("layer_norm", array, bias, params=LayerNorm(1, "1e-05", False, True))
    assert np.unique(result).tolist() == [0.25]
