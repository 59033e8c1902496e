"""Launches of index_add, scatter_add and their sort: on a model of the kernels, no device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy_bounds import apply, check, known_leaf
from op_cases import variants
from scatter_model import Model

from softcuda.backends.cuda.naive_movement import prepare_movement
from softcuda.backends.cuda.scatter import chunk_lengths
from softcuda.backends.cuda.sort import entries_bytes, plan_sort
from softcuda.backends.launches import KernelLaunch
from softcuda.backends.reports import reported
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import dtype_of_array
from softcuda.errors import IndexOutOfRange
from softcuda.graph.op import OPS
from softcuda.graph.params import Gather
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

Array = np.ndarray[Any, Any]

H200 = Target("cuda", "sm_90a", 132, 227, 60)
SMALL = Target("cuda", "sm_75", 3, 64, 4)
RNG = np.random.default_rng(41)


def step_of(op: str, arrays: list[Array], params: Gather, target: Target = H200) -> Step:
    """Return the one step of an op over arrays, which lie as NumPy says."""
    operands = tuple(
        Operand(
            number,
            0,
            array.shape,
            tuple(stride // array.itemsize for stride in array.strides),
            dtype_of_array(array.dtype),
        )
        for number, array in enumerate(arrays)
    )
    row = OPS[op]
    dims, dtype = row.shape_rule(operands, params), row.dtype_rule(operands, params)
    result = Operand(len(arrays), 0, dims, contiguous_strides(dims), dtype)
    chain = (Micro(row, tuple(range(len(arrays))), dims, dtype, params),)
    (step,) = prepare_movement(Unit(chain, operands, result, (len(arrays),)), target)
    return step


def families(step: Step) -> list[str]:
    return [launch.spec.family for launch in step.launches]


def added(op: str, arrays: list[Array], axis: int, target: Target = H200) -> Array:
    """Return what the launches give on the model."""
    model = Model(step_of(op, arrays, Gather(axis), target), arrays)
    assert not model.status[0]
    return model.out


def spread_out(array: Array, step: int) -> Array:
    """Return the same values `step` elements apart along the first axis; the gaps are not there."""
    return np.lib.stride_tricks.as_strided(array, array.shape, (step, *array.strides[1:]))


# ---- results ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("op", ["index_add", "scatter_add"])
def test_every_variant_on_the_model(op: str, dtype: str) -> None:
    for name, work in variants(op, dtype).items():
        leaves = [known_leaf(x, dtype_of_array(x.dtype)) for x in work.arrays]
        model = Model(step_of(op, list(work.arrays), work.params), work.arrays)
        check(model.out, apply(work.op, work.params, leaves), f"{op} of {dtype}, {name}")


@pytest.mark.parametrize("given", ["complex64", "complex128", "float32"])
@pytest.mark.parametrize("op", ["index_add", "scatter_add"])
def test_complex_numbers_are_added_part_by_part(op: str, given: str) -> None:
    """Layouts, values of another dtype, one level and more; sums of small integers are exact."""
    x = (RNG.integers(-9, 9, (5, 7, 2)) @ [1, 1j]).astype(np.complex64)
    for count, order in ((6, (0, 1)), (90, (1, 0))):
        shape = (count, 7) if op == "scatter_add" else (count,)
        indices = RNG.integers(-5, 5, shape)
        values = (
            RNG.integers(-9, 9, (count, 7)).transpose(order).astype(given, "C").transpose(order)
        )
        if given != "float32":
            values *= np.array(1 - 2j, given)
        expected = x.astype(np.complex128)
        where = (indices, np.arange(7)) if op == "scatter_add" else indices
        np.add.at(expected, where, values)
        np.testing.assert_array_equal(added(op, [x, indices, values], 0), expected)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 9001])
@pytest.mark.parametrize("rows", [1, 300, 70_000])
def test_counts_around_every_bound(count: int, rows: int) -> None:
    x, indices = RNG.integers(-9, 9, rows), RNG.integers(-rows, rows, count)
    values = RNG.integers(-9, 9, count)
    expected = x.copy()
    np.add.at(expected, indices, values)
    for target in (H200, SMALL):
        np.testing.assert_array_equal(added("index_add", [x, indices, values], 0, target), expected)


def test_blocks_change_no_bit() -> None:
    x, indices = np.zeros(50, np.float32), RNG.integers(0, 50, 20_000)
    values = RNG.standard_normal(20_000).astype(np.float32)
    one, other = (added("index_add", [x, indices, values], 0, t) for t in (H200, SMALL))
    assert one.tobytes() == other.tobytes()


def test_repeats_are_added_in_the_order_of_their_positions() -> None:
    big, small = np.float32(2**24), np.float32(1)
    indices = np.array([1, 0, 1, 0, 1])
    values = np.array([small, big, -big, small, big], np.float32)
    found = added("index_add", [np.zeros(2, np.float32), indices, values], 0)
    ordered = np.float32(0)
    for value in (small, -big, big):
        ordered += value
    np.testing.assert_array_equal(found, [big, ordered])


# ---- plans --------------------------------------------------------------------------------------


@given(st.integers(1, 10**9), st.integers(1, 10**5))
def test_levels_shrink_to_one_chunk(count: int, columns: int) -> None:
    levels = chunk_lengths(count, columns)
    for (have, length), (above, _) in pairwise(levels):
        assert 8 <= length <= 128
        assert above == 2 * -(-have // length) < have
    assert levels[0][0] == count and levels[-1][0] == levels[-1][1] <= 64


@pytest.mark.parametrize(
    ("count", "limit", "launches"),
    [(1, 9, 0), (5000, 1, 0), (4096, 2**40, 1), (4097, 256, 3), (4097, 257, 6), (10**8, 2**32, 12)],
)
@pytest.mark.parametrize("index", ["i32", "i64"])
def test_passes_of_a_sort(index: str, count: int, limit: int, launches: int) -> None:
    sorting = plan_sort(count, limit, index, 512, H200)
    assert len(sorting.launches) == launches
    size = entries_bytes(count, index)
    is_moved = launches // 3 % 2 == 1
    assert sorting.place == (512 + size if is_moved else 512)
    assert sorting.end >= 512 + size * (2 if launches > 1 else 1)
    for launch in sorting.launches:
        assert launch.grid[0] <= 132 * 4 and launch.spec.variant == index


def test_what_a_step_launches() -> None:
    x, values = np.zeros((7, 3), np.float32), np.ones((5, 3), np.float32)
    indices = np.array([0, 1, 2, 3, 4])
    start = ["elementwise_dense", "scatter_keys", "sort_small", "scatter_values"]
    step = step_of("index_add", [x, indices, values], Gather(0))
    assert families(step) == start and step.kernel == "scatter_values.f32_i32"
    mixed = step_of("index_add", [x, indices, values.astype(np.int32)], Gather(0))
    assert families(mixed) == [start[0], *start]
    nowhere = step_of("index_add", [x, indices[:0], values[:0]], Gather(0))
    assert families(nowhere) == start[:1] and nowhere.scratch_bytes == 0
    many = step_of("index_add", [x[0], np.zeros(1000, int), np.ones(1000, "f")], Gather(0))
    assert families(many) == [*start, "scatter_sums", "scatter_sums"]
    alone = step_of("index_add", [x[:1], indices * 0, values], Gather(0))
    assert families(alone) == [*start[:2], *start[3:]]


def test_values_whose_rows_lie_unevenly_are_copied() -> None:
    x, indices = np.zeros((6, 5), np.float32), RNG.integers(0, 6, (4, 5))
    even = np.ones((5, 4), np.float32).T
    assert families(step_of("scatter_add", [x, indices, even[:, ::-1]], Gather(0)))[1] != (
        "scatter_keys"
    )
    dense = np.ones((4, 5), np.float32)
    assert families(step_of("scatter_add", [x, indices, dense], Gather(0)))[1] == "scatter_keys"


@pytest.mark.parametrize("far", [0, 1, 2])
def test_numbers_beyond_31_bits_take_the_wide_kernels(far: int) -> None:
    arrays: list[Array] = [np.zeros((9, 5)), RNG.integers(0, 9, 7), RNG.standard_normal((7, 5))]
    arrays[far] = spread_out(arrays[far], 2**36)
    step = step_of("index_add", arrays, Gather(0))
    kernels = {launch.spec.id for launch in step.launches}
    index = "i32" if far == 0 else "i64"  # x is read by the copy alone
    assert {f"scatter_keys.{index}", f"scatter_values.f64_{index}"} <= kernels


def test_parameters_fit_at_every_rank() -> None:
    dims = (2,) * 12
    turned = tuple(range(11, -1, -1))
    x, indices = np.zeros(dims, np.float32), np.zeros(dims, np.int64).transpose(turned)
    for values in (np.ones(dims, np.float32), np.ones(dims, np.float32).transpose(turned)):
        step = step_of("scatter_add", [x, indices, values], Gather(5))
        assert all(parameter_bytes(launch) <= 4096 for launch in step.launches)


def parameter_bytes(launch: KernelLaunch) -> int:
    return sum(len(a.value) if isinstance(a.value, bytes) else 8 for a in launch.arguments)


# ---- reports ------------------------------------------------------------------------------------

BAD: list[tuple[str, list[Array], Gather, str]] = [
    (
        "index_add",
        [np.zeros((4, 3)), np.array([0, 3]), np.zeros((4, 2))],
        Gather(1),
        r"index_add: index 3 is outside axis 1 of extent 3; allowed are -3 to 2",
    ),
    (
        "scatter_add",
        [np.zeros(4), np.array([-5], np.int32), np.zeros(1)],
        Gather(0),
        r"scatter_add: index -5 is outside axis 0 of extent 4",
    ),
    (
        "index_add",
        [np.zeros((4, 0)), np.array([1, 4]), np.zeros((2, 0))],
        Gather(0),
        r"index_add: index 4 is outside axis 0",
    ),
    ("take", [np.zeros((4, 0)), np.array([[4]])], Gather(0), r"take: index 4 is outside axis 0"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case[3])
def test_bad_indices_are_reported(case: Any) -> None:
    op, arrays, params, message = case
    model = Model(step_of(op, arrays, params), arrays)
    with pytest.raises(IndexOutOfRange, match=message):
        raise reported(model.status)


def test_nothing_is_checked_where_there_is_no_index() -> None:
    arrays = [np.zeros((4, 0)), np.zeros(0, np.int64), np.zeros((0, 0))]
    assert step_of("index_add", arrays, Gather(0)).launches == ()
    assert step_of("take", arrays[:2], Gather(0)).launches == ()
