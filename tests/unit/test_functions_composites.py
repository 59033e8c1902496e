"""softmax, layer_norm and the losses: values, extremes, wrong arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special
from tolerance import assert_close

import softcuda as sc
from softcuda import errors

A = np.random.default_rng(0).normal(size=(3, 4, 5))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int) -> None:
    found = sc.softmax(A, axis)
    assert_close(found.numpy(), special.softmax(A, axis), sc.f64, "softmax", k_extent=5)
    logs = sc.log_softmax(A, axis)
    expected = special.log_softmax(A, axis)
    assert_close(logs.numpy(), expected, sc.f64, "log_softmax", k_extent=5, scale=1.0)


def test_softmax_of_extremes() -> None:
    assert sc.softmax([1000.0, 1000.0]).tolist() == [0.5, 0.5]
    assert sc.log_softmax([0.0, -1e30]).tolist()[0] == 0
    assert sc.softmax([0.0, -math.inf]).tolist() == [1, 0]
    assert all(map(math.isnan, sc.softmax([-math.inf, -math.inf]).tolist()))
    assert all(map(math.isnan, sc.softmax([1.0, math.nan]).tolist()))
    assert sc.softmax([1, 1]).dtype is sc.f32
    with pytest.raises(errors.AxisError):
        sc.softmax(1.0)


def expected_norm(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> Any:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def test_layer_norm() -> None:
    weight, bias = np.arange(5.0), np.ones(5)
    plain = expected_norm(A, (2,))
    for found, expected in (
        (sc.layer_norm(A), plain),
        (sc.layer_norm(A, weight), plain * weight),
        (sc.layer_norm(A, None, bias), plain + bias),
        (sc.layer_norm(A, weight, bias), plain * weight + bias),
        (sc.layer_norm(A, axes_count=2), expected_norm(A, (1, 2))),
        (sc.layer_norm(A, np.ones((4, 5)), eps=0.5), expected_norm(A, (1, 2), 0.5)),
    ):
        assert_close(found.numpy(), expected, sc.f64, "layer_norm", k_extent=20, scale=10.0)


def test_wrong_layer_norms() -> None:
    with pytest.raises(errors.ShapeError, match=r"weight has shape \[4\].*\[5\]"):
        sc.layer_norm(A, np.ones(4))
    with pytest.raises(errors.ArgumentError, match="4 axes"):
        sc.layer_norm(A, axes_count=4)
    with pytest.raises(errors.ArgumentError, match="1 axes"):
        sc.layer_norm(1.0)
    with pytest.raises(errors.ArgumentError, match="eps is -1"):
        sc.layer_norm(A, eps=-1)
    with pytest.raises(errors.ArgumentTypeError, match="eps"):
        sc.layer_norm(A, eps="small")  # type: ignore[arg-type]


def test_mse_loss() -> None:
    a, b = A[0], A[1]
    for reduction, expected in (
        ("mean", np.mean((a - b) ** 2)),
        ("sum", np.sum((a - b) ** 2)),
        ("none", (a - b) ** 2),
    ):
        found = sc.mse_loss(a, b, reduction)
        assert_close(found.numpy(), np.asarray(expected), sc.f64, "mean", k_extent=20, scale=100.0)
    assert sc.mse_loss([1, 2], [3, 4]).item() == 4
    with pytest.raises(errors.ShapeError, match=r"\[4, 5\].*\[5\]"):
        sc.mse_loss(a, b[0])
    with pytest.raises(errors.ArgumentError, match=r"'max'.*'mean', 'sum', 'none'"):
        sc.mse_loss(a, b, "max")


def test_cross_entropy_of_labels() -> None:
    labels = np.array([[0, 4, 2, 1], [1, 1, 1, 1], [3, 0, 4, 2]])
    each = -np.take_along_axis(special.log_softmax(A, -1), labels[..., None], -1)[..., 0]
    for reduction, expected in (("none", each), ("mean", each.mean()), ("sum", each.sum())):
        found = sc.cross_entropy(A, labels, reduction=reduction)
        assert_close(
            found.numpy(), np.asarray(expected), sc.f64, "softmax", k_extent=20, scale=10.0
        )
    moved = sc.cross_entropy(np.moveaxis(A, -1, 1), labels, axis=1)
    assert_close(moved.numpy(), np.asarray(each.mean()), sc.f64, "softmax", k_extent=20)


def test_cross_entropy_of_probabilities() -> None:
    share = special.softmax(A * 2, -1)
    expected = -(share * special.log_softmax(A, -1)).sum(-1)
    found = sc.cross_entropy(A, share, reduction="none")
    assert_close(found.numpy(), expected, sc.f64, "softmax", k_extent=20, scale=10.0)
    masked = sc.cross_entropy([0.0, -math.inf], [1.0, 0.0])
    assert masked.item() == 0


def test_cross_entropy_is_stable() -> None:
    logits = sc.tensor([[1e4, 0.0], [-1e4, 0.0]])
    assert sc.cross_entropy(logits, [0, 1]).item() == 0
    assert sc.cross_entropy(logits, [1, 0], reduction="none").tolist() == [1e4, 1e4]


def test_wrong_cross_entropies() -> None:
    logits = sc.zeros((2, 3))
    with pytest.raises(errors.ShapeError, match=r"labels has shape \[3\].*\[2\]"):
        sc.cross_entropy(logits, [0, 1, 2])
    with pytest.raises(errors.ShapeError, match=r"probabilities has shape \[2\].*\[2, 3\]"):
        sc.cross_entropy(logits, [0.0, 1.0])
    with pytest.raises(errors.DTypeError, match="bool"):
        sc.cross_entropy(logits, [True, False])
    with pytest.raises(errors.AxisError):
        sc.cross_entropy(logits, [0, 1], axis=2)
    for labels in ([0, 3], [-1, 0]):
        with pytest.raises(errors.IndexOutOfRange):
            sc.cross_entropy(logits, labels).numpy()


@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_huber_loss(delta: float) -> None:
    target = np.zeros(A.shape)
    size = np.abs(A)
    expected = np.where(size <= delta, A**2 / 2, delta * (size - delta / 2))
    found = sc.huber_loss(A, target, delta, "none")
    assert_close(found.numpy(), expected, sc.f64, "multiply_add", scale=size * delta)
    mean = sc.huber_loss(A, target, delta)
    assert_close(mean.numpy(), expected.mean(), sc.f64, "mean", k_extent=A.size)
    x = sc.tensor(A)
    slope = sc.grad(sc.huber_loss(x, target, delta, "sum"), x).numpy()
    assert np.array_equal(slope, np.clip(A, -delta, delta))


def test_wrong_huber_losses() -> None:
    with pytest.raises(errors.ArgumentError, match=r"delta is 0\.0"):
        sc.huber_loss([1.0], [1.0], 0)
    with pytest.raises(errors.ShapeError, match="huber_loss: the prediction"):
        sc.huber_loss([1.0], [1.0, 2.0])
