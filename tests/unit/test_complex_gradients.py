"""Gradients of complex tensors: central differences of both parts, PyTorch's convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tolerance import DIFFERENCE_STEP, SLOPE_TOLERANCE

import softcuda as sc
from softcuda import errors

Array = np.ndarray[Any, Any]
Graph = Callable[..., Any]

RNG = np.random.default_rng(0)


def z(*shape: int) -> Array:
    return np.asarray(RNG.uniform(0.3, 1, shape) + 1j * RNG.uniform(-1, 1, shape))


def r(*shape: int) -> Array:
    return RNG.uniform(0.5, 1.5, shape)


CASES: dict[str, tuple[Graph, list[Array]]] = {
    "add": (lambda a, b: a + b, [z(3, 2), r(3, 1)]),
    "sub": (lambda a, b: a - b, [r(3, 1), z(3, 2)]),
    "mul": (lambda a, b: a * b, [z(3, 2), z(2)]),
    "mul of a real tensor": (lambda a, b: a * b, [z(3, 2), r(2)]),
    "mul by a number": (lambda a: a * (2 - 1j), [r(3)]),
    "div": (lambda a, b: a / b, [z(3, 2), z(2)]),
    "div by a real tensor": (lambda a, b: a / b, [z(3), r(3)]),
    "div of a real tensor": (lambda a, b: a / b, [r(3), z(3)]),
    "pow": (lambda a, b: a**b, [z(3), z(3)]),
    "pow to a number": (lambda a: a ** (1 + 2j), [r(3)]),
    "pow to 3": (lambda a: a**3, [z(3)]),
    "multiply_add": (sc.multiply_add, [z(3), z(3), r(3)]),
    "where": (lambda a, b: sc.where(sc.real(a) > 0.6, a, b), [z(4), r(4)]),
    "angle": (sc.angle, [z(3)]),
    "norm 1": (lambda a: sc.norm(a, 1), [z(3)]),
    "norm 2": (lambda a: sc.norm(a, 2, 1), [z(3, 2)]),
    "norm 3": (lambda a: sc.norm(a, 3), [z(3)]),
    "sum": (lambda a: a.sum(1), [z(3, 2)]),
    "mean": (lambda a: a.mean(), [z(3, 2)]),
    "prod": (lambda a: a.prod(1), [z(2, 5)]),
    "cumsum": (lambda a: sc.cumsum(a, 0), [z(4)]),
    "matmul": (lambda a, b: a @ b, [z(3, 4), z(4, 2)]),
    "matmul of a real matrix": (lambda a, b: a @ b, [r(3, 4), z(4, 2)]),
    "einsum": (lambda a, b, c: sc.einsum("ij,kj,k->i", a, sc.conj(b), c), [z(3, 4), z(2, 4), z(2)]),
    "contract": (
        lambda a, b: sc.contract(
            a, "ij", b, "jk", "ik", alpha=1j, unary=[sc.UnaryOp.Conjugate, sc.UnaryOp.Abs]
        ),
        [z(2, 3), z(3, 2)],
    ),
    "take": (lambda a: sc.take(a, np.array([1, 1, 0]), 0) * a[:3], [z(4)]),
    "cast": (lambda a: a.cast("complex128") * 1j, [r(3)]),
    **{
        name: (getattr(sc, name), [z(4)])
        for name in (
            *("negative", "square", "abs", "conj", "real", "imag", "sign", "reciprocal"),
            *("sqrt", "rsqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
        )
    },
}


def slopes(f: Callable[[Array], float], x: Array) -> Array:
    """Return df/dRe(x) + i df/dIm(x) by central differences of fourth order."""
    found = np.zeros(x.shape, np.complex128)
    for place in np.ndindex(x.shape):
        for direction in (1, 1j) if x.dtype.kind == "c" else (1,):
            values = []
            for factor in (-2, -1, 1, 2):
                moved = x.copy()
                moved[place] += factor * direction * DIFFERENCE_STEP
                values.append(f(moved))
            a, b, c, d = values
            found[place] += direction * (a - 8 * b + 8 * c - d) / (12 * DIFFERENCE_STEP)
    return found


def check(graph: Graph, arrays: list[Array]) -> None:
    values = [sc.tensor(x) for x in arrays]
    y = graph(*values)
    seed = np.asarray(r(*y.shape) + (1j * r(*y.shape) if y.dtype.is_complex else 0))
    found = sc.grad(y, values, sc.tensor(seed))
    leaves = [sc.input(x.shape, x.dtype, f"x{k}") for k, x in enumerate(arrays)]
    forward = sc.compile(graph(*leaves))
    for number, (x, gradient) in enumerate(zip(arrays, found, strict=True)):

        def loss(moved: Array, number: int = number) -> float:
            given = [*arrays[:number], moved, *arrays[number + 1 :]]
            value = forward.run(dict(zip(leaves, given, strict=True))).numpy()
            return float(np.sum(np.real(np.conj(seed) * value)))

        expected = slopes(loss, x)
        got = gradient.numpy()
        assert got.dtype == x.dtype
        bound = SLOPE_TOLERANCE * max(1.0, np.abs(expected).max())
        assert np.abs(got - expected).max() <= bound, (number, got, expected)


@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_central_differences(name: str) -> None:
    check(*CASES[name])


@pytest.mark.parametrize("name", ["mul", "div", "abs", "sign", "exp", "pow", "norm 2", "einsum"])
def test_gradients_of_gradients_equal_central_differences(name: str) -> None:
    graph, arrays = CASES[name]

    def second(*leaves: Any) -> Any:
        y = graph(*leaves)
        seed = sc.full(y.shape, 0.75 - 0.5j) if y.dtype.is_complex else None
        return sum(sc.square(sc.abs(g)).sum() for g in sc.grad(y, list(leaves), seed))

    check(second, arrays)


def test_slopes_at_zero() -> None:
    x = sc.tensor(np.array([0, 3 + 4j]), requires_grad=True)
    (sc.abs(x).sum() + sc.norm(x[:1])).backward()
    assert x.grad.tolist() == [0, 0.6 + 0.8j]


def test_complex_outputs_need_a_seed() -> None:
    x = sc.tensor(np.array([1 + 1j]), requires_grad=True)
    with pytest.raises(errors.DTypeError, match="complex outputs need one"):
        (x * x).backward()
    with pytest.raises(errors.DTypeError, match="allowed are real seeds of real outputs"):
        sc.grad(sc.abs(x), x, 1j)
    (x * x).backward(1)
    assert x.grad.tolist() == [2 - 2j]


def test_training_refuses_complex_parameters() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="no variable of floats"):
        sc.optim.SGD({"w": sc.variable([1j])}, 0.1)
