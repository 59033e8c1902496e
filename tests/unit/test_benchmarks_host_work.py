"""What benchmarks do on the host by several threads is what NumPy does by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.accuracy import _BLOCK, compare
from benchmarks.host_work import (
    _DRAWN,
    by_kept_axis,
    by_rows,
    dense,
    in_threads,
    random_array,
    slices,
)


@pytest.fixture(params=["1", "3"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SOFTCUDA_THREADS", request.param)
    return str(request.param)


def test_parts_cover_everything_once() -> None:
    assert slices(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert slices(0, 2) == []


def test_results_come_in_order_and_errors_through(threads: str) -> None:
    assert in_threads(lambda k: k * k, range(9)) == [k * k for k in range(9)]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k: 1 // k, [1, 0])


def test_random_numbers_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("SOFTCUDA_THREADS", threads)
        found.append(random_array(5, 2, _DRAWN - 7))
    np.testing.assert_array_equal(*found)
    first, last = found[0].reshape(-1)[:1000], found[0].reshape(-1)[_DRAWN:][:1000]
    assert np.count_nonzero(first == last) < 10
    assert random_array(5, 1000)[0] == first[0] != random_array(6, 1000)[0]


@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 5), (1, 0)), ((3, 70001), (1, 0)), ((41, 37, 51), (2, 0, 1))]
)
def test_a_dense_copy_is_that_of_numpy(
    shape: tuple[int, ...], axes: tuple[int, ...], threads: str
) -> None:
    view = random_array(1, *shape).transpose(axes)
    found = dense(view)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, view)


def test_rows_have_the_values_of_the_whole(threads: str) -> None:
    x, y = random_array(1, 203, 7), random_array(2, 7, 203)
    found = by_rows(lambda a, b: a * b - 1, x, y.T)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, x.astype(np.float64) * y.T - 1)
    assert by_rows(lambda a: a.sum(axis=1), x[:1]).shape == (1,)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_an_axis_that_is_kept_can_be_cut(axes: tuple[int, ...], threads: str) -> None:
    x = random_array(1, 67, 70, 3)
    largest = by_kept_axis(lambda part: np.asarray(np.max(part, axes)), x, axes)
    np.testing.assert_array_equal(largest, np.max(x, axes))
    if len(axes) == 1:
        sums = by_kept_axis(lambda part: np.cumsum(part, axes[0]), x, axes)
        np.testing.assert_array_equal(sums, np.cumsum(x, axes[0]))


def test_every_block_is_compared(threads: str) -> None:
    reference = random_array(1, 3 * _BLOCK + 5)
    reference[_BLOCK + 1] = 0.0
    out = reference.copy()
    assert compare(out, reference) == (0.0, 0)
    out[-1] += 2.0
    error = 2.0 / np.linalg.norm(reference.astype(np.float64))
    assert compare(out, reference).error == pytest.approx(error)
    out[_BLOCK + 1] = np.nan
    assert compare(out, reference).nan_mismatches == 1
    assert compare(out, reference).error == pytest.approx(error)
    out[0] = np.inf
    assert compare(out, reference).error == math.inf
