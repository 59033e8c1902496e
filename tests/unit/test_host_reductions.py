"""Reductions and running sums: every op x dtype x axes x layout, and sums that NumPy loses."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host_harness import ALL, FLOATS, layouts, line_of, run, sample

from softcuda.backends.host.tiles import tile_dims
from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.errors import ShapeError
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cumulative, Moment, Norm, Reduce
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

NAN, INF = math.nan, math.inf
NAMES = sorted(op.name for op in OPS.values() if op.kind is Kind.REDUCTION)


# Over the last axis of a dense array, where NumPy adds in pairs.
REFERENCE: dict[str, Callable[[Array], Any]] = {
    "sum": lambda x: x.sum(-1),
    "prod": lambda x: x.prod(-1),
    "min": lambda x: x.min(-1),
    "max": lambda x: x.max(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1, ddof=1),
    "std": lambda x: x.std(-1, ddof=1),
    "norm": lambda x: np.sqrt((x * x).sum(-1)),
    "logsumexp": lambda x: np.log(np.exp(x).sum(-1)),
    "any": lambda x: x.any(-1),
    "all": lambda x: x.all(-1),
    "argmin": lambda x: x.argmin(-1),
    "argmax": lambda x: x.argmax(-1),
}


def rows_of(array: Array, axes: Axes) -> Array:
    """Return [results, reduced elements], dense."""
    kept = [k for k in range(array.ndim) if k not in axes]
    rows = math.prod(array.shape[k] for k in kept)
    columns = math.prod(array.shape[k] for k in axes)
    return np.ascontiguousarray(array.transpose(*kept, *axes)).reshape(rows, columns)


def params_of(name: str, axes: Axes, keepdims: bool) -> Any:
    if name in ("var", "std"):
        return Moment(axes, keepdims, "1")
    if name == "norm":
        return Norm(axes, keepdims, "2.0")
    return Reduce(axes, keepdims)


def axes_of(rank: int) -> list[Axes]:
    return [a for n in range(rank + 1) for a in itertools.combinations(range(rank), n)]


def check(name: str, array: Array, axes: Axes, keepdims: bool) -> None:
    params = params_of(name, axes, keepdims)
    try:
        line, _ = line_of(name, [array], params)
    except ShapeError:
        assert not array.size
        assert name in ("min", "max", "argmin", "argmax")
        return
    floating = line.dtype.is_float or name.startswith("arg")
    wide = array.astype(np.float64) if floating else array
    if name in ("sum", "prod") and not line.dtype.is_float:
        wide = array.astype(np.int64)
    rows = rows_of(wide, axes)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        empty = not rows.size and name in ("min", "max", "argmin", "argmax")
        expected = np.zeros(line.dims) if empty else REFERENCE[name](rows).reshape(line.dims)
    scale = np.abs(rows).sum(-1).reshape(line.dims) + 1 if floating and name in SUMS else 0.0
    assert_close(run(name, array, params=params), expected, line.dtype, name, scale=scale)


SUMS = ("sum", "mean", "logsumexp")


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_layout(name: str, dtype: DType) -> None:
    for seed, array in enumerate(layouts(dtype)):
        for axes in axes_of(array.ndim):
            check(name, array, axes, keepdims=bool(seed % 2))


@pytest.mark.parametrize("dtype", [bool_, i32, f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_axes_longer_than_a_tile(name: str, dtype: DType) -> None:
    base = sample(dtype, (3, 70001), 2)
    if name == "prod" and dtype is not bool_:
        base = np.where(base != 0, 1, base[..., :1]).astype(dtype.numpy)
    for array in (base, np.ascontiguousarray(base.T), base[:, ::-1]):
        for axes in axes_of(2)[1:]:
            check(name, array, axes, keepdims=False)


def test_half_sums_count_past_2048() -> None:
    for count in (2048, 2049, 3000, 6000, 65504, 65520):
        total = run("sum", np.ones(count, np.float16), params=Reduce((0,), False))
        want = {2049: 2048.0, 65520: INF}.get(count, float(count))
        assert float(total) == want, count
    columns = run("sum", np.ones((6000, 115), np.float16), params=Reduce((0,), False))
    assert columns.tolist() == [6000.0] * 115
    assert float(run("mean", np.ones(70000, np.float16), params=Reduce((0,), False))) == 1.0
    many = np.ones(1000, bf16.numpy)
    assert float(run("sum", many, params=Reduce((0,), False))) == 1000.0


def test_tall_columns_have_the_right_mean() -> None:
    tall = np.broadcast_to(np.ones((1, 2), np.float32), (20_000_000, 2))
    assert run("mean", tall, params=Reduce((0,), False)).tolist() == [1.0, 1.0]
    pattern = np.add.outer(np.arange(1_000_000) % 7, [0, 1]) * 0.25 + 285
    dense = pattern.astype(np.float32)
    expected = pattern.mean(0)
    for array, axis in ((dense, 0), (np.ascontiguousarray(dense.T), 1), (dense.T, 1)):
        result = run("mean", array, params=Reduce((axis,), False))
        assert_close(result, expected, f32, "mean")
    assert_close(run("sum", dense, params=Reduce((0,), False)), pattern.sum(0), f32, "sum")


def test_integers_add_up_in_64_bits() -> None:
    big = np.full(10, 2**31 - 1, np.int32)
    assert int(run("sum", big, params=Reduce((0,), False))) == 10 * (2**31 - 1)
    flags = np.ones((300, 2), bool)
    assert run("sum", flags, params=Reduce((0,), False)).tolist() == [300, 300]
    assert int(run("prod", np.full(39, 3, np.int32), params=Reduce((0,), False))) == 3**39


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_of_infinities(dtype: DType) -> None:
    low, high = np.full(3, -INF).astype(dtype.numpy), np.full(3, INF).astype(dtype.numpy)
    whole = Reduce((0,), False)
    for array in (low, low[:1]):
        assert int(run("argmax", array, params=whole)) == 0
        assert float(run("max", array, params=whole)) == -INF
    for array in (high, high[:1]):
        assert int(run("argmin", array, params=whole)) == 0
        assert float(run("min", array, params=whole)) == INF
    top = np.array([6e4], dtype.numpy)
    assert int(run("argmin", top, params=whole)) == 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("values", [[1, NAN], [NAN, 1], [[1, NAN, 3], [4, 5, 6]], [NAN, NAN]])
def test_nan_reaches_the_result(dtype: DType, values: Any) -> None:
    array = np.array(values, dtype.numpy)
    axes = tuple(range(array.ndim))
    first = int(np.flatnonzero(np.isnan(array.astype(float)))[0])
    for name in ("min", "max", "sum", "prod", "mean", "var", "std", "norm", "logsumexp"):
        assert np.isnan(float(run(name, array, params=params_of(name, axes, False)))), name
    for name in ("argmin", "argmax"):
        assert int(run(name, array, params=Reduce(axes, False))) == first
    rows = run("max", np.array([[1, NAN, 3], [4, 5, 6]], dtype.numpy), params=Reduce((1,), False))
    assert np.isnan(float(rows[0]))
    assert float(rows[1]) == 6


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_keep_the_sign_of_zero(dtype: DType) -> None:
    a = -np.arange(16).reshape(4, 4).astype(dtype.numpy)
    result = run("max", a, params=Reduce((1,), False)).astype(float)
    assert result.tolist() == [0.0, -4.0, -8.0, -12.0]
    for rows in ([[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [0.0, 0.0]],):
        zeros = np.array(rows, dtype.numpy)
        wide = np.repeat(zeros, 40, axis=1)
        for array, axis in ((zeros, 1), (wide, 1), (np.ascontiguousarray(wide.T), 0)):
            least = run("min", array, params=Reduce((axis,), False)).astype(float)
            greatest = run("max", array, params=Reduce((axis,), False)).astype(float)
            assert np.signbit(least).tolist() == [True, True, True, False]
            assert np.signbit(greatest).tolist() == [False, False, True, False]
    far = np.zeros((1, 50000), dtype.numpy)
    far[0, -1] = -0.0
    assert np.signbit(run("min", far, params=Reduce((1,), False)).astype(float)).all()


def test_the_first_of_equals_wins_across_tiles() -> None:
    array = np.zeros((4, 400000), np.float32)
    array[:, [7, 320000, 399999]] = 5
    array[1, 360000] = NAN
    array[2, [264000, 384000]] = NAN
    first = [7, 360000, 264000, 7]
    assert run("argmax", array, params=Reduce((1,), False)).tolist() == first
    turned = np.ascontiguousarray(array.T)
    assert run("argmax", turned, params=Reduce((0,), False)).tolist() == first
    assert int(run("argmax", turned, params=Reduce((0, 1), False))) == 264000 * 4 + 2
    deep = turned.reshape(400, 1000, 4).transpose(1, 2, 0)
    expected = np.argmax(np.ascontiguousarray(deep.transpose(1, 0, 2)).reshape(4, -1), 1)
    assert run("argmax", deep, params=Reduce((0, 2), False)).tolist() == expected.tolist()
    assert int(run("argmin", array[:1], params=Reduce((0, 1), True))[0, 0]) == 0


def test_nothing_has_these_values() -> None:
    none = np.empty((0, 3), np.float32)
    want = {"sum": 0.0, "prod": 1.0, "mean": NAN, "norm": 0.0, "logsumexp": -INF, "var": NAN}
    for name, value in want.items():
        result = run(name, none, params=params_of(name, (0,), False))
        assert np.array_equal(result, np.full(3, value, np.float32), equal_nan=True), name
    assert run("any", none, params=Reduce((0,), False)).tolist() == [False] * 3
    assert run("all", none, params=Reduce((0,), False)).tolist() == [True] * 3


def test_corrections_of_the_variance() -> None:
    array = np.array([1.0, 2.0, 4.0], np.float64)
    for correction in ("0", "1", "0.5"):
        result = run("var", array, params=Moment((0,), False, correction))
        expected = ((array - array.mean()) ** 2).sum() / (3 - float(correction))
        assert_close(result, np.asarray(expected), f64, "var")
    assert float(run("var", array, params=Moment((0,), False, "3"))) == INF
    assert np.isnan(run("var", array[:1], params=Moment((0,), False, "1")))
    shifted = (array + 1e4).astype(np.float32)
    assert_close(
        run("var", shifted, params=Moment((0,), False, "0")),
        np.asarray(np.var(shifted.astype(float))),
        f32,
        "var",
    )


@pytest.mark.parametrize("order", ["inf", "-inf", "0.0", "1.0", "2.0", "3.0", "0.5", "-1.0"])
def test_orders_of_the_norm(order: str) -> None:
    array = sample(f32, (6, 5), 3) + np.float32(0.25)
    expected = np.linalg.norm(array.astype(float), float(order), axis=1)
    assert_close(run("norm", array, params=Norm((1,), False, order)), expected, f32, "norm")


def test_large_exponents_do_not_overflow() -> None:
    array = np.array([[1000.0, 1000.0], [-1000.0, -1000.0], [INF, 0.0], [-INF, -INF]], np.float32)
    result = run("logsumexp", array, params=Reduce((1,), False))
    expected = np.array([1000 + math.log(2), -1000 + math.log(2), INF, -INF])
    assert_close(result, expected, f32, "logsumexp")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_cumsum(dtype: DType) -> None:
    for array in [*layouts(dtype), sample(dtype, (2, 40000)), sample(dtype, (40000, 2))]:
        for axis in range(array.ndim):
            result = run("cumsum", array, params=Cumulative(axis))
            out = dtype if dtype.is_float else i64
            wide = array.astype(np.float64 if dtype.is_float else np.int64)
            scale = np.abs(wide).cumsum(axis) if dtype.is_float else 0.0
            assert_close(result, wide.cumsum(axis), out, "cumsum", scale=scale)
    ones = run("cumsum", np.ones(4100, np.float16), params=Cumulative(0))
    assert float(ones[-1]) == 4100.0


def test_rank_64() -> None:
    array = sample(f32, (2, *(1,) * 61, 3, 2))
    for name in NAMES:
        check(name, array, (0, 5, 63), keepdims=True)
        check(name, array, (62,), keepdims=False)


@pytest.mark.parametrize("strides", [(12, 4, 1), (1, 5, 15), (0, 0, 1), (-12, 4, -1)])
def test_tiles_stay_below_their_limit(strides: tuple[int, ...]) -> None:
    for limit in (1, 7, 16, 60):
        tile = tile_dims((5, 3, 4), strides, limit)
        assert math.prod(tile) <= limit
        assert all(1 <= t <= d for t, d in zip(tile, (5, 3, 4), strict=True))
