"""index_add and scatter_add on a device: sorts of every length, long runs, bits, reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import makers_of, profile_of
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, DType

Array = np.ndarray[Any, Any]

NAIVE = profile_of("cuda_naive")
RNG = np.random.default_rng(23)
NUMBERS = [dtype for dtype in REAL_DTYPES.values() if not dtype.is_bool]

each_dtype = pytest.mark.parametrize("dtype", NUMBERS, ids=str)


def values(shape: tuple[int, ...], dtype: DType) -> Array:
    """Return small whole numbers, whose sums every dtype but the narrow ones holds exactly."""
    return RNG.integers(-3, 4, shape).astype(dtype.numpy)


def run(node: Any) -> Array:
    executable = sc.compile(node, NAIVE)
    assert makers_of(executable) == ["cuda_naive"]
    found: Array = executable.run().numpy()
    return found


def compared(found: Array, x: Array, place: Any, added: Array, dtype: DType) -> None:
    """Compare with NumPy in f64 or i64."""
    wide = np.float64 if dtype.is_float else np.int64
    total, size = x.astype(wide), np.abs(x.astype(wide))
    np.add.at(total, place, added.astype(wide))
    np.add.at(size, place, np.abs(added.astype(wide)))
    repeats = np.zeros(x.shape, np.int64)
    np.add.at(repeats, place, 1)
    assert_close(
        found,
        total if dtype.is_float else total.astype(dtype.numpy),
        dtype,
        "index_add",
        k_extent=int(repeats.max(initial=1)) + 1,
        scale=size,
    )


@pytest.mark.sanitize
@each_dtype
@pytest.mark.parametrize(
    "count", [0, 1, 2, 31, 64, 65, 511, 513, 4095, 4096, 4097, 8191, 8193, 20_011]
)
def test_sorts_of_every_length(count: int, dtype: DType) -> None:
    """One block, then tiles; one bit of a key, then three passes."""
    for rows in (1, 2, 257, 70_001):
        x, added = values((rows,), dtype), values((count,), dtype)
        indices = RNG.integers(-rows, rows, count)
        found = run(sc.index_add(x, indices, added, 0))
        compared(found, x, (indices,), added, dtype)


@pytest.mark.sanitize
@each_dtype
@pytest.mark.parametrize("columns", [1, 3, 31, 33, 1000])
def test_slices_of_every_width(columns: int, dtype: DType) -> None:
    x, added = values((7, columns), dtype), values((301, columns), dtype)
    indices = RNG.integers(-7, 7, 301).astype(np.int32)
    compared(run(sc.index_add(x, indices, added, 0)), x, (indices,), added, dtype)
    turned = run(sc.index_add(x.T, indices, added.T, 1))
    compared(np.ascontiguousarray(turned.T), x, (indices,), added, dtype)


@pytest.mark.sanitize
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_views_of_every_operand(axis: int, index: Any) -> None:
    x, added = values((6, 9, 10), sc.f32)[::-1, :, ::2], values((12, 5, 6), sc.f32).T
    shape = (6, 5, 5)
    indices = RNG.integers(-x.shape[axis], x.shape[axis], (6, 10, 5)).astype(index)[:, ::2]
    assert indices.shape == shape
    part = np.ascontiguousarray(added[:, :, ::2])[:, :, :5]
    place: list[Any] = list(np.indices(shape))
    place[axis] = indices
    found = run(sc.scatter_add(sc.tensor(x), sc.tensor(indices), sc.tensor(part), axis))
    compared(found, x, tuple(place), part, sc.f32)
    whole = values((*x.shape[:axis], 3, 4, *x.shape[axis + 1 :]), sc.f32)
    few = RNG.integers(-x.shape[axis], x.shape[axis], (4, 3)).astype(index).T
    found = run(sc.index_add(sc.tensor(x), sc.tensor(few), sc.tensor(whole), axis))
    compared(found, x, (*(slice(None),) * axis, few), whole, sc.f32)


@pytest.mark.sanitize
def test_dtypes_meet() -> None:
    indices = np.array([1, 0, 1, 2])
    for left in NUMBERS:
        for right in REAL_DTYPES.values():
            x, added = values((3, 2), left), values((4, 2), right)
            node = sc.index_add(x, indices, added, 0)
            compared(run(node), x, (indices,), added, node.dtype)


@pytest.mark.sanitize
@pytest.mark.parametrize("rows", [1, 3, 100_000])
def test_millions_of_indices(rows: int) -> None:
    """A run over everything, a few long ones, and many short ones."""
    count = 1_500_007
    x, added = np.zeros(rows, np.float32), RNG.standard_normal(count).astype(np.float32)
    indices = RNG.integers(0, rows, count)
    compared(run(sc.index_add(x, indices, added, 0)), x, (indices,), added, sc.f32)


def test_ones_add_up_exactly() -> None:
    """A sum one after the other would stop at 2^24."""
    count = 40_000_000
    ones = sc.broadcast_to(sc.ones(1), (count,))
    indices = sc.broadcast_to(sc.tensor([1]), (count,))
    assert run(sc.index_add(sc.zeros(2), indices, ones, 0)).tolist() == [0, count]


@pytest.mark.parametrize("dtype", [sc.f16, sc.f32, sc.f64], ids=str)
def test_the_same_bits_every_time(dtype: DType) -> None:
    x, indices = np.zeros((50, 3), dtype.numpy), RNG.integers(0, 50, 200_000)
    added = RNG.standard_normal((200_000, 3)).astype(dtype.numpy)
    executable = sc.compile(sc.index_add(x, indices, added, 0), NAIVE)
    first = executable.run().numpy().tobytes()
    assert all(executable.run().numpy().tobytes() == first for _ in range(5))
    assert run(sc.index_add(x, indices, added, 0)).tobytes() == first


def test_repeats_are_added_in_the_order_of_their_positions() -> None:
    big = np.float32(2**24)
    values_in_order = np.array([1, -big, big], np.float32)
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        part = values_in_order[order]
        expected = (part[0] + part[1]) + part[2]
        found = run(sc.index_add(sc.zeros(3), [2, 2, 2], part, 0))
        assert found.tolist() == [0, 0, float(expected)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sc.index_add(sc.zeros((4, 3)), [0, 3], 1, 1), "index_add: index 3 .* axis 1"),
        (lambda: sc.scatter_add(sc.zeros(4), [-5], 1, 0), "scatter_add: index -5 .* axis 0"),
        (lambda: sc.take(sc.zeros((4, 3)), [4], 0), "take: index 4 .* axis 0 of extent 4"),
        (lambda: sc.gather(sc.zeros(4), [4], 0), "gather: index 4"),
        (lambda: sc.take_along_axis(sc.zeros((2, 4)), [[4], [0]]), "take_along_axis: .* axis 1"),
        (lambda: sc.cross_entropy(sc.zeros((2, 3)), [1, -1]), "cross_entropy: label -1 of 3"),
        (lambda: sc.cross_entropy(sc.zeros((2, 3)), [1, 3]), "cross_entropy: label 3 of 3"),
        (lambda: sc.take(sc.zeros((4, 0)), [4], 0), "take: index 4 .* axis 0"),
        (lambda: sc.index_add(sc.zeros((4, 0)), [4], 1, 0), "index_add: index 4"),
    ],
)
def test_a_bad_index_names_who_read_it(build: Any, message: str) -> None:
    """The error comes when the result is asked for, and the next run is clean."""
    with pytest.raises(sc.errors.IndexOutOfRange, match=message):
        sc.compile(build(), NAIVE).run().numpy()
    assert sc.compile(sc.take(sc.arange(4), [3], 0), NAIVE).run().numpy().tolist() == [3]


def test_the_first_of_several_errors_is_told() -> None:
    taken = sc.take(sc.zeros(4), [9], 0)
    added = sc.index_add(sc.zeros(4), [7], taken, 0)
    with pytest.raises(sc.errors.IndexOutOfRange, match="take: index 9"):
        sc.compile(added, NAIVE).run().numpy()
