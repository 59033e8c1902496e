"""Complex numbers on a device, by the reference kernels: against NumPy in complex128."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import makers_of, profile_of
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import real_dtype

Array = np.ndarray[Any, Any]

NAIVE = profile_of("cuda_naive")
BOTH = (sc.complex64, sc.complex128)
RNG = np.random.default_rng(5)

UNARY = (
    *("negative", "square", "abs", "conj", "real", "imag", "sign", "reciprocal", "copy"),
    *("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("isnan", "isinf", "isfinite"),
)
SPECIAL = [0, -0.0, 1, -1, 1j, -1j, 1e-30, -1e-30j, 30 + 30j, complex(-0.0, -0.0)]


def z(shape: tuple[int, ...], dtype: sc.DType) -> Array:
    made = RNG.uniform(-2, 2, shape) + 1j * RNG.uniform(-2, 2, shape)
    return np.asarray(made).astype(dtype.numpy)


def check(made: dict[str, tuple[Any, Array]], op: str = "", scale: Any = 8.0) -> None:
    executable = sc.compile({name: node for name, (node, _) in made.items()}, NAIVE)
    assert set(makers_of(executable)) == {"cuda_naive"}
    for name, found in executable.run().items():
        node, expected = made[name]
        assert_close(found.numpy(), expected, node.dtype, op or name, scale=scale)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_functions_of_one_operand(dtype: sc.DType) -> None:
    for x in (z((37, 29), dtype), z((29, 70), dtype)[:, ::-2].T, np.array(SPECIAL, dtype.numpy)):
        with np.errstate(all="ignore"):
            wide = x.astype(np.complex128)
            right = {name: np.asarray(getattr(np, name)(wide)) for name in UNARY}
        leaf = sc.tensor(x)
        made = {name: (getattr(sc, name)(leaf), right[name]) for name in UNARY}
        check(made, "hypot", scale=1.0)


@pytest.mark.sanitize
@pytest.mark.parametrize("other", ["complex64", "complex128", "f64", "f32", "bf16", "i64", "bool"])
def test_functions_of_two_operands(other: str) -> None:
    a = z((5, 1, 13), sc.complex64)
    x, y = sc.tensor(a), sc.tensor(RNG.integers(1, 6, (4, 13))).cast(other)
    p, q = a.astype(np.complex128), y.numpy().astype(np.complex128)
    made = {
        "add": (x + y, p + q),
        "sub": (y - x, q - p),
        "mul": (x * y, p * q),
        "div": (x / y, p / q),
        "eq": (sc.equal(x, y), p == q),
        "where": (sc.where(y == 1, x, y), np.where(q == 1, p, q)),
        "multiply_add": (sc.multiply_add(x, y, x), p * q + p),
    }
    check(made, scale=32.0)
    check({"pow": (x**y, p**q)}, scale=np.abs(p) ** 5 + 8)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_sums_and_moves(dtype: sc.DType) -> None:
    rows = np.array([2, -1, 0])
    cells = np.repeat([[[1]], [[-1]], [[0]]], 5, 2)
    for x in (z((3, 4, 5), dtype), z((5, 4, 3), dtype).T, z((3, 8, 5), dtype)[:, ::-2]):
        leaf, wide = sc.tensor(x), x.astype(np.complex128)
        added = wide.copy()
        np.add.at(added, np.array([1, 1]), wide[:2])
        made = {
            "sum": (sc.sum(leaf, (0, 2)), wide.sum((0, 2))),
            "mean": (sc.mean(leaf), np.asarray(wide.mean())),
            "norm": (sc.norm(leaf, 2, 1), np.sqrt((np.abs(wide) ** 2).sum(1))),
            "any": (sc.any(leaf, 0), wide.any(0)),
            "cumsum": (sc.cumsum(leaf, 1), wide.cumsum(1)),
            "concat": (sc.concat([leaf, leaf], 2), np.concatenate([wide, wide], 2)),
            "stack": (sc.stack([leaf, leaf], 1), np.stack([wide, wide], 1)),
            "pad": (sc.pad(leaf, 1), np.pad(wide, 1)),
            "take": (sc.take(leaf, rows, 1), wide[:, rows]),
            "gather": (sc.gather(leaf, cells, 1), np.take_along_axis(wide, cells, 1)),
            "index_add": (sc.index_add(leaf, np.array([1, 1]), leaf[:2], 0), added),
            "zeros": (sc.zeros((3, 4), dtype), np.zeros((3, 4))),
        }
        check(made, "sum", scale=64.0)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_contractions(dtype: sc.DType) -> None:
    a, b = z((3, 17, 130), dtype), z((3, 130, 9), dtype)
    real = RNG.uniform(-1, 1, (17, 130)).astype(real_dtype(dtype).numpy)
    p, q = a.astype(np.complex128), b.astype(np.complex128)
    x, y = sc.tensor(a), sc.tensor(b)
    made = {
        "batched": (x @ y, p @ q),
        "turned": (x[:, ::-1] @ sc.tensor(np.asfortranarray(b)), p[:, ::-1] @ q),
        "real": (sc.tensor(real) @ y, real @ q),
        "integers": (x @ sc.arange(130), p @ np.arange(130)),
        "private": (sc.einsum("bik,bkj->j", x, y), np.einsum("bik,bkj->j", p, q)),
        "conjugated": (
            sc.contract(x, "bik", x, "bjk", "bij", unary=[sc.UnaryOp.Conjugate]),
            p.conj() @ p.transpose(0, 2, 1),
        ),
    }
    check(made, "matmul", scale=130 * 130 * 16.0)


def test_gradients() -> None:
    a, b = z((6, 5), sc.complex64), z((5, 7), sc.complex64)
    x, y = sc.tensor(a, requires_grad=True), sc.tensor(b, requires_grad=True)
    loss = sc.square(sc.abs(sc.exp(x @ y * 0.125))).sum()
    gradients = sc.grad(loss, [x, y])
    found = sc.compile(gradients, NAIVE).run()
    right = sc.compile(gradients, profile_of("cpu_fallback")).run()
    for have, want in zip(found, right, strict=True):
        wide = want.numpy().astype(np.complex128)
        scale = np.abs(wide).max()
        assert_close(have.numpy(), wide, sc.complex64, "tanh", k_extent=64, scale=scale)
