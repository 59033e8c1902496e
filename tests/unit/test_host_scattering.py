"""index_add and scatter_add on the host: every dtype and layout against NumPy; what is refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from host_harness import FLOATS, calls_of, layouts, run, sample
from tolerance import assert_close

from softcuda.backends import cpu_fallback
from softcuda.dtype import DType, bf16, bool_, dtype_of_array, f16, f32, f64, i32, i64, promote
from softcuda.errors import IndexOutOfRange
from softcuda.graph.params import Gather

Array = np.ndarray[Any, Any]

NUMBERS = (i32, i64, *FLOATS)
LIMIT = 4 << 20  # a few cache-sized blocks

each_dtype = pytest.mark.parametrize("dtype", NUMBERS, ids=str)
each_index = pytest.mark.parametrize("index", [i32, i64], ids=str)


def compared(found: Array, x: Array, place: Any, values: Array, repeats: int) -> None:
    """Compare with what NumPy adds up, in f64 or i64."""
    dtype = dtype_of_array(found.dtype)
    assert dtype is promote(*(dtype_of_array(a.dtype) for a in (x, values)))
    total, added = (a.astype(np.float64 if dtype.is_float else np.int64) for a in (x, values))
    size = np.abs(total)
    np.add.at(total, place, added)
    np.add.at(size, place, np.abs(added))
    if not dtype.is_float:
        total = total.astype(found.dtype)
    assert_close(found, total, dtype, "index_add", k_extent=repeats, scale=size)


@each_dtype
@each_index
def test_index_add(dtype: DType, index: DType) -> None:
    rng = np.random.default_rng(1)
    for x in layouts(dtype):
        for axis in range(x.ndim):
            extent = x.shape[axis]
            for shape in ((), (4,), (0,), (2, 30)):
                if not extent and 0 not in shape:
                    continue
                picked = rng.integers(-extent, max(extent, 1), shape).astype(index.numpy)
                dims = (*x.shape[:axis], *shape, *x.shape[axis + 1 :])
                values = sample(dtype, dims, 3)
                found = run("index_add", x, np.asarray(picked), values, params=Gather(axis))
                compared(found, x, (*(slice(None),) * axis, picked), values, 64)


@each_dtype
@each_index
def test_scatter_add(dtype: DType, index: DType) -> None:
    rng = np.random.default_rng(2)
    for x in [*layouts(dtype), sample(dtype, (40, 2000))]:
        for axis in range(x.ndim):
            extent = x.shape[axis]
            shape = [min(d, 3) for d in x.shape]
            shape[axis] = 50 if extent else 0
            picked = rng.integers(-extent, max(extent, 1), shape).astype(index.numpy)
            values = sample(dtype, tuple(shape[::-1]), 4).T
            found = run("scatter_add", x, picked, values, params=Gather(axis))
            place: list[Any] = list(np.indices(shape))
            place[axis] = picked
            compared(found, x, tuple(place), values, 64)


def test_dtypes_meet_as_in_a_sum() -> None:
    picked = np.array([2, 0, 2])
    for left in (bool_, *NUMBERS):
        for right in (bool_, *NUMBERS):
            if left is right is bool_:
                continue
            x, values = sample(left, (3, 2)), sample(right, (3, 2), 1)
            compared(run("index_add", x, picked, values, params=Gather(0)), x, (picked,), values, 2)


def test_integers_wrap() -> None:
    top = np.array([2**31 - 1], np.int32)
    found = run("index_add", top, np.array([0, 0]), np.array([1, 5], np.int32), params=Gather(0))
    assert found.tolist() == [-(2**31) + 5]
    top = np.array([2**63 - 1])
    assert run("scatter_add", top, np.array([0]), np.array([1]), params=Gather(0))[0] == -(2**63)


@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_sums_are_rounded_once(dtype: DType) -> None:
    ones = np.ones(100_001, dtype.numpy)
    found = run("index_add", ones[:1], np.zeros(100_000, int), ones[1:] / 8, params=Gather(0))
    assert found[0] == dtype.numpy.type(1 + 100_000 / 8)


def test_zeros_keep_their_signs() -> None:
    x = np.array([-0.0, -0.0, 0.0])
    found = run("index_add", x, np.array([1, 1]), np.array([-0.0, -0.0]), params=Gather(0))
    assert np.signbit(found).tolist() == [True, True, False]


@pytest.mark.parametrize("bad", [3, -4, 2**31 - 1])
@pytest.mark.parametrize("name", ["index_add", "scatter_add"])
def test_an_index_outside_is_named(name: str, bad: int) -> None:
    x, picked = sample(f32, (5, 3)), np.array([[0, bad]], np.int32)
    values = sample(f32, (5, 1, 2) if name == "index_add" else (1, 2))
    with pytest.raises(IndexOutOfRange, match=rf"{name}: index {bad} .* axis 1 of extent 3"):
        run(name, x, picked, values, params=Gather(1))


@pytest.mark.parametrize(("name", "shape"), [("take", (2, 0)), ("index_add", (4, 0))])
def test_indices_are_checked_where_nothing_is_written(name: str, shape: tuple[int, ...]) -> None:
    arrays = [np.empty((4, 0), np.float32), np.array([1, 9])]
    if name == "index_add":
        arrays.append(np.empty((2, 0), np.float32))
    with pytest.raises(IndexOutOfRange, match=rf"{name}: index 9"):
        run(name, *arrays, params=Gather(0))
    arrays[1] = np.array([1, 3])
    assert run(name, *arrays, params=Gather(0)).shape == shape


@pytest.mark.parametrize("dtypes", [(f32, f32), (f16, f64), (i64, i32)], ids=str)
def test_memory_beside_the_operands(dtypes: Any) -> None:
    x, values = sample(dtypes[0], (1500, 1024)), sample(dtypes[1], (1024, 1500)).T
    for name, picked in (
        ("index_add", np.arange(1500) % 7),
        ("scatter_add", np.broadcast_to(np.arange(1500)[:, None] % 7, x.shape)),
    ):
        calls, _ = calls_of(cpu_fallback, name, [x, picked, values], Gather(0))
        tracemalloc.start()
        for function, args in calls:
            function(*args)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < LIMIT, name
