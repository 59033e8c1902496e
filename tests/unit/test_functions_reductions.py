"""Reductions against NumPy: axes, keepdims, dtypes, empty axes, NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special
from tolerance import assert_close

import softcuda as sc
from softcuda import errors

A = np.random.default_rng(0).integers(-8, 9, (2, 3, 4)) / 4.0
AXES: tuple[Any, ...] = (None, 0, -1, (0, 2), (1,), (2, 0), ())
FUNCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "any": np.any,
    "all": np.all,
    "logsumexp": special.logsumexp,
    "norm": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    x = sc.tensor(A)
    found = getattr(sc, name)(x, axis=axis, keepdims=keepdims)
    expected = FUNCTIONS[name](A, axis=axis, keepdims=keepdims)
    assert_close(found.numpy(), expected, found.dtype, name, k_extent=24, scale=100.0)
    method = getattr(x, name)(axis=axis, keepdims=keepdims)
    assert (method.op, method.params, method.inputs) == (found.op, found.params, (x,))


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_positions(name: str, axis: Any) -> None:
    found = getattr(sc, name)(A, axis)
    assert found.dtype is sc.i64
    np.testing.assert_array_equal(found.numpy(), getattr(np, name)(A, axis))


def test_positions_over_several_axes() -> None:
    found = sc.argmax(A, (0, 2))
    expected = np.moveaxis(A, 1, 0).reshape(3, 8).argmax(1)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_dtypes_of_results() -> None:
    whole = sc.tensor(np.arange(4, dtype=np.int32))
    for name in ("sum", "prod", "cumsum"):
        assert getattr(sc, name)(whole).dtype is sc.i64
        assert getattr(sc, name)(sc.tensor([True, True])).dtype is sc.i64
        assert getattr(sc, name)(sc.ones(2, sc.f16)).dtype is sc.f16
    for name in ("mean", "var", "std", "norm", "logsumexp"):
        assert getattr(sc, name)(whole).dtype is sc.f32
        assert getattr(sc, name)(sc.ones(2, sc.f64)).dtype is sc.f64
    assert sc.max(whole).dtype is sc.i32
    assert sc.any(whole).dtype is sc.bool_


def test_reductions_of_nothing() -> None:
    x = sc.zeros((0, 2))
    assert sc.sum(x, 0).tolist() == [0, 0]
    assert sc.prod(x, 0).tolist() == [1, 1]
    assert all(map(math.isnan, sc.mean(x, 0).tolist()))
    assert all(map(math.isnan, sc.var(x, 0).tolist()))
    assert sc.norm(x).item() == 0
    assert sc.logsumexp(x).item() == -math.inf
    assert (sc.any(x).item(), sc.all(x).item()) == (False, True)
    assert sc.sum(x, 1).shape == (0,)
    for name in ("min", "max", "argmin", "argmax"):
        with pytest.raises(errors.ShapeError, match=f"{name} of nothing"):
            getattr(sc, name)(x, 0)
        assert getattr(sc, name)(x, 1).tolist() == []


def test_variance_with_a_correction() -> None:
    for correction in (0, 1, 0.5):
        found = sc.var(A, 1, correction=correction)
        assert_close(found.numpy(), np.var(A, 1, ddof=correction), sc.f64, "var", k_extent=3)
    assert sc.var([1.0, 2.0], correction=2).item() == math.inf
    assert math.isnan(sc.std([1.0], correction=1).item())
    with pytest.raises(errors.ArgumentTypeError, match="correction"):
        sc.var(A, correction="1")  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="inf"):
        sc.var(A, correction=math.inf)


@pytest.mark.parametrize("order", [2, 1, 3, 0.5, 0, math.inf, -math.inf, -1])
def test_norms(order: float) -> None:
    a = np.array([[3.0, -4.0, 1.0], [2.0, 5.0, -2.0]])
    found = sc.norm(a, order, 1)
    assert_close(found.numpy(), np.linalg.norm(a, order, 1), sc.f64, "norm", k_extent=3)


def test_norm_of_several_axes_is_that_of_one_vector() -> None:
    assert sc.norm([[3.0, 0.0], [0.0, 4.0]], 1).item() == 7
    assert sc.norm([3.0, 4.0], None).item() == 5
    for order in ("fro", True, None if False else "nuc"):
        with pytest.raises(errors.ArgumentTypeError, match="ord"):
            sc.norm([1.0], order)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="nan"):
        sc.norm([1.0], math.nan)


def test_cumsum() -> None:
    a = np.arange(6).reshape(2, 3)
    for axis in (None, 0, 1, -1):
        np.testing.assert_array_equal(sc.cumsum(a, axis).numpy(), np.cumsum(a, axis))
    assert sc.cumsum(sc.zeros((0,))).tolist() == []


@pytest.mark.parametrize(
    ("axis", "error"),
    [
        (3, errors.AxisError),
        (-4, errors.AxisError),
        ((0, 0), errors.AxisError),
        ((0, -3), errors.AxisError),
        (0.5, errors.ArgumentTypeError),
        ("a", errors.ArgumentTypeError),
        ((0, None), errors.ArgumentTypeError),
    ],
)
def test_wrong_axes(axis: Any, error: type[Exception]) -> None:
    for name in (*FUNCTIONS, "argmin", "argmax"):
        with pytest.raises(error, match=name):
            getattr(sc, name)(A, axis=axis)


def test_nan_wins() -> None:
    x = sc.tensor([[1.0, math.nan, 3.0], [4.0, 5.0, 6.0]])
    assert math.isnan(sc.max(x, 1).tolist()[0])
    assert math.isnan(sc.min(x, 1).tolist()[0])
    assert sc.max(x, 1).tolist()[1] == 6
    assert sc.argmax(x, 1).tolist() == [1, 2]


def test_extremes_of_infinities() -> None:
    assert sc.max([-math.inf] * 3).item() == -math.inf
    assert sc.argmax([-math.inf] * 3).item() == 0
    assert sc.argmin([math.inf]).item() == 0
    assert sc.max(-sc.arange(16, dtype=sc.f32).reshape(4, 4), 1).tolist() == [0, -4, -8, -12]


def test_sums_of_half_precision_round_once() -> None:
    for count, expected in ((2048, 2048), (2049, 2048), (3000, 3000), (65504, 65504)):
        assert sc.sum(sc.ones((count,), sc.f16)).item() == expected
    assert sc.sum(sc.ones((65520,), sc.f16)).item() == math.inf
    assert set(sc.sum(sc.ones((6000, 5), sc.f16), 0).tolist()) == {6000}


def test_mean_of_values() -> None:
    assert sc.mean([1, 2, 3, 6]).item() == 3
    assert sc.mse_loss([1.0, 2.0], [1.0, 4.0]).item() == 2
