"""Complex numbers on a device, on every backend that takes them: against NumPy in complex128."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from complex_cases import BOTH, CASES, LAYOUTS, z
from device_leaves import device_array
from op_cases import fast_profile, makers_of, profile_of
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import real_dtype

Array = np.ndarray[Any, Any]

NAIVE = profile_of("cuda_naive")
# The backend that is made for an op where it takes complex numbers.
FAST = fast_profile(
    **dict.fromkeys(("matmul", "prod", "norm", "any", "all"), "cuda_naive"),
    **dict.fromkeys(("concat", "stack"), "cuda_permute"),
)
PROFILES = {"naive": NAIVE, "fast": FAST}
# The reference has one way of reading, the others have those of dense, turned and strided operands.
PLACED = [
    ("naive", "stretched"),
    *(("fast", layout) for layout in LAYOUTS if layout != "stretched"),
]

UNARY = (
    *("negative", "square", "abs", "conj", "real", "imag", "sign", "reciprocal", "copy"),
    *("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("isnan", "isinf", "isfinite"),
)
SPECIAL = [0, -0.0, 1, -1, 1j, -1j, 1e-30, -1e-30j, 30 + 30j, complex(-0.0, -0.0)]


def check(
    made: dict[str, tuple[Any, Array]], op: str, *, scale: Any = 8.0, profile: Any = NAIVE
) -> None:
    executable = sc.compile({name: node for name, (node, _) in made.items()}, profile, strict=True)
    if profile is NAIVE:
        assert set(makers_of(executable)) == {"cuda_naive"}
    for name, found in executable.run().items():
        node, expected = made[name]
        try:
            assert_close(found.numpy(), expected, node.dtype, op or name, scale=scale)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@pytest.mark.sanitize
@pytest.mark.parametrize(("profile", "layout"), PLACED)
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_every_op_that_takes_complex_numbers(dtype: sc.DType, layout: str, profile: str) -> None:
    x = LAYOUTS[layout](dtype)
    leaf, wide = sc.Tensor.leaf(device_array(x)), x.astype(np.complex128)
    for tolerance in {case.tolerance for case in CASES.values()}:
        with np.errstate(all="ignore"):
            made = {
                name: (case.made(leaf), np.asarray(case.expected(wide)))
                for name, case in CASES.items()
                if case.tolerance == tolerance
            }
        check(made, tolerance, scale=64.0, profile=PROFILES[profile])


@pytest.mark.sanitize
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_functions_of_one_operand(dtype: sc.DType, profile: str) -> None:
    for x in (z((37, 29), dtype), z((29, 70), dtype)[:, ::-2].T, np.array(SPECIAL, dtype.numpy)):
        with np.errstate(all="ignore"):
            wide = x.astype(np.complex128)
            right = {name: np.asarray(getattr(np, name)(wide)) for name in UNARY}
        leaf = sc.Tensor.leaf(device_array(x))
        made = {name: (getattr(sc, name)(leaf), right[name]) for name in UNARY}
        check(made, "hypot", scale=1.0, profile=PROFILES[profile])


@pytest.mark.sanitize
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("other", ["complex64", "complex128", "f64", "f32", "bf16", "i64", "bool"])
def test_functions_of_two_operands(other: str, profile: str) -> None:
    a = z((5, 1, 13), sc.complex64)
    x = sc.tensor(a)
    y = sc.tensor(np.random.default_rng(5).integers(1, 6, (4, 13))).cast(other)
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
    check(made, "", scale=32.0, profile=PROFILES[profile])
    check({"pow": (x**y, p**q)}, "", scale=np.abs(p) ** 5 + 8, profile=PROFILES[profile])


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_chains_of_many_tiles(dtype: sc.DType) -> None:
    """Whole tiles and what is left, operands turned, broadcast and at odd places, kept values."""
    a, b = z((1031, 77), dtype), z((77, 1031), dtype, 6)
    x, y = sc.tensor(a), sc.tensor(b)
    row = z((77,), dtype, 7)
    p, q = a.astype(np.complex128), b.astype(np.complex128)
    shared = x * 0.5j + 1
    made = {
        "dense": (sc.conj(x) * x - sc.real(x), p.conj() * p - p.real),
        "turned": (x * y.permute_dims((1, 0)) + 2, p * q.T + 2),
        "broadcast": (x + sc.tensor(row), p + row),
        "odd": (x.reshape((-1,))[1:] * 2j, p.reshape(-1)[1:] * 2j),
        "kept": (shared, p * 0.5j + 1),
        "of kept": (sc.abs(shared), np.abs(p * 0.5j + 1)),
        "to bools": (sc.logical_and(x, y.permute_dims((1, 0))), (p != 0) & (q.T != 0)),
    }
    check(made, "mul", scale=32.0, profile=FAST)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_copies_and_sums_of_many_tiles(dtype: sc.DType) -> None:
    a = z((6, 129, 65), dtype)
    x, p = sc.tensor(a), a.astype(np.complex128)
    moves = {
        "turned": (x.permute_dims((2, 0, 1)).copy(), p.transpose(2, 0, 1)),
        "backwards": (x[:, ::-2].copy(), p[:, ::-2]),
        "joined": (sc.concat([x, x[:, 1:4]], 1), np.concatenate([p, p[:, 1:4]], 1)),
        "stacked": (sc.stack([x, x[::-1]], 3), np.stack([p, p[::-1]], 3)),
    }
    check(moves, "copy", scale=0.0, profile=FAST)
    for axis in (0, 1, 2, (0, 2), (1, 2), None):
        sums = {
            "sum": (sc.sum(x, axis), np.asarray(p.sum(axis))),
            "mean": (sc.mean(x, axis), np.asarray(p.mean(axis))),
        }
        check(sums, "sum", scale=float(p.size), profile=FAST)
    scans = {f"cumsum {k}": (sc.cumsum(x, k), p.cumsum(k)) for k in range(3)}
    check(scans, "cumsum", scale=129.0 * 4, profile=FAST)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_movement_of_many_blocks(dtype: sc.DType) -> None:
    a = z((4, 300, 70), dtype)
    x, p = sc.tensor(a), a.astype(np.complex128)
    rng = np.random.default_rng(5)
    rows, places = rng.integers(-300, 300, 500), rng.integers(0, 300, (4, 9, 70))
    added, scattered = np.zeros((4, 300, 70), np.complex128), p.copy()
    np.add.at(added, (slice(None), rows), 1j * p[:, rows])
    np.add.at(scattered, (np.arange(4)[:, None, None], places, np.arange(70)), p[:, :9])
    made = {
        "tril": (sc.tril(x, 7), np.tril(p, 7)),
        "pad": (
            sc.pad(x, ((0, 1), (2, 3), (4, 5)), constant_values=1 - 2j),
            np.pad(p, ((0, 1), (2, 3), (4, 5)), constant_values=1 - 2j),
        ),
        "take": (sc.take(x, rows, 1), p[:, rows]),
        "index_add": (sc.index_add(sc.zeros(x.shape, dtype), rows, x[:, rows] * 1j, 1), added),
        "scatter_add": (sc.scatter_add(x, places, x[:, :9], 1), scattered),
        "full": (sc.full((70_001,), 3 - 4j, dtype=dtype), np.full(70_001, 3 - 4j)),
        "eye": (sc.eye(301, 299, k=-2, dtype=dtype), np.eye(301, 299, k=-2)),
    }
    check(made, "sum", scale=64.0, profile=NAIVE)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_contractions(dtype: sc.DType) -> None:
    a, b = z((3, 17, 130), dtype), z((3, 130, 9), dtype)
    real = np.random.default_rng(5).uniform(-1, 1, (17, 130)).astype(real_dtype(dtype).numpy)
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


@pytest.mark.parametrize("profile", PROFILES)
def test_gradients(profile: str) -> None:
    a, b = z((6, 5), sc.complex64), z((5, 7), sc.complex64)
    x, y = sc.tensor(a, requires_grad=True), sc.tensor(b, requires_grad=True)
    product = sc.exp(x @ y * 0.125)
    moved = sc.concat([sc.tril(product), sc.pad(product, ((0, 0), (0, 0)))], 0)
    loss = sc.square(sc.abs(moved)).sum() + sc.norm(sc.take(x, np.array([1, 1]), 0), 1)
    loss = loss + sc.abs(sc.prod(y[:3, :2]))
    gradients = sc.grad(loss, [x, y])
    found = sc.compile(gradients, PROFILES[profile]).run()
    right = sc.compile(gradients, profile_of("cpu_fallback")).run()
    for have, want in zip(found, right, strict=True):
        wide = want.numpy().astype(np.complex128)
        scale = np.abs(wide).max()
        assert_close(have.numpy(), wide, sc.complex64, "tanh", k_extent=64, scale=scale)
