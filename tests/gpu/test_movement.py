"""Movement, creation and random on a device: tiles of every method, edges, many operands, bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from op_cases import makers_of, profile_of

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, DType

NAIVE, PERMUTE = profile_of("cuda_naive"), profile_of("cuda_permute")
CPU = profile_of("cpu_fallback")
RNG = np.random.default_rng(11)

PERMUTATIONS = [
    ((1,), (0,)),
    ((64, 128), (1, 0)),
    ((63, 129), (1, 0)),
    ((65, 31, 7), (2, 1, 0)),
    ((48, 28, 28, 4, 44), (4, 3, 2, 1, 0)),
    ((15, 15, 32, 5, 16), (3, 1, 0, 2, 4)),
    ((384, 64, 134), (1, 0, 2)),
    ((3, 224, 224), (1, 2, 0)),
    ((224, 224, 3), (2, 0, 1)),
    ((2,) * 14, tuple(range(13, -1, -1))),
    ((1031, 1009), (1, 0)),
]


def values(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 100, shape).astype(dtype.numpy)


def run(node: Any, profile: Any, backend_id: str) -> np.ndarray[Any, Any]:
    executable = sc.compile(node, profile)
    assert makers_of(executable) == [backend_id]
    found: np.ndarray[Any, Any] = executable.run().numpy()
    return found


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
@pytest.mark.parametrize(("shape", "axes"), PERMUTATIONS, ids=str)
def test_permutations(shape: tuple[int, ...], axes: tuple[int, ...], dtype: DType) -> None:
    array = values(shape, dtype)
    found = run(sc.copy(sc.permute_dims(sc.tensor(array), axes)), PERMUTE, "cuda_permute")
    np.testing.assert_array_equal(found, array.transpose(axes))


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
def test_views_that_vectors_do_not_fit(dtype: DType) -> None:
    array = values((65, 80), dtype)
    x = sc.tensor(array)
    views = {
        "rows": (x[1:], array[1:]),
        "columns": (sc.permute_dims(x[:, 3:], (1, 0)), array[:, 3:].T),
        "reversed": (sc.permute_dims(x[::-1, ::-2], (1, 0)), array[::-1, ::-2].T),
        "one row": (sc.broadcast_to(x[:1], (9, 80)), np.broadcast_to(array[:1], (9, 80))),
        "one column": (sc.broadcast_to(x[:, :1], (65, 9)), np.broadcast_to(array[:, :1], (65, 9))),
    }
    for what, (view, right) in views.items():
        found = run(sc.copy(view), PERMUTE, "cuda_permute")
        np.testing.assert_array_equal(found, right, err_msg=what)


@pytest.mark.sanitize
@pytest.mark.parametrize("target", REAL_DTYPES.values(), ids=str)
@pytest.mark.parametrize("source", REAL_DTYPES.values(), ids=str)
def test_casts_of_permuted_views(source: DType, target: DType) -> None:
    array = values((37, 5, 41), source)
    node = sc.cast(sc.permute_dims(sc.tensor(array), (2, 0, 1)), target)
    if source is target:
        return
    found = run(node, PERMUTE, "cuda_permute")
    np.testing.assert_array_equal(found, sc.compile(node, CPU).run().numpy())


@pytest.mark.parametrize("backend_id", ["cuda_naive", "cuda_permute"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joins(axis: int, backend_id: str) -> None:
    profile = profile_of(backend_id)
    shapes = [[6, 7, 8] for _ in range(5)]
    for shape, extent in zip(shapes, (3, 0, 1, 40, 2), strict=True):
        shape[axis] = extent
    arrays = [values(tuple(shape), sc.f32)[::-1] for shape in shapes]
    tensors = [sc.tensor(array) for array in arrays]
    found = run(sc.concat(tensors, axis=axis), profile, backend_id)
    np.testing.assert_array_equal(found, np.concatenate(arrays, axis))
    same = [values((6, 7, 8), sc.f16) for _ in range(3)]
    found = run(sc.stack([sc.tensor(a) for a in same], axis=axis), profile, backend_id)
    np.testing.assert_array_equal(found, np.stack(same, axis))


def test_thousands_of_operands() -> None:
    arrays = [values((3, 1 + k % 4), sc.i32) for k in range(2000)]
    found = run(sc.concat([sc.tensor(a) for a in arrays], axis=1), NAIVE, "cuda_naive")
    np.testing.assert_array_equal(found, np.concatenate(arrays, 1))


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", [sc.f16, sc.bf16, sc.f32, sc.f64], ids=str)
@pytest.mark.parametrize("count", [1, 3, 4, 1027, 300_001])
def test_uniform_bits_are_those_of_the_cpu(count: int, dtype: DType) -> None:
    def drawn(profile: Any) -> np.ndarray[Any, Any]:
        generator = sc.Generator(1234)
        node = sc.uniform((count,), -1.0, 3.0, dtype, generator)
        found: np.ndarray[Any, Any] = sc.compile(node, profile).run().numpy()
        return found

    here, there = drawn(NAIVE), drawn(CPU)
    np.testing.assert_array_equal(here.view(f"u{here.itemsize}"), there.view(f"u{here.itemsize}"))


@pytest.mark.sanitize
@pytest.mark.parametrize(
    ("dtype", "bound"), [(sc.f32, 3e38), (sc.bf16, 2.0**127), (sc.f64, 1.7e308)], ids=str
)
def test_uniform_bits_where_the_span_overflows(dtype: DType, bound: float) -> None:
    def drawn(profile: Any) -> np.ndarray[Any, Any]:
        node = sc.uniform((1027,), -bound, bound, dtype, sc.Generator(1234))
        found: np.ndarray[Any, Any] = sc.compile(node, profile).run().numpy()
        return found

    here, there = drawn(NAIVE), drawn(CPU)
    assert np.abs(there.astype(np.float64)).max() <= bound
    np.testing.assert_array_equal(here.view(f"u{here.itemsize}"), there.view(f"u{here.itemsize}"))


def test_edges_of_every_tile() -> None:
    """Extents around the tiles of every method."""
    for itemsize, dtype in ((1, sc.bool_), (2, sc.f16), (4, sc.f32), (8, sc.f64)):
        side = math.isqrt(32_768 // itemsize)
        for extent in (side - 1, side, side + 1, side + 4):
            array = values((extent, 2 * extent), dtype)
            node = sc.copy(sc.permute_dims(sc.tensor(array), (1, 0)))
            found = run(node, PERMUTE, "cuda_permute")
            np.testing.assert_array_equal(found, array.T)
