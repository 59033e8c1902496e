"""Gradients that a trial found wrong or unclear: points, NaN, origins, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tolerance import SLOPE_TOLERANCE

import softcuda as sc
from softcuda.errors import ArgumentTypeError, DTypeError

Function = Callable[[sc.Tensor], sc.Tensor]

# ---- a gradient is taken at the values that variables have when it is run ------------------------

OLD, NEW = [1.0, 2.0, 3.0], [3.0, -0.5, 0.25]

READERS: dict[str, Function] = {
    **{
        name: getattr(sc, name)
        for name in (
            *("exp", "exp2", "expm1", "tanh", "sigmoid", "tan", "gelu", "silu", "mish", "relu"),
            *("softplus", "softsign", "erf", "square", "sin", "abs", "norm", "max", "min", "prod"),
            *("std", "var", "logsumexp", "softmax", "log_softmax", "layer_norm", "cumsum", "mean"),
        )
    },
    "sqrt": lambda w: sc.sqrt(w + 4),
    "log": lambda w: sc.log(w + 4),
    "rsqrt": lambda w: sc.rsqrt(w * w + 1),
    "reciprocal": lambda w: sc.reciprocal(w + 4),
    "div": lambda w: (w - 1) / (w + 4),
    "pow": lambda w: (w + 4) ** w,
    "maximum": lambda w: sc.maximum(w, 0.3),
    "clip": lambda w: sc.clip(w, 0.0, 2.0),
    "norm of order 3": lambda w: sc.norm(w, 3),
    "norm of order inf": lambda w: sc.norm(w, float("inf")),
    "matmul": lambda w: sc.exp(w) @ sc.sin(w),
    "where": lambda w: sc.where(w > 0, sc.exp(w), w),
    "sign": lambda w: sc.real(sc.sign(w + 2j)),
    "detached": lambda w: sc.exp(w * (w * 2).detach()),
}


def _close(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(found - expected).max() <= SLOPE_TOLERANCE * np.abs(expected).max()


def _gradient(function: Function, value: list[float]) -> np.ndarray:
    q = sc.tensor(np.array(value))
    return sc.grad(sc.sum(function(q) * np.arange(1.0, 4)), q).numpy()


def _loss(function: Function) -> tuple[sc.Tensor, sc.Tensor]:
    w = sc.variable(np.array(OLD), "w", requires_grad=True)
    return w, sc.sum(function(w) * np.arange(1.0, 4))


@pytest.mark.parametrize("name", READERS)
def test_a_gradient_reads_variables_as_they_are(name: str) -> None:
    function, expected = READERS[name], _gradient(READERS[name], NEW)
    w, loss = _loss(function)
    before = loss.item()
    w.assign(NEW)
    assert np.array_equal(sc.grad(loss, w).numpy(), expected)
    loss.backward()
    assert w.grad is not None
    assert np.array_equal(w.grad.numpy(), expected)
    assert loss.item() == before

    w, loss = _loss(function)
    later = sc.grad(loss, w)
    loss.item()
    w.assign(NEW)
    assert np.array_equal(later.numpy(), expected)


def test_gradients_of_gradients_read_them_too() -> None:
    w, loss = _loss(sc.tanh)
    first = sc.grad(loss, w)
    sc.evaluate(loss, first)
    w.assign(NEW)
    t = np.tanh(NEW)
    _close(sc.grad(first.sum(), w).numpy(), np.arange(1.0, 4) * -2 * t * (1 - t * t))


def test_what_a_gradient_is_asked_of_is_a_point_and_the_rest_constant() -> None:
    w, v = (sc.variable(np.array(OLD), name, requires_grad=True) for name in "wv")
    y, constant = sc.square(w).evaluate(), sc.exp(v).evaluate()
    loss = sc.sum(y * y * constant)
    w.assign(NEW)
    v.assign(NEW)
    y_old, c_old = np.square(OLD), np.exp(OLD)
    _close(sc.grad(loss, y).numpy(), 2 * y_old * c_old)
    _close(sc.grad(loss, w).numpy(), 4 * np.array(NEW) ** 3 * c_old)
    x = sc.tensor(np.array(OLD), requires_grad=True)
    z = sc.exp(x * w).evaluate()
    w.assign(OLD)
    _close(sc.grad(z.sum(), x).numpy(), np.array(OLD) * np.exp(np.square(OLD)))


def test_conditions_and_constants_of_an_evaluated_tensor_are_of_the_same_point() -> None:
    w = sc.variable(np.array(OLD), "w", requires_grad=True)
    y = sc.exp(w).evaluate()
    loss = sc.sum(sc.where(y > 1, y, 0) * (y * 2).detach())
    loss.item()
    w.assign(NEW)
    first, e = sc.grad(loss, w), np.exp(NEW)
    _close(first.numpy(), np.where(e > 1, 2 * e * e, 0))
    _close(sc.grad(first.sum(), w).numpy(), np.where(e > 1, 2 * e * e, 0))


def test_what_was_drawn_is_not_drawn_again() -> None:
    w = sc.variable(np.ones(64), "w", requires_grad=True)
    dropped = sc.dropout(w, 0.5, sc.Generator(1))
    loss = sc.sum(dropped * dropped)
    loss.item()
    w.assign(np.full(64, 3.0))
    twice = [sc.grad(loss, w).numpy() for _ in range(2)]
    kept = dropped.numpy() != 0
    assert np.array_equal(twice[0], twice[1])
    assert np.array_equal(twice[0], np.where(kept, 24.0, 0.0))


def test_graphs_of_inputs_and_of_values_are_not_made_twice() -> None:
    for leaf in (sc.input((3,), name="x"), sc.tensor(OLD, requires_grad=True)):
        y = sc.exp(leaf)
        found = sc.grad(y, leaf)
        assert any(source is y for source in found.inputs)


# ---- NaN, and points without a slope -------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (sc.relu, [1.0, 1.0, 0.0, 1.0]),
        (lambda x: sc.maximum(x, 0.0), [1.0, 1.0, 0.0, 1.0]),
        (lambda x: sc.minimum(x, 9.0), [1.0, 1.0, 1.0, 1.0]),
        (lambda x: sc.clip(x, 0.0, 1.5), [1.0, 0.0, 0.0, 1.0]),
        (sc.max, [0.5, 0.0, 0.0, 0.5]),
        (sc.min, [0.5, 0.0, 0.0, 0.5]),
        (lambda x: sc.norm(x, float("inf")), [NAN, 0.0, 0.0, NAN]),
    ],
)
def test_nan_gets_the_gradient_of_what_it_makes(function: Function, expected: list[float]) -> None:
    x = sc.tensor([NAN, 2.0, -1.0, NAN])
    assert np.array_equal(sc.grad(function(x), x).numpy(), expected, equal_nan=True)


def test_the_origin_has_no_angle() -> None:
    z = sc.tensor(np.array([0j, 3 + 4j]))
    assert np.array_equal(sc.grad(sc.angle(z), z).numpy(), [0, (-4 + 3j) / 25])
    a, b = sc.tensor([0.0, 1.0]), sc.tensor([0.0, -1.0])
    found = sc.grad(sc.atan2(a, b), [a, b])
    assert [x.tolist() for x in found] == [[0.0, -0.5], [0.0, -0.5]]


# ---- what is refused -----------------------------------------------------------------------------


def _refused() -> Iterator[tuple[Callable[[], object], type[Exception], str]]:
    x, z = sc.tensor([1.0, 2.0]), sc.tensor([1j, 2.0])
    yield lambda: sc.mse_loss(z, z), DTypeError, "^mse_loss: an operand of shape .2. is complex64"
    yield lambda: sc.huber_loss(x, z), DTypeError, "^huber_loss: an operand"
    yield lambda: sc.cross_entropy(z, 0), DTypeError, "^cross_entropy: an operand"
    yield lambda: sc.cross_entropy(x, z), DTypeError, "^cross_entropy: an operand"
    yield lambda: sc.grad(x * 2, x, 1j), DTypeError, "^grad: a seed is complex.*real seeds"
    valued = sc.value_and_grad(lambda a: a * a)
    yield lambda: valued(2.0), ArgumentTypeError, "^value_and_grad: argument 0: 2.0 of type float"
    halves: Any = 1.5
    yield lambda: sc.value_and_grad(sc.sum, halves), ArgumentTypeError, "argnums 1.5; allowed"
    empty = sc.value_and_grad(lambda a: 4.0)
    yield lambda: empty(x), ArgumentTypeError, "^value_and_grad: the function returned 4.0 of type"


@pytest.mark.parametrize(("call", "error", "message"), list(_refused()))
def test_errors_name_what_is_meant(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
