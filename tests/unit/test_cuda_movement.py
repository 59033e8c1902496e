"""Launches of movement, creation and random kernels: tiles, structs, grids; no device."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tile_model import moved

from softcuda.backends import cuda_permute
from softcuda.backends.cuda.naive_creation import prepare_creation
from softcuda.backends.cuda.naive_movement import prepare_movement
from softcuda.backends.cuda.naive_random import prepare_random
from softcuda.backends.cuda.permute import Side, copy_launch
from softcuda.backends.cuda.walks import blocks_for, element_of, pack_walk
from softcuda.backends.launches import Argument, KernelLaunch, packed, read
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import DType, bf16, bool_, complex64, complex128, f16, f32, f64, i32, i64
from softcuda.errors import BackendError
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Arange, Cast, Concat, Full, Gather, OneHot, Pad, Random, Triangle
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
PREPARERS = {
    Kind.MOVEMENT: prepare_movement,
    Kind.CREATION: prepare_creation,
    Kind.RANDOM: prepare_random,
}


def unit_of(
    op: str, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType], params: Any
) -> Unit:
    lines = [Line(OPS["none"], (), s, d, ()) for s, d in zip(shapes, dtypes, strict=True)]
    row = OPS[op]
    dims, dtype = row.shape_rule(lines, params), row.dtype_rule(lines, params)
    operands = tuple(
        Operand(n, 0, line.dims, contiguous_strides(line.dims), line.dtype)
        for n, line in enumerate(lines)
    )
    result = Operand(len(lines), 0, dims, contiguous_strides(dims), dtype)
    chain = (Micro(row, tuple(range(len(lines))), dims, dtype, params),)
    return Unit(chain, operands, result, (len(lines),))


def step_of(
    op: str, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType], params: Any
) -> Step:
    (step,) = PREPARERS[OPS[op].kind](unit_of(op, shapes, dtypes, params), H200)
    return step


def parameter_bytes(launch: KernelLaunch) -> int:
    sizes = {"i32": 4, "f32": 4}
    return sum(
        len(a.value) if isinstance(a.value, bytes) else sizes.get(a.kind, 8)
        for a in launch.arguments
    )


# ---- permute ------------------------------------------------------------------------------------


def check_copy(view: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> KernelLaunch:
    """Launch on the model: every element is written once, with the right value."""
    size = view.itemsize
    first = (view.__array_interface__["data"][0] - source.__array_interface__["data"][0]) // size
    strides = tuple(s // size for s in view.strides)
    made = Side(0, contiguous_strides(view.shape))
    launch = copy_launch(view.shape, read(0), Side(first, strides), made, size, H200)
    out = np.zeros(view.size, np.int64)
    moved(launch, source, first, out)
    np.testing.assert_array_equal(out, view.reshape(-1).astype(np.int64))
    assert parameter_bytes(launch) <= 4096
    return launch


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], str]] = [
    ((100, 64), (1, 0), "permute_tile.u32_4x4x"),
    ((97, 63), (1, 0), "permute_tile.u32_1x1x"),
    ((6, 50, 64), (1, 0, 2), "permute_runs.u128"),
    ((9, 7, 5, 48), (2, 1, 0, 3), "permute_runs.u128"),
    ((50, 62, 4), (1, 0, 2), "permute_tile.u128"),
    ((6, 50, 75), (1, 0, 2), "permute_tile.u32_1x1x"),
    ((63, 64), (1, 0), "permute_tile.u32_1x4x"),
    ((2,) * 12, tuple(range(11, -1, -1)), "permute_tile.u32_1x1x"),
    ((2, 300, 3), (0, 2, 1), "permute_tile.u32_4x1x"),
    ((15, 5, 8, 15, 4), (1, 4, 0, 3, 2), "permute_tile.u32_4x4x"),
    ((33, 1, 65), (2, 1, 0), "permute_tile.u32_1x1x"),
    ((1, 1), (1, 0), "permute_tile.u32_1x1x"),
]


@pytest.mark.parametrize(("shape", "axes", "kernel"), SHAPES, ids=str)
def test_a_permutation_moves_every_element_once(
    shape: tuple[int, ...], axes: tuple[int, ...], kernel: str
) -> None:
    source = np.arange(1, numel(shape) + 1, dtype=np.int32)
    launch = check_copy(source.reshape(shape).transpose(axes), source)
    assert launch.spec.id.startswith(kernel)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_views_of_every_kind(dtype: Any) -> None:
    source = np.arange(1, 48 * 36 + 1).astype(dtype)
    matrix = source.reshape(36, 48)
    views = (
        matrix.T,
        matrix[::-1].T,
        matrix[:, ::-2],
        matrix[4:, 16:].T,
        matrix[:, 1:].T,
        matrix.reshape(3, 12, 48).transpose(1, 0, 2),
        np.broadcast_to(matrix[:, :1].T, (5, 36)),
        np.broadcast_to(matrix[:1, 5:6], (7, 3)),
        matrix[:1, 5:6].reshape(()),
    )
    for view in views:
        check_copy(view, source)


@given(st.data())
def test_any_permutation(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 6))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank)))
    axes = data.draw(st.permutations(range(rank)))
    dtype = data.draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
    source = np.arange(1, numel(shape) + 1).astype(dtype)
    check_copy(source.reshape(shape).transpose(axes), source)


def test_offsets_inside_a_tile_beyond_32_bits() -> None:
    dims, strides = (1 << 20, 8), (1, 1 << 33)
    made = Side(0, contiguous_strides(dims))
    launch = copy_launch(dims, read(0), Side(0, strides), made, 4, H200)
    assert launch.spec.variant.endswith("i64")


def test_alignment_decides_on_vectors() -> None:
    dims, strides = (1024, 1024), (1, 1024)
    made = Side(0, contiguous_strides(dims))
    for offset, block in ((0, "4x4"), (4, "4x4"), (1, "4x1"), (2, "4x1")):
        launch = copy_launch(dims, read(0), Side(offset, strides), made, 4, H200)
        assert f"u32_{block}x" in launch.spec.id


@pytest.mark.parametrize("op", ["concat", "stack"])
def test_joins_are_blocks_of_the_result(op: str) -> None:
    shapes = [(3, 4, 5)] * 3
    unit = unit_of(op, shapes, [f32] * 3, Concat(1))
    (step,) = cuda_permute.prepare(unit, H200)
    out = np.zeros(numel(unit.result.dims), np.int64)
    arrays = [np.arange(60, dtype=np.int32).reshape(3, 4, 5) + 100 * k for k in range(1, 4)]
    for launch in step.launches:
        number = launch.arguments[1].value
        assert isinstance(number, int)
        moved(launch, arrays[number].reshape(-1), 0, out)
    joined = np.concatenate(arrays, 1) if op == "concat" else np.stack(arrays, 1)
    np.testing.assert_array_equal(out, joined.reshape(-1))


def test_joins_convert_what_is_of_another_dtype() -> None:
    """The model moves integers; a cast to another width of them changes no value."""
    unit = unit_of("concat", [(5, 7), (5, 3)], [i32, i64], Concat(1))
    turned = unit.operands[0]._replace(strides=(1, 5))
    (step,) = cuda_permute.prepare(unit._replace(operands=(turned, unit.operands[1])), H200)
    out = np.zeros(50, np.int64)
    first, second = np.arange(35, dtype=np.int32), np.arange(40, 55, dtype=np.int64)
    moved(step.launches[0], first, 0, out)
    moved(step.launches[1], second, 0, out)
    assert [launch.spec.family for launch in step.launches] == [
        "elementwise_turned",
        "permute_tile",
    ]
    right = np.concatenate([first.reshape(7, 5).T, second.reshape(5, 3)], 1)
    np.testing.assert_array_equal(out.reshape(5, 10), right)


@pytest.mark.parametrize("shape", [(96, 128), (97, 63), (96, 63), (6, 50, 24), (2,) * 11])
def test_casts_of_permuted_views(shape: tuple[int, ...]) -> None:
    source = np.arange(numel(shape), dtype=np.int32)
    view = source.reshape(shape).transpose(*range(len(shape))[::-1])
    unit = unit_of("cast", [view.shape], [i32], Cast(i64))
    strides = tuple(stride // 4 for stride in view.strides)
    operand = unit.operands[0]._replace(strides=strides)
    (step,) = cuda_permute.prepare(unit._replace(operands=(operand,)), H200)
    (launch,) = step.launches
    out = np.zeros(view.size, np.int64)
    moved(launch, source, 0, out)
    np.testing.assert_array_equal(out.reshape(view.shape), view)
    assert launch.spec.family == "elementwise_turned" and parameter_bytes(launch) <= 4096


def test_what_permute_refuses() -> None:
    lines = [Line(OPS["none"], (), (2,), f32, ())] * 17
    joined = Line(OPS["concat"], tuple(range(17)), (34,), f32, Concat(0))
    assert "at most 16" in cuda_permute.supports(joined, lines, H200).reason
    added = Line(OPS["add"], (0, 1), (2,), f32, ())
    assert "not add" in cuda_permute.supports(added, lines[:2], H200).reason


# ---- one thread an output -----------------------------------------------------------------------

EMPTY: list[tuple[str, list[tuple[int, ...]], list[DType], Any]] = [
    ("concat", [(0, 3), (0, 3)], [f32, f32], Concat(0)),
    ("stack", [(0, 3)], [f32], Concat(0)),
    ("pad", [(0, 3)], [f32], Pad((0, 1), (0, 1), "0.0")),
    ("tril", [(0, 3)], [f32], Triangle(0)),
    ("take", [(5, 3), (0,)], [f32, i64], Gather(0)),
    ("one_hot", [(0,)], [i32], OneHot(4, f32)),
    ("full", [], [], Full((2, 0), f32, "1.0")),
    ("uniform", [(2,)], [i64], Random((0,), f32, "0.0", "1.0", 0)),
]


@pytest.mark.parametrize("case", EMPTY, ids=lambda case: case[0])
def test_no_elements_no_launches(case: Any) -> None:
    assert step_of(*case).launches == ()


def test_many_operands_take_several_launches() -> None:
    shapes: list[tuple[int, ...]] = [(2, 1 + k % 3) for k in range(1000)]
    launches = step_of("concat", shapes, [f32] * 1000, Concat(1)).launches
    assert len(launches) == math.ceil(1000 / 16)
    assert all(parameter_bytes(launch) <= 4096 for launch in launches)
    covered = [launch.arguments[18].value for launch in launches]
    assert sum(int(count) for count in covered if not isinstance(count, bytes)) == sum(
        numel(s) for s in shapes
    )


def test_parameters_fit_at_every_rank() -> None:
    dims = (2,) * 30 + (1,) * 34
    steps = [
        step_of("concat", [dims] * 20, [f16] * 20, Concat(3)),
        step_of("pad", [dims], [f16], Pad((1,) * 64, (0,) * 64, "0.0")),
        step_of("take", [(3,) * 32, (2,) * 32], [f16, i64], Gather(5)),
    ]
    assert all(parameter_bytes(x) <= 4096 for step in steps for x in step.launches)


def test_mixed_dtypes_are_converted_in_the_join() -> None:
    step = step_of("stack", [(3,), (3,)], [i32, f32], Concat(0))
    assert step.kernel == "join_mixed.f32_i32"
    assert step_of("stack", [(3,), (3,)], [f32, f32], Concat(0)).kernel == "join.u32_i32"


def test_large_results_take_the_wide_index() -> None:
    huge = (3, 1 << 30)
    assert step_of("tril", [huge], [f32], Triangle(0)).kernel.endswith("i64")
    assert step_of("tril", [(3, 1 << 20)], [f32], Triangle(0)).kernel.endswith("i32")
    assert step_of("concat", [huge, huge], [bool_, bool_], Concat(0)).kernel.endswith("i64")


def test_whole_numbers_stay_whole() -> None:
    assert step_of("arange", [], [], Arange("0", "3", 5, i64)).kernel == "arange.i64_whole"
    assert step_of("arange", [], [], Arange("0.5", "3", 5, i64)).kernel == "arange.i64"
    assert step_of("arange", [], [], Arange("0", "3", 5, f32)).kernel == "arange.f32"


@pytest.mark.parametrize(
    ("value", "dtype", "carried"),
    [
        (-0.0, f64, Argument("i64", -(1 << 63))),
        (1, bf16, Argument("i64", 0x3F80)),
        (1 - 2j, complex64, Argument("i64", 0x3F800000 - (0x40000000 << 32))),
        (1 - 2j, complex128, packed(struct.pack("<dd", 1, -2))),
    ],
)
def test_numbers_as_bits(value: complex, dtype: DType, carried: Argument) -> None:
    assert element_of(value, dtype) == carried


def test_a_walk_is_packed_innermost_first() -> None:
    data = pack_walk((2, 3, 4), [(12, 4, 1)], True)
    assert struct.unpack_from("<3q", data) == (4, 3, 2)
    assert struct.unpack_from("<3q", data, 512) == (1, 4, 12)
    assert struct.unpack_from("<q", data, 1024) == (3,)


def test_grids_are_bounded() -> None:
    assert blocks_for(1, 1024, H200) == 1
    assert blocks_for(10**15, 1024, H200) == 132 * 32
    assert blocks_for(10**15, 1024, Target("cuda", "sm_90a")) == 128 * 32


def test_other_ops_are_refused() -> None:
    unit = unit_of("copy", [(2,)], [f32], ())
    for prepare in PREPARERS.values():
        with pytest.raises(BackendError, match="copy"):
            prepare(unit, H200)
