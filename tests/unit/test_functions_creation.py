"""Leaves and created tensors: dtypes, values, and every value that cannot be a tensor."""

from __future__ import annotations

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import softcuda as sc
from softcuda import errors
from softcuda.dtype import DType


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, sc.bool_),
        (3, sc.i64),
        (1.5, sc.f32),
        ([1, 2.5], sc.f32),
        ([True, 2], sc.i64),
        ([[True], [False]], sc.bool_),
        ([], sc.f32),
        ([[], []], sc.f32),
        ((1, 2), sc.i64),
        (range(3), sc.i64),
        (np.float64(1), sc.f32),
        (np.int8(1), sc.i64),
        ([np.float64(1), 2], sc.f32),
        (np.array(1.0), sc.f64),
        (np.zeros(2, np.float16), sc.f16),
        (np.zeros(2, ml_dtypes.bfloat16), sc.bf16),
        (ml_dtypes.bfloat16(2), sc.f32),
        ([np.zeros(2), np.ones(2)], sc.f64),
        ([np.zeros(2, np.float32), [1, 2]], sc.f32),
        ([np.zeros(2, np.int32), [1.5, 2]], sc.f32),
        (np.zeros(2, np.uint8), sc.i32),
        (np.zeros(2, np.int8), sc.i32),
        (np.zeros(2, np.int16), sc.i32),
        (np.zeros(2, np.uint16), sc.i32),
        (np.zeros(2, np.uint32), sc.i64),
        (np.zeros(2, ">f4"), sc.f32),
        (np.zeros(2, ">u2"), sc.i32),
        (array.array("f", [1, 2]), sc.f32),
        (memoryview(b"ab"), sc.i32),
    ],
)
def test_dtype_of_a_new_tensor(value: Any, dtype: DType) -> None:
    x = sc.tensor(value)
    assert x.dtype is dtype
    assert x.shape == np.shape(value)
    np.testing.assert_array_equal(x.numpy().astype(float), np.asarray(value).astype(float))


@pytest.mark.parametrize(
    "value",
    ["a", ["a", 1], [None], np.zeros(2, np.uint64), np.zeros(2, np.clongdouble), b"x"],
)
def test_values_without_a_dtype(value: Any) -> None:
    with pytest.raises(errors.DTypeError):
        sc.tensor(value)
    with pytest.raises(TypeError):
        sc.asarray(value)


@pytest.mark.parametrize("value", [None, object(), {1: 2}, {1, 2}, len])
def test_values_of_other_types(value: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="allowed are numbers"):
        sc.tensor(value)


@pytest.mark.parametrize("value", [[[1, 2], [3]], [1, [2]], [np.zeros(2), np.zeros(3)]])
def test_ragged_lists(value: Any) -> None:
    with pytest.raises(errors.ShapeError, match="ragged"):
        sc.tensor(value)


def test_other_refused_values() -> None:
    with pytest.raises(errors.NumberRangeError, match="9223372036854775808"):
        sc.tensor([2**63])
    with pytest.raises(errors.NumberRangeError):
        sc.tensor([2**70, 1])
    with pytest.raises(errors.NumberRangeError, match="i32"):
        sc.tensor([2**31], sc.i32)
    with pytest.raises(errors.ArgumentTypeError, match="stack"):
        sc.tensor([sc.ones(()), sc.ones(())])
    with pytest.raises(errors.ArgumentTypeError, match="filled"):
        sc.tensor(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(errors.DTypeError, match="allowed are bool, i32"):
        sc.tensor([1], "f99")
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    with pytest.raises(errors.ShapeError, match="64"):
        sc.tensor(deep)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1.9, -1.9, np.nan, np.inf], sc.i64, [1, -1, 0, 2**63 - 1]),
        ([1e10, -1e10], sc.i32, [2**31 - 1, -(2**31)]),
        ([0, 2, -1], sc.bool_, [False, True, True]),
        (2, sc.bool_, True),
        (1.9, sc.i32, 1),
        ([1, 2], sc.bf16, [1, 2]),
        (np.array([2**32 + 5]), sc.i32, [5]),
        ([1e40], sc.f32, [np.inf]),
    ],
)
def test_values_in_a_given_dtype(value: Any, dtype: DType, expected: Any) -> None:
    x = sc.tensor(value, dtype)
    assert x.dtype is dtype
    assert x.tolist() == expected


def test_tensor_copies_and_asarray_aliases() -> None:
    a = np.arange(6.0).reshape(2, 3)[:, ::-1]
    copied, aliased = sc.tensor(a), sc.asarray(a)
    a[0, 0] = 50
    assert copied.tolist()[0][0] == 2
    assert aliased.tolist()[0][0] == 50
    assert aliased.strides == (3, -1)
    assert (aliased + 1).tolist()[1] == [6, 5, 4]
    assert sc.asarray(copied) is copied
    assert sc.asarray(a, sc.f32).dtype is sc.f32
    assert sc.tensor(copied) is not copied
    with pytest.raises(ValueError, match="read-only"):
        aliased.numpy()[0, 0] = 1


