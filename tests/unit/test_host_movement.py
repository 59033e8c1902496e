"""concat, stack, pad, tril, triu, take, gather, one_hot: every dtype and layout against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_harness import ALL, layouts, run, sample

from softcuda.dtype import DType, bf16, bool_, f16, f32, i32, i64, promote
from softcuda.errors import IndexOutOfRange
from softcuda.graph.params import Concat, Gather, OneHot, Pad, Triangle

Array = np.ndarray[Any, Any]

each_dtype = pytest.mark.parametrize("dtype", ALL, ids=str)


def same(actual: Array, expected: Array) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()


@each_dtype
def test_concat_and_stack(dtype: DType) -> None:
    for array in layouts(dtype):
        other = sample(dtype, array.shape, 9)
        for axis in range(array.ndim):
            expected = np.concatenate([array, other, array], axis)
            same(run("concat", array, other, array, params=Concat(axis)), expected)
        for axis in range(array.ndim + 1):
            same(run("stack", array, other, params=Concat(axis)), np.stack([array, other], axis))


def test_concat_promotes() -> None:
    for left in ALL:
        for right in ALL:
            a, b = sample(left, (2, 3)), sample(right, (4, 3), 1)
            dtype = promote(left, right).numpy
            expected = np.concatenate([a.astype(dtype), b.astype(dtype)])
            same(run("concat", a, b, params=Concat(0)), expected)
            expected = np.stack([a.astype(dtype), b[:2].astype(dtype)], 2)
            same(run("stack", a, b[:2], params=Concat(2)), expected)


@each_dtype
def test_pad(dtype: DType) -> None:
    value = {0: "True", 1: "-7"}.get(dtype.kind, "-7.0")
    for array in layouts(dtype):
        before = tuple(range(array.ndim))
        after = tuple(2 - axis for axis in range(array.ndim))
        fill = True if dtype is bool_ else -7
        expected = np.full(
            [d + b + a for d, b, a in zip(array.shape, before, after, strict=True)], fill
        ).astype(dtype.numpy)
        inside = tuple(slice(b, b + d) for b, d in zip(before, array.shape, strict=True))
        expected[inside] = array
        same(run("pad", array, params=Pad(before, after, value)), expected)
    kept = sample(f32, (2, 3))
    same(run("pad", kept, params=Pad((0, 0), (0, 0), "0.0")), kept)


@each_dtype
def test_triangles(dtype: DType) -> None:
    for array in [*layouts(dtype), sample(dtype, (200, 300)), sample(dtype, (3, 2, 4, 4))]:
        if array.ndim < 2:
            continue
        for k in (-300, -2, -1, 0, 1, 3, 300):
            stored = np.array(array)
            kept = np.tri(*array.shape[-2:], k, dtype=bool)
            zero = np.zeros((), dtype.numpy)
            same(run("tril", array, params=Triangle(k)), np.where(kept, stored, zero))
            kept = ~np.tri(*array.shape[-2:], k - 1, dtype=bool)
            same(run("triu", array, params=Triangle(k)), np.where(kept, stored, zero))


@each_dtype
@pytest.mark.parametrize("index", [i32, i64], ids=str)
def test_take(dtype: DType, index: DType) -> None:
    rng = np.random.default_rng(1)
    for array in layouts(dtype):
        for axis in range(array.ndim):
            extent = array.shape[axis]
            for shape in ((), (4,), (0,), (2, 3)):
                if not extent and 0 not in shape:
                    continue
                low = -extent if extent else 0
                picked = rng.integers(low, max(extent, 1), shape).astype(index.numpy)
                expected = np.array(array).take(picked, axis)
                same(run("take", array, np.asarray(picked), params=Gather(axis)), expected)
    turned = np.arange(12)[::-2].astype(index.numpy)
    data = sample(dtype, (12, 3))
    same(run("take", data, turned, params=Gather(0)), data[turned])
    data = sample(dtype, (50, 1000))
    picked = rng.integers(-50, 50, 90).astype(index.numpy)
    same(run("take", data, picked, params=Gather(0)), data[picked])
    same(run("take", data.T, picked, params=Gather(1)), data.T[:, picked])


@each_dtype
@pytest.mark.parametrize("index", [i32, i64], ids=str)
def test_gather(dtype: DType, index: DType) -> None:
    rng = np.random.default_rng(2)
    for array in [*layouts(dtype), sample(dtype, (40, 2000))]:
        for axis in range(array.ndim):
            extent = array.shape[axis]
            shape = [min(d, 3) for d in array.shape]
            shape[axis] = 5 if extent else 0
            picked = rng.integers(-extent, max(extent, 1), shape).astype(index.numpy)
            near = array[
                tuple(slice(None) if k == axis else slice(0, 3) for k in range(array.ndim))
            ]
            expected = np.take_along_axis(near, picked.astype(np.int64), axis)
            same(run("gather", array, picked, params=Gather(axis)), np.ascontiguousarray(expected))


def test_gather_of_many_axes() -> None:
    data = sample(f32, (*(1,) * 60, 2, 3, 1, 4))
    picked = np.zeros((*(1,) * 60, 2, 5, 1, 4), np.int64) - 1
    expected = np.repeat(data[..., -1:, :, :], 5, -3)
    same(run("gather", data, picked, params=Gather(61)), expected)


@pytest.mark.parametrize("name", ["take", "gather"])
@pytest.mark.parametrize("bad", [3, -4, 2**31 - 1])
def test_an_index_outside_is_named(name: str, bad: int) -> None:
    data = sample(f32, (5, 3))
    picked = np.array([[0, bad]], np.int32)
    with pytest.raises(IndexOutOfRange, match=rf"{name}: index {bad} .* axis 1 of extent 3"):
        run(name, data, picked, params=Gather(1))


@each_dtype
def test_one_hot(dtype: DType) -> None:
    for indices in (np.array([0, 2, -1, 3, 1]), np.array(1), np.zeros((2, 0), np.int32)):
        expected = (indices[..., None] == np.arange(3)).astype(dtype.numpy)
        same(run("one_hot", indices, params=OneHot(3, dtype)), expected)
    many = np.arange(5000) % 11
    expected = (many[:, None] == np.arange(11)).astype(dtype.numpy)
    same(run("one_hot", many, params=OneHot(11, dtype)), expected)
    assert run("one_hot", many, params=OneHot(0, dtype)).shape == (5000, 0)


def test_payloads_of_halves_are_kept() -> None:
    for dtype in (f16, bf16):
        bits = np.array([[0x7E01, 0xFFC1], [0x8000, 0x0001]], np.uint16).view(dtype.numpy)
        assert run("concat", bits, bits, params=Concat(0))[:2].tobytes() == bits.tobytes()
