"""Reductions, running sums and rows on the device, against float64 on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from chain_cases import array_of, same_bits
from reduce_cases import FAST, FLOATS, NAIVE, computed, numbers, wide
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, DType, f16, f32, f64

Array = np.ndarray[Any, Any]

# Tile edges of rows, short rows, columns and parts; axes that lie in the middle and apart.
SHAPES = [
    *(((n,), (0,)) for n in (1, 3, 4, 127, 1024, 1025, 65537, 3_000_017)),
    *(((5, n), (1,)) for n in (1, 7, 16, 31, 128, 1031, 4096, 8193, 100_000)),
    *(((n, 5), (0,)) for n in (1, 8, 33, 4097, 100_003)),
    *(((4099, n), (0,)) for n in (1, 2, 3, 4, 36, 127, 128, 516)),
    *(((20_000, n), (1,)) for n in (2, 4, 16, 20, 60, 64, 128)),
    ((3, 2, 4096), (0, 2)),
    ((300, 3, 512), (0, 2)),
    ((7, 33, 65), (1,)),
    ((7, 33, 65), (0, 2)),
    ((40, 3, 17, 12), (0, 2)),
    ((40, 3, 17, 12), (1, 3)),
    ((2,) * 14, tuple(range(0, 14, 2))),
    ((300, 1, 40), (1,)),
    ((64, 1000), (0, 1)),
]
SANITIZED = SHAPES[3:5] + SHAPES[11:14] + SHAPES[24:28] + SHAPES[-6:]


def sanitized(shapes: list[Any]) -> list[Any]:
    return [
        pytest.param(
            *shape, marks=pytest.mark.sanitize if shape in SANITIZED else (), id=str(shape)
        )
        for shape in shapes
    ]


SUMS = {
    "sum": (sc.sum, np.sum, lambda x, axes: np.sum(np.abs(x), axes)),
    "mean": (sc.mean, np.mean, lambda x, axes: np.mean(np.abs(x), axes)),
    "var": (sc.var, np.var, lambda x, axes: np.mean(x * x, axes)),
    "norm": (
        lambda x, axes: sc.norm(x, 2, axes),
        lambda x, axes: np.sqrt(np.sum(x * x, axes)),
        lambda x, axes: 0.0,
    ),
    "logsumexp": (
        sc.logsumexp,
        lambda x, axes: np.log(np.sum(np.exp(x), axes)),
        lambda x, axes: np.maximum(np.max(np.abs(x), axes), 1.0),
    ),
}


@pytest.mark.parametrize(("dims", "axes"), sanitized(SHAPES))
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_every_shape(name: str, dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    function, right, magnitude = SUMS[name]
    for dtype in FLOATS if math.prod(dims) < 200_000 else (f16, f32):
        x = numbers(dims, dtype)
        terms = math.prod(dims[axis] for axis in axes)
        exact = x.astype(np.longdouble)  # float64 along axis 0 is no better than what is tested
        expected = np.asarray(right(exact, axes), np.float64)
        scale = np.asarray(magnitude(exact, axes), np.float64)
        found = computed(function(sc.tensor(x), axes))
        assert_close(found, expected, dtype, name, k_extent=max(terms, 2), scale=scale)


@pytest.mark.parametrize(("dims", "axes"), sanitized(SHAPES))
def test_exact_ones_of_every_shape(dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for dtype in REAL_DTYPES.values():
        x = numbers(dims, dtype, 1)
        t = sc.tensor(x)
        assert np.array_equal(computed(sc.max(t, axes)), np.max(x, axes))
        assert np.array_equal(computed(sc.min(t, axes)), np.min(x, axes))
        assert np.array_equal(computed(sc.any(t, axes)), np.any(x != 0, axes))
        assert np.array_equal(computed(sc.all(t, axes)), np.all(x != 0, axes))
        flat = np.moveaxis(x, axes, range(-len(axes), 0))
        rows = flat.reshape(*flat.shape[: x.ndim - len(axes)], -1)
        if len(axes) == 1:
            assert np.array_equal(computed(sc.argmax(t, axes[0])), np.argmax(rows, -1))
            assert np.array_equal(computed(sc.argmin(t, axes[0])), np.argmin(rows, -1))
        if not dtype.is_float:
            assert np.array_equal(computed(sc.sum(t, axes)), np.sum(x, axes, dtype=np.int64))


@pytest.mark.sanitize
@pytest.mark.parametrize("dims", [(4096,), (5, 2048), (70_000, 16), (300, 64)], ids=str)
def test_operands_that_begin_between_vectors(dims: tuple[int, ...]) -> None:
    """Extents and strides are those of whole vectors; the pointer is not."""
    count = math.prod(dims)
    for dtype in (f16, f32, f64):
        flat = numbers((count + 1,), dtype)
        x, t = flat[1:].reshape(dims), sc.reshape(sc.tensor(flat)[1:], dims)
        for axis in range(len(dims)):
            found = computed(sc.sum(t, axis))
            expected, scale = wide(x).sum(axis), np.abs(wide(x)).sum(axis)
            assert_close(found, expected, dtype, "sum", k_extent=dims[axis], scale=scale)
            assert np.array_equal(computed(sc.max(t, axis)), np.max(x, axis))
            assert np.array_equal(computed(sc.argmax(t, axis)), np.argmax(x, axis))
            sums = computed(sc.cumsum(t, axis))
            exact, size = np.cumsum(wide(x), axis), np.cumsum(np.abs(wide(x)), axis)
            assert_close(sums, exact, dtype, "cumsum", k_extent=dims[axis], scale=size)


@pytest.mark.sanitize
@pytest.mark.parametrize("layout", [1, 2, 3])
@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
def test_layouts(dtype: DType, layout: int) -> None:
    """Transposed, reversed and stepping operands, with NaN and infinities among them."""
    x = array_of(np.random.default_rng(layout), (130, 67), dtype, layout)
    for axis in (0, 1, None):
        for function in (sc.sum, sc.max, sc.min, sc.argmax, sc.argmin, sc.any, sc.logsumexp):
            node = function(sc.asarray(x), axis)
            found, reference = computed(node), computed(node, NAIVE)
            if found.dtype.kind in "bi" or function in (sc.max, sc.min):
                assert same_bits(found, reference), function.__name__
                continue
            finite = np.where(np.isfinite(wide(x)), np.abs(wide(x)), 0)
            scale = np.sum(finite, axis) + 2 * np.abs(
                np.nan_to_num(wide(reference), posinf=0, neginf=0)
            )
            assert_close(found, wide(reference), node.dtype, "sum", k_extent=x.size, scale=scale)


def test_odd_addresses() -> None:
    base = sc.tensor(numbers((4, 1030), f32))
    inside = sc.maximum(base, base)
    for cut in (slice(1, None), slice(3, 1027), slice(4, 1028), slice(5, 8)):
        right = np.sum(wide(base.numpy())[:, cut], 1)
        assert_close(
            computed(sc.sum(inside[:, cut], 1)), right, f32, "sum", k_extent=1030, scale=2e3
        )


@pytest.mark.sanitize
def test_nan_and_signed_zeros() -> None:
    x = np.zeros((3, 4000), np.float32)
    x[0, 17] = -0.0
    x[1, 3001] = math.nan
    x[2] = -0.0
    t = sc.tensor(x)
    assert np.array_equal(np.signbit(computed(sc.min(t, 1)))[[0, 2]], [True, True])
    assert np.array_equal(np.signbit(computed(sc.max(t, 1)))[[0, 2]], [False, True])
    assert np.isnan(computed(sc.max(t, 1))[1])
    assert np.array_equal(computed(sc.argmax(t, 1)), [0, 3001, 0])
    assert np.array_equal(computed(sc.argmin(t, 1)), [0, 3001, 0])
    assert np.array_equal(np.isnan(computed(sc.sum(t, 1))), [False, True, False])


def test_values_that_f32_cannot_add() -> None:
    big = sc.tensor(np.full((3, 5000), 3e38, np.float32))
    assert_close(computed(sc.mean(big, 1)), np.full(3, np.float32(3e38), float), f32, "mean")
    assert_close(computed(sc.std(big * 1e-3, 1)), np.zeros(3), f32, "std", scale=1e30)
    small = sc.tensor(np.full((3, 4), 1e-30, np.float32))
    assert_close(computed(sc.norm(small, 2, 1)), np.full(3, 2e-30), f32, "norm", k_extent=4)


def test_sums_are_rounded_once() -> None:
    ones = sc.tensor(np.ones(70_000, np.float16))
    assert computed(sc.sum(ones[:65_520])) == np.inf
    assert computed(sc.sum(ones[:2049])) == 2048
    assert computed(sc.sum(sc.ones(2**25 + 2, f32))) == 2**25 + 2
    assert computed(sc.mean(sc.ones(100_000_000, f32))) == 1


def test_the_same_bits_every_run() -> None:
    x = sc.input((1 << 22,), f32, "x")
    executable = sc.compile([sc.sum(x), sc.var(x), sc.logsumexp(x), sc.cumsum(x)], FAST)
    value = np.random.default_rng(3).standard_normal(1 << 22).astype(np.float32)
    first = [out.numpy() for out in executable.run(x=value)]
    for _ in range(5):
        for one, other in zip(first, executable.run(x=value), strict=True):
            assert same_bits(one, other.numpy())


@pytest.mark.sanitize
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("dims", [(513, 260), (260, 513), (64, 16)], ids=str)
def test_ops_before_and_behind(dims: tuple[int, int], axes: tuple[int, ...]) -> None:
    x, row = numbers(dims, f16, 1), numbers(dims[1:], f32, 2)
    tail = numbers((dims[0], 1) if axes == (1,) else (1, 1), f32, 3)
    node = sc.sum(sc.abs(sc.tensor(x) * sc.tensor(row) - 0.5), axes, True) * 2 + sc.tensor(tail)
    terms = np.abs(wide(x) * wide(row) - 0.5)
    right = np.sum(terms, axes, keepdims=True) * 2 + wide(tail)
    executable = sc.compile(node, FAST)
    assert len([s for s in executable.program.steps if s.backend_id == "cuda_reduce"]) == 1
    scale = np.sum(terms, axes, keepdims=True) * 2
    found = executable.run().numpy()
    assert_close(found, right, f32, "sum", k_extent=max(dims), scale=scale)
