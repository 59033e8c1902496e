"""Softmax, layer_norm and running sums on the device, against float64 on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chain_cases import same_bits
from reduce_cases import FLOATS, ROWS, computed, numbers, wide
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, DType, f32, f64

Array = np.ndarray[Any, Any]


def softmax_of(x: Array, axis: int, logarithm: bool) -> Array:
    exact = x.astype(np.longdouble)
    away = exact - np.max(exact, axis, keepdims=True)
    total = np.sum(np.exp(away), axis, keepdims=True)
    right = away - np.log(total) if logarithm else np.exp(away) / total
    return np.asarray(right, np.float64)


def standardised(x: Array, axes: tuple[int, ...]) -> Array:
    exact = x.astype(np.longdouble)
    mean = np.mean(exact, axes, keepdims=True)
    deviation = np.sqrt(np.var(exact, axes, keepdims=True) + 1e-5)
    return np.asarray((exact - mean) / deviation, np.float64)


@pytest.mark.sanitize
@pytest.mark.parametrize("dims", ROWS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax(dtype: DType, dims: tuple[int, ...]) -> None:
    x = numbers(dims, dtype)
    for axis in range(len(dims)):
        for logarithm in (False, True):
            function = sc.log_softmax if logarithm else sc.softmax
            right = softmax_of(x, axis, logarithm)
            scale = 30.0 if logarithm else 0.0
            found = computed(function(sc.tensor(x), axis))
            assert_close(found, right, dtype, "softmax", k_extent=dims[axis], scale=scale)


@pytest.mark.sanitize
@pytest.mark.parametrize("dims", ROWS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(dtype: DType, dims: tuple[int, ...]) -> None:
    x = numbers(dims, dtype)
    for count in range(1, len(dims)):
        axes = tuple(range(len(dims) - count, len(dims)))
        tail = dims[-count:]
        for factors in ((None, None), (numbers(tail, dtype, 5), numbers(tail, f32, 6))):
            weight, bias = factors
            right = standardised(x, axes)
            if weight is not None and bias is not None:
                right = right * wide(weight) + wide(bias)
            node = sc.layer_norm(sc.tensor(x), weight, bias, count)
            wanted = node.dtype if dtype is not f64 else f64
            assert_close(computed(node), right, wanted, "layer_norm", scale=30.0)


@pytest.mark.sanitize
@pytest.mark.parametrize("dims", [(1, 128), (70, 256), (33, 512), (3, 8192)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rows_that_fill_their_teams(dtype: DType, dims: tuple[int, int]) -> None:
    """Whole vectors, and rows that begin between them."""
    length = dims[1]
    wider = numbers((dims[0], length + 8), dtype)
    weight, bias = numbers((length,), dtype, 5), numbers((length,), dtype, 6)
    for start in (0, 8, 1):
        x, node = wider[:, start : start + length], sc.tensor(wider)[:, start : start + length]
        if start == 0:
            x = np.ascontiguousarray(x)
            node = sc.tensor(x)
        for logarithm, function in ((False, sc.softmax), (True, sc.log_softmax)):
            right, scale = softmax_of(x, 1, logarithm), 30.0 if logarithm else 0.0
            found = computed(function(node, 1))
            assert_close(found, right, dtype, "softmax", k_extent=length, scale=scale)
        right = standardised(x, (1,))
        for factors in ((None, None), (weight, bias)):
            if factors[0] is not None:
                right = right * wide(weight) + wide(bias)
            found = computed(sc.layer_norm(node, *factors))
            assert_close(found, right, dtype, "layer_norm", scale=30.0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_teams_that_go_over_many_rows_find_what_few_do(dtype: DType) -> None:
    few, times = numbers((1000, 128), dtype), 100
    weight, bias = numbers((128,), dtype, 5), numbers((128,), dtype, 6)
    for function in (sc.softmax, sc.log_softmax, lambda x: sc.layer_norm(x, weight, bias)):
        alone = computed(function(sc.tensor(few)))
        found = computed(function(sc.tensor(np.tile(few, (times, 1)))))
        assert same_bits(found, np.tile(alone, (times, 1)))


@pytest.mark.sanitize
@pytest.mark.parametrize("dims", [*ROWS, (3_000_017,), (100_000, 3)], ids=str)
@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
def test_running_sums(dtype: DType, dims: tuple[int, ...]) -> None:
    x = numbers(dims, dtype)
    for axis in range(len(dims)):
        found = computed(sc.cumsum(sc.tensor(x), axis))
        if not dtype.is_float:
            assert np.array_equal(found, np.cumsum(x, axis, dtype=np.int64))
            continue
        right = np.asarray(np.cumsum(x.astype(np.longdouble), axis), np.float64)
        scale = np.cumsum(np.abs(wide(x)), axis)
        assert_close(found, right, dtype, "cumsum", k_extent=dims[axis], scale=scale)
