"""Complex numbers on every CPU backend, in every layout, against NumPy in complex128."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import profile_of
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import dtype_of_array
from softcuda.tools.conformance_complex import complex_checks

Array = np.ndarray[Any, Any]

BACKENDS = ("cpu_fallback", "cpu_fused", "cpu_blas")
DTYPES = (np.complex64, np.complex128)


def drawn(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.complex128) -> Array:
    rng = np.random.default_rng(seed)
    made = rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)
    return np.asarray(made).astype(dtype)


LAYOUTS: dict[str, Callable[[Any], Array]] = {
    "dense": lambda dtype: drawn((3, 37), 1, dtype),
    "turned": lambda dtype: drawn((37, 3), 1, dtype).T,
    "backwards": lambda dtype: drawn((3, 74), 1, dtype)[::-1, ::-2],
    "stretched": lambda dtype: np.broadcast_to(drawn((3, 1), 1, dtype), (3, 37)),
    "empty": lambda dtype: drawn((0, 37), 1, dtype),
    "rank 0": lambda dtype: drawn((), 1, dtype),
    "large": lambda dtype: drawn((3, 33_000), 1, dtype),
}
UNARY = (
    *("negative", "square", "abs", "conj", "real", "imag", "sign", "reciprocal", "angle", "copy"),
    *("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("isnan", "isinf", "isfinite"),
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one_operand(dtype: Any, layout: str) -> None:
    x = LAYOUTS[layout](dtype)
    leaf = sc.asarray(x)
    names = UNARY if layout != "large" else ("square", "abs", "conj", "imag", "exp")
    made = {name: getattr(sc, name)(leaf) for name in names}
    wide = x.astype(np.complex128)
    for backend in BACKENDS[:2]:
        for name, found in sc.compile(made, profile_of(backend)).run().items():
            expected = np.asarray(getattr(np, name)(wide))
            op = "hypot" if name == "abs" else name  # not exact, as it is of real numbers
            assert_close(found.numpy(), expected, made[name].dtype, op, scale=1.0)
            kind = "f" if name in ("abs", "real", "imag", "angle") else "b" if "is" in name else "c"
            assert found.numpy().dtype.kind == kind


@pytest.mark.parametrize("other", ["complex64", "complex128", "f64", "f32", "bf16", "i64", "bool"])
def test_functions_of_two_operands(other: str) -> None:
    a = drawn((5, 1, 13), 2, np.complex64)
    b = sc.tensor(np.random.default_rng(3).integers(1, 6, (4, 13))).cast(other)
    x = sc.asarray(a)
    wide = (a.astype(np.complex128), b.numpy().astype(np.complex128))
    made: dict[str, Any] = {
        "add": (x + b, np.add),
        "sub": (b - x, lambda p, q: q - p),
        "mul": (x * b, np.multiply),
        "div": (x / b, np.divide),
        "eq": (sc.equal(x, b), np.equal),
        "ne": (b != x, np.not_equal),
        "where": (sc.where(b == 1, x, b), lambda p, q: np.where(q == 1, p, q)),
        "multiply_add": (sc.multiply_add(x, b, x), lambda p, q: p * q + p),
        "pow": (x**b, np.power),
    }
    for backend in BACKENDS[:2]:
        run = sc.compile(
            {name: node for name, (node, _) in made.items()}, profile_of(backend)
        ).run()
        for name, (node, oracle) in made.items():
            expected = oracle(*wide)
            scale = np.abs(wide[0]) ** 5 + 8 if name == "pow" else 16.0
            assert_close(run[name].numpy(), expected, node.dtype, name, scale=scale)


@pytest.mark.parametrize("axes", [None, 0, 1, (0, 2)])
@pytest.mark.parametrize("layout", ["dense", "turned", "large"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype: Any, layout: str, axes: Any) -> None:
    shape = (4, 3, 5) if layout != "large" else (2, 33_000, 2)
    x = drawn(shape, 4, dtype)
    x = np.asfortranarray(x) if layout == "turned" else x
    wide, leaf = x.astype(np.complex128), sc.asarray(x)
    part = dtype_of_array(x.real.dtype)
    made = {
        "sum": (sc.sum(leaf, axes), wide.sum(axes), leaf.dtype),
        "mean": (sc.mean(leaf, axes), wide.mean(axes), leaf.dtype),
        "prod": (sc.prod(leaf[:, :2], axes), wide[:, :2].prod(axes), leaf.dtype),
        "norm": (sc.norm(leaf, 2, axes), np.sqrt((np.abs(wide) ** 2).sum(axes)), part),
        "any": (sc.any(leaf, axes), wide.any(axes), sc.bool_),
        "all": (sc.all(leaf, axes), wide.all(axes), sc.bool_),
        "cumsum": (sc.cumsum(leaf, 1), wide.cumsum(1), leaf.dtype),
    }
    run = sc.compile({name: node for name, (node, _, _) in made.items()}, "default").run()
    for name, (_, expected, kind) in made.items():
        scale = np.abs(wide).sum() if kind.is_inexact else 0.0
        assert_close(run[name].numpy(), np.asarray(expected), kind, name, scale=scale)


def test_a_sum_of_complex64_keeps_small_parts() -> None:
    x = np.full(1 << 20, 1 + 1e-3j, np.complex64)
    x[0] = 2**24
    assert_close(sc.sum(x).numpy(), np.asarray(x.astype(np.complex128).sum()), sc.complex64, "sum")
    assert sc.mean(sc.full((1 << 20,), 1 - 1j)).item() == 1 - 1j


@pytest.mark.parametrize("dtype", DTYPES)
def test_movement(dtype: Any) -> None:
    x = drawn((4, 6), 5, dtype)
    leaf = sc.asarray(x)
    rows = np.array([3, -1, 0])
    cells = np.array([[1], [0], [-1], [5]])
    added = x.copy()
    np.add.at(added, rows, 2j * x[:3])
    made: dict[str, tuple[sc.Tensor, Array]] = {
        "take": (sc.take(leaf, rows, 1), x[:, rows]),
        "gather": (sc.gather(leaf, cells, 1), np.take_along_axis(x, cells, 1)),
        "index_add": (sc.index_add(leaf, rows, leaf[:3] * 2j, 0), added),
        "concat": (sc.concat([leaf, sc.ones((4, 2))], 1), np.concatenate([x, np.ones((4, 2))], 1)),
        "stack": (sc.stack([leaf, leaf]), np.stack([x, x])),
        "pad": (sc.pad(leaf, ((1, 0), (0, 2))), np.pad(x, ((1, 0), (0, 2)))),
        "tril": (sc.tril(leaf), np.tril(x)),
        "permute": (leaf.T.copy(), x.T),
        "reshape": (leaf[:, ::-2].reshape(-1), x[:, ::-2].reshape(-1)),
        "diagonal": (sc.diagonal(leaf, 1), np.diagonal(x, 1)),
        "flip": (sc.flip(leaf), x[::-1, ::-1]),
    }
    run = sc.compile({name: node for name, (node, _) in made.items()}, "default").run()
    for name, (_, expected) in made.items():
        assert_close(run[name].numpy(), expected.astype(np.complex128), leaf.dtype, name, scale=8.0)


@pytest.mark.parametrize("backend", ["cpu_blas", "cpu_fallback"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_contractions_of_every_layout(dtype: Any, backend: str) -> None:
    a, b = drawn((3, 17, 30), 6, dtype), drawn((3, 30, 9), 7, dtype)
    turned = np.asfortranarray(b)
    real = a.real.copy()
    whole = np.arange(30 * 9).reshape(30, 9)
    pairs: dict[str, tuple[Any, Any]] = {
        "dense": (a, b),
        "turned": (a[:, ::-1], turned),
        "strided": (a[:, :, ::2], b[:, ::2]),
        "real": (real, b),
        "integers": (a, whole),
        "row": (a[:, 0], b[0]),
        "long": (drawn((70, 300), 8, dtype), drawn((300, 80), 9, dtype)),
    }
    made = {name: sc.asarray(x) @ sc.asarray(y) for name, (x, y) in pairs.items()}
    for name, found in sc.compile(made, profile_of(backend)).run().items():
        x, y = (np.asarray(each).astype(np.complex128) for each in pairs[name])
        scale = np.abs(x) @ np.abs(y)
        kind = made[name].dtype
        assert_close(found.numpy(), x @ y, kind, "matmul", k_extent=x.shape[-1], scale=scale)


def test_what_is_not_exact_is_not_folded() -> None:
    z = sc.tensor(np.array([complex(np.inf, 0), 1 + 2j]))
    one = z * sc.ones((), "complex128")
    np.testing.assert_array_equal((z * 1).numpy(), one.numpy())
    made = sc.compile([sc.conj(sc.conj(z)), sc.conj(sc.real(z)), sc.abs(sc.abs(z))])
    np.testing.assert_array_equal(made.run()[0].numpy(), z.numpy())
    assert sc.conj(z).numpy()[1] == 1 - 2j


def test_chains_are_fused_and_give_what_their_ops_give() -> None:
    z = drawn((300, 400), 10, np.complex64)
    x = sc.asarray(z)
    graph = sc.real(sc.conj(x) * x + 1j) * 2 + sc.abs(x)
    fused = sc.compile(graph, "default")
    assert str(fused).count("fused") >= 4
    separate = sc.compile(graph, profile_of("cpu_fallback")).run().numpy()
    np.testing.assert_array_equal(fused.run().numpy(), separate)


def test_names_of_the_conformance_checks_are_distinct() -> None:
    names = [check.name for check in complex_checks(9)]
    assert len(set(names)) == len(names)
