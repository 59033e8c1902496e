"""index_add and scatter_add: values broadcast, numbers are weak, adjoints of take and gather."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors

A = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
X = sc.tensor(A)


def test_slices_are_added() -> None:
    values = np.arange(16.0, dtype=np.float32).reshape(2, 2, 4)
    expected = A.copy()
    expected[:, 2] += values[:, 0] + values[:, 1]
    np.testing.assert_array_equal(sc.index_add(X, [2, -1], values, 1).numpy(), expected)
    np.testing.assert_array_equal(sc.index_add(X, [2, -1], values, -2).numpy(), expected)
    np.testing.assert_array_equal(X.numpy(), A)


def test_elements_are_added() -> None:
    indices = np.array([[[0], [3], [-1]]])
    expected = A.copy()
    expected[0, [0, 1, 2], [0, 3, 3]] += [5, 6, 7]
    found = sc.scatter_add(X, indices, [[[5.0], [6.0], [7.0]]], 2)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_histogram() -> None:
    labels = np.array([[3, 0, 3], [1, 3, 0]])
    counts = sc.index_add(sc.zeros(4, dtype=sc.i32), labels, 1, 0)
    assert counts.dtype is sc.i32
    assert counts.numpy().tolist() == [2, 1, 0, 3]


@pytest.mark.parametrize("shape", [(), (1,), (4,), (5, 4), (1, 5, 1), (2, 5, 4)])
def test_values_broadcast(shape: tuple[int, ...]) -> None:
    indices = np.array([0, 2, 2, 1, 0])
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = A.copy()
    np.add.at(expected, (slice(None), indices), np.broadcast_to(values, (2, 5, 4)))
    np.testing.assert_array_equal(sc.index_add(X, indices, values, 1).numpy(), expected)


def test_dtypes() -> None:
    assert sc.index_add(X, [0], 1, 0).dtype is sc.f32
    assert sc.index_add(sc.zeros(3, dtype=sc.i32), [0], 1.5, 0).dtype is sc.f32
    assert sc.index_add(sc.zeros(3, dtype=sc.f16), [0], sc.zeros(1), 0).dtype is sc.f32
    assert sc.scatter_add(sc.zeros(3, dtype=sc.bool_), [0], [2], 0).dtype is sc.i64


def test_they_are_the_adjoints_of_take_and_gather() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((5, 6)), rng.standard_normal((5, 4, 3))
    indices = rng.integers(-6, 6, (4, 3))
    back = sc.index_add(np.zeros((5, 6)), indices, y, 1)
    assert np.isclose((sc.take(x, indices, 1) * y).sum().item(), (back * x).sum().item())
    y, indices = rng.standard_normal((5, 9)), rng.integers(-6, 6, (5, 9))
    back = sc.scatter_add(np.zeros((5, 6)), indices, y, 1)
    assert np.isclose((sc.gather(x, indices, 1) * y).sum().item(), (back * x).sum().item())


REFUSED: list[tuple[type[Exception], str, Any]] = [
    (errors.AxisError, "index_add", lambda: sc.index_add(X, [0], 1, 3)),
    (errors.AxisError, "scatter_add", lambda: sc.scatter_add(1.0, [0], 1, 0)),
    (errors.DTypeError, "f32", lambda: sc.index_add(X, [0.5], 1, 0)),
    (errors.DTypeError, "bool", lambda: sc.index_add(sc.ones(3, dtype=sc.bool_), [0], True, 0)),
    (
        errors.ShapeError,
        r"index_add.*\[2\] and \[3, 4\]",
        lambda: sc.index_add(A[0, 0], [0, 1], A[0], 0),
    ),
    (
        errors.ShapeError,
        r"the values have shape \[2, 1, 4\].*need \[1, 4\]",
        lambda: sc.index_add(A[0], [0], A[:, :1], 0),
    ),
    (errors.ShapeError, "ranks must be equal", lambda: sc.scatter_add(X, [0], 1, 0)),
    (errors.ShapeError, "is empty", lambda: sc.index_add(sc.zeros((0, 3)), [0], 1, 0)),
    (errors.IndexOutOfRange, "index 3", lambda: sc.index_add(X, [0, 3], 1, 1).numpy()),
    (errors.IndexOutOfRange, "index 2", lambda: sc.take(sc.zeros((2, 0)), [2], 0).numpy()),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_what_is_refused(case: Any) -> None:
    error, message, call = case
    with pytest.raises(error, match=message):
        call()