def test_arrays_that_cannot_be_aliased_are_copied() -> None:
    packed = np.zeros(3, np.dtype([("a", "i1"), ("b", "f4")]))["b"]
    assert sc.asarray(packed).strides == (1,)
    assert (sc.asarray(packed) + 1).tolist() == [1, 1, 1]
    swapped = np.arange(3, dtype=">i4")
    assert (sc.asarray(swapped) + 1).tolist() == [1, 2, 3]
    spread = np.broadcast_to(np.float32(2), (2, 2))
    assert (sc.asarray(spread) * 2).tolist() == [[4, 4], [4, 4]]


def test_filled_tensors() -> None:
    assert sc.zeros((2, 1)).tolist() == [[0], [0]]
    assert sc.ones(2, sc.i32).tolist() == [1, 1]
    assert sc.zeros((), "bool").tolist() is False
    assert sc.full((2,), 7).dtype is sc.i64
    assert sc.full((2,), 0.5).dtype is sc.f32
    assert sc.full((2,), True).tolist() == [True, True]
    assert sc.full((2, 2), [1, 2]).tolist() == [[1, 2], [1, 2]]
    x = sc.zeros((0, 3), sc.bf16)
    for made in (sc.zeros_like(x), sc.ones_like(x), sc.full_like(x, 3)):
        assert (made.shape, made.dtype) == ((0, 3), sc.bf16)
    assert sc.full_like([1, 2], 3).tolist() == [3, 3]
    assert sc.ones_like(x, sc.i32).dtype is sc.i32
    assert sc.zeros((1,) * 64).ndim == 64


def test_wrong_shapes_and_values() -> None:
    with pytest.raises(errors.ShapeError, match=r"\[2, -1\]"):
        sc.zeros((2, -1))
    with pytest.raises(errors.ShapeError, match="64"):
        sc.zeros((1,) * 65)
    with pytest.raises(errors.ArgumentTypeError, match=r"2\.5"):
        sc.zeros(2.5)  # type: ignore[arg-type]
    with pytest.raises(errors.NumberRangeError, match="i32"):
        sc.full((2,), 2**31, sc.i32)
    with pytest.raises(errors.DTypeError, match="kind"):
        sc.full((2,), 0.5, sc.i32)
    with pytest.raises(errors.ShapeError, match=r"^full: .*broadcast"):
        sc.full((2,), [1, 2, 3])


@pytest.mark.parametrize(
    "arguments",
    [(5,), (2, 7), (7, 2), (2, 9, 3), (9, 2, -3), (0,), (-3,), (0, 1, 0.25), (1.0,), (5, 1, -1.5)],
)
def test_arange_counts_as_numpy_does(arguments: Any) -> None:
    expected = np.arange(*arguments)
    found = sc.arange(*arguments)
    assert found.dtype is (sc.i64 if expected.dtype.kind == "i" else sc.f32)
    assert found.tolist() == expected.tolist()


def test_arange_of_a_dtype() -> None:
    assert sc.arange(3, dtype=sc.f64).numpy().dtype == np.float64
    assert sc.arange(3, dtype=sc.i32).numpy().dtype == np.int32
    with pytest.raises(errors.ArgumentError, match="step 0"):
        sc.arange(1, 2, 0)
    with pytest.raises(errors.ArgumentError, match="inf"):
        sc.arange(np.inf)
    with pytest.raises(errors.DTypeError, match="kind"):
        sc.arange(0.5, 3, dtype=sc.i64)
    with pytest.raises(errors.NumberRangeError):
        sc.arange(2**31, 2**31 + 2, dtype=sc.i32)
    with pytest.raises(errors.ArgumentTypeError, match="start"):
        sc.arange("a", 2)  # type: ignore[arg-type]
    with pytest.raises(errors.DTypeError, match="bool"):
        sc.arange(2, dtype=bool)


@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(num: int, endpoint: bool) -> None:
    found = sc.linspace(-1, 3, num, endpoint, sc.f64)
    np.testing.assert_array_equal(found.numpy(), np.linspace(-1, 3, num, endpoint))


def test_wrong_linspace() -> None:
    with pytest.raises(errors.ArgumentError, match="num is -1"):
        sc.linspace(0, 1, -1)
    with pytest.raises(errors.DTypeError, match="floats"):
        sc.linspace(0, 1, 3, dtype=sc.i32)
    with pytest.raises(errors.ArgumentTypeError, match="num"):
        sc.linspace(0, 1, 2.5)  # type: ignore[arg-type]


def test_eye() -> None:
    for arguments in ((3,), (2, 4), (2, 4, 1), (3, 3, -1), (0,), (2, 2, 5)):
        np.testing.assert_array_equal(sc.eye(*arguments).numpy(), np.eye(*arguments))
    with pytest.raises(errors.ShapeError, match="-1"):
        sc.eye(-1)


def test_inputs_and_variables() -> None:
    x = sc.input((2, 3), "bf16", name="x")
    assert (x.op.name, x.name, x.dtype, x.data) == ("input", "x", sc.bf16, None)
    assert sc.input(()).name is None
    w = sc.variable([[1.0]], "w", sc.f64)
    assert (w.op.name, w.name, w.dtype, w.evaluated) == ("variable", "w", sc.f64, True)
    assert sc.variable(sc.ones(2) + 1).tolist() == [2, 2]
    with pytest.raises(errors.ArgumentError, match="empty"):
        sc.input((2,), name="")
    with pytest.raises(errors.ArgumentTypeError, match="3"):
        sc.variable(1, name=3)  # type: ignore[arg-type]
