"""Softmax and layer_norm with ops around them on the device, against float64 on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import fast_profile, profile_of
from reduce_cases import FLOATS, computed, numbers, wide
from row_chain_cases import CASES, Named, RowCase
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import DType, f32

Array = np.ndarray[Any, Any]

PROFILE, REFERENCE = fast_profile(), profile_of("cpu_fallback")
LENGTHS = (2, 3, 64, 100, 127, 1000, 1024, 4093, 8192, 16384)


def arrays_of(case: RowCase, length: int, dtype: DType) -> Named:
    made = Named()
    for number, (name, dims) in enumerate(case.extents(length).items()):
        if name in case.masks:
            made[name] = np.random.default_rng(number).random(dims) < 0.7
        else:
            made[name] = numbers(dims, dtype, number)
    return made


def right_of(case: RowCase, arrays: Named, dtype: DType) -> Array:
    """Return the result in float64; of 16 bits that of the reference, which rounds every value."""
    if dtype.itemsize > 2:
        made = {k: v if v.dtype == bool else wide(v) for k, v in arrays.items()}
        return case.right(Named(made))
    leaves = Named({name: sc.tensor(array) for name, array in arrays.items()})
    return wide(computed(case.build(leaves), REFERENCE))


def check(case: RowCase, arrays: Named, dtype: DType, length: int) -> None:
    node = case.build(Named({name: sc.tensor(array) for name, array in arrays.items()}))
    right = right_of(case, arrays, dtype)
    found = computed(node, PROFILE)
    assert_close(found, right, node.dtype, case.op, k_extent=length, scale=30.0)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_with_chains(case: RowCase, dtype: DType) -> None:
    for length in LENGTHS:
        check(case, arrays_of(case, length, dtype), dtype, length)


def test_nan_and_infinities_stay_in_their_rows() -> None:
    x = np.ones((6, 100), np.float32)
    x[1, 3], x[2, 4], x[3, :], x[4, 5] = np.nan, np.inf, -np.inf, -np.inf
    y = np.zeros((100,), np.float32)
    with np.errstate(all="ignore"):
        powers = np.exp(wide(x) - np.max(wide(x), 1, keepdims=True))
        right = 2 * powers / np.sum(powers, 1, keepdims=True)
    found = computed(sc.softmax(sc.tensor(x) + sc.tensor(y)) * 2.0, PROFILE)
    assert_close(found, right, f32, "softmax", k_extent=100)
    assert np.isnan(found[1:4]).all() and not np.isnan(found[[0, 4, 5]]).any()


def test_operands_that_begin_between_vectors() -> None:
    base, tail = numbers((9, 1025), f32), numbers((1025,), f32, 1)
    x, y = sc.tensor(base), sc.tensor(tail)
    for first in (0, 1, 4):
        part = sc.softmax(x[:, first : first + 1020] + y[first : first + 1020]) * 3.0
        moved = wide(base)[:, first : first + 1020] + wide(tail)[first : first + 1020]
        powers = np.exp(moved - np.max(moved, 1, keepdims=True))
        right = 3 * powers / np.sum(powers, 1, keepdims=True)
        assert_close(computed(part, PROFILE), right, f32, "softmax", k_extent=1020)
    flipped = sc.layer_norm(sc.flip(x, 1) + y) + y
    moved = wide(base)[:, ::-1] + wide(tail)
    mean, var = np.mean(moved, 1, keepdims=True), np.var(moved, 1, keepdims=True)
    right = (moved - mean) / np.sqrt(var + 1e-5) + wide(tail)
    assert_close(computed(flipped, PROFILE), right, f32, "layer_norm", scale=30.0)


def test_many_rows_and_their_order() -> None:
    x = numbers((70_001, 20), f32)
    found = computed(sc.softmax(sc.tensor(x) * 0.5) - 1.0, PROFILE)
    powers = np.exp(wide(x) / 2 - np.max(wide(x) / 2, 1, keepdims=True))
    right = powers / np.sum(powers, 1, keepdims=True) - 1
    assert_close(found, right, f32, "softmax", k_extent=20, scale=1.0)


@pytest.mark.parametrize(("dims", "axis"), [((1, 3_000_001), 1), ((1_000_003, 3), 0)], ids=str)
def test_few_long_rows(dims: tuple[int, int], axis: int) -> None:
    x = numbers(dims, f32)
    away = wide(x) - np.max(wide(x), axis, keepdims=True)
    total = np.sum(np.exp(away), axis, keepdims=True)
    found = computed(sc.softmax(sc.tensor(x), axis), PROFILE)
    assert_close(found, np.exp(away) / total, f32, "softmax", k_extent=dims[axis])
    found = computed(sc.log_softmax(sc.tensor(x), axis), PROFILE)
    assert_close(found, away - np.log(total), f32, "log_softmax", k_extent=dims[axis], scale=30.0)


def test_a_long_layer_norm() -> None:
    x, w = numbers((2, 1_000_003), f32), numbers((1_000_003,), f32, 1)
    mean, var = np.mean(wide(x), 1, keepdims=True), np.var(wide(x), 1, keepdims=True)
    right = (wide(x) - mean) / np.sqrt(var + 1e-5) * wide(w)
    found = computed(sc.layer_norm(sc.tensor(x), sc.tensor(w)), PROFILE)
    assert_close(found, right, f32, "layer_norm", scale=30.0)


def test_only_elements_of_rows_report() -> None:
    """Threads hold more than the row has: what lies beyond raises no error."""
    good = np.full((100, 10), 1, np.int32)
    power = 2 ** (sc.tensor(good) - 1)
    for node in (
        sc.softmax(sc.cast(power, "f32")),
        sc.softmax(sc.cast(power, "f32")) * sc.cast(power, "f32"),
        sc.cast(2 ** sc.cast(sc.log_softmax(sc.cast(power, "f32")) + 9.0, "i32"), "f32"),
    ):
        assert np.isfinite(computed(node, PROFILE)).all()
    bad = good.copy()
    bad[99, 9] = 0
    with pytest.raises(sc.errors.SoftCudaError, match="power"):
        computed(sc.softmax(sc.cast(2 ** (sc.tensor(bad) - 1), "f32")), PROFILE)
