"""Indexing: NumPy's values for every kind of key that is offered, typed errors for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors

A = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
KEYS: tuple[Any, ...] = (
    0,
    -1,
    (1, 2),
    slice(None),
    slice(None, None, -1),
    slice(5, None),
    (slice(None), slice(2, 0, -1)),
    (slice(None), slice(None), slice(-3, None, 2)),
    ...,
    (..., 0),
    (0, ..., 1),
    (0, ..., slice(1, 3)),
    None,
    (None, 0, None, ..., None),
    (..., None),
    (0, 1, 2, 3),
    (0, 1, 2, 3, ...),
    (np.int64(1), np.array(2)),
    [1, 0],
    (slice(None), [0, 2, 1]),
    (..., [[0, 1], [4, -5]]),
    (0, [1, 2]),
    (slice(None), 0, [1, 2]),
    (0, slice(None), [1, 2]),
    ([1, 0], slice(None), 0),
    ([1, 0], 0),
    (0, ..., [1, 2]),
    (None, [1]),
    (slice(None), np.array([], np.int64)),
    (slice(None), []),
    (slice(1, 2), np.array([[2]])),
    (slice(0, 0), 1),
    range(2),
)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys_select_what_numpy_selects(key: Any) -> None:
    found = sc.tensor(A)[key]
    expected = A[key] if not isinstance(key, range) else A[list(key)]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_tensor_is_an_index() -> None:
    rows = sc.tensor([1, 0])
    np.testing.assert_array_equal(sc.tensor(A)[rows].numpy(), A[[1, 0]])
    np.testing.assert_array_equal(sc.tensor(A)[:, :, rows + 1].numpy(), A[:, :, [2, 1]])
    one = sc.tensor(A)[:, sc.tensor(2)]
    assert one.shape == (2, 4, 5)
    np.testing.assert_array_equal(one.numpy(), A[:, 2])
    assert not sc.tensor(A)[sc.input((3,), sc.i64)].evaluated


def test_slices_of_nothing() -> None:
    x = sc.zeros((0, 3))
    assert x[::-1].shape == (0, 3)
    assert x[:, 1].tolist() == []
    assert x.flip().shape == (0, 3)


def test_indexing_makes_views() -> None:
    y = sc.tensor(A)[1, ::-1, 1:3]
    names = []
    while y.inputs:
        names.append(y.op.name)
        y = y.inputs[0]
    assert names == ["reshape", "slice"]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (2, errors.IndexOutOfRange, r"index 2 .* axis 0 .*-2 to 1"),
        ((0, 0, -5), errors.IndexOutOfRange, r"index -5 .* axis 2"),
        ((0,) * 5, errors.AxisError, r"5 indices .* up to 4"),
        ((..., ...), errors.ArgumentError, "two"),
        (np.ones(2, bool), errors.ArgumentError, r"mask.*shapes must.*where"),
        ([True, False], errors.ArgumentError, "mask"),
        (True, errors.ArgumentError, "mask"),
        (slice(None, None, 0), errors.ArgumentError, "step 0"),
        (slice(0.5, None), errors.ArgumentTypeError, "integers"),
        (1.5, errors.ArgumentTypeError, r"1\.5 of type float"),
        ("a", errors.ArgumentTypeError, "'a'"),
        (([0], [1]), errors.ArgumentError, "take_along_axis"),
        ([0.5], errors.DTypeError, "i32 and i64"),
    ],
)
def test_wrong_keys(key: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        sc.tensor(A)[key]


def test_a_mask_tensor_is_refused() -> None:
    x = sc.tensor([1.0, -1.0])
    with pytest.raises(ValueError, match="where"):
        x[x > 0]


def test_an_index_out_of_range_is_found_at_run() -> None:
    with pytest.raises(IndexError, match="3"):
        sc.tensor([1, 2, 3])[[0, 3]].numpy()
