"""Elementwise ops in the loads of products on the device, against the same ops in front of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_contract
import test_gemm
from device_leaves import device_array
from op_cases import fast_profile
from planning import plan_anew
from test_gemm import assert_product, product, sample
from tolerance import assert_close

import softcuda as sc
from softcuda.backends.cuda import contract_products, gemm_packed
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, ContractTile
from softcuda.backends.cuda.gemm_tiles import GemmTile
from softcuda.dtype import DType, bf16, bool_, compute_dtype, f16, f32, f64, i32, i64
from softcuda.executor.executable import Executable

Array = np.ndarray[Any, Any]
Chain = Callable[[sc.Tensor], sc.Tensor]

BACKENDS = ("cuda_contract", "cuda_tiled")
STORED = {i32: f32, i64: f64, bool_: f32, f16: f32, bf16: f32, f32: f64}  # and what it is cast to


def bent(x: sc.Tensor) -> sc.Tensor:
    """Return ops that round as NumPy does, without FMA; of 0 they make another number."""
    return sc.relu(x - x * x + 0.25)


def tilted(x: sc.Tensor) -> sc.Tensor:
    """Return the same with the number on the left."""
    return sc.maximum(-2.5 - x, sc.abs(x))


def made(backend: str, *outputs: sc.Tensor) -> Executable:
    return sc.compile(list(outputs), fast_profile(matmul=backend), strict=True)


def apart(chain: Chain, x: Array) -> Array:
    """Return what the kernel of a chain alone makes of an array."""
    (found,) = made("cuda_contract", chain(sc.tensor(x))).run()
    return np.asarray(found.numpy())


def fused(
    backend: str, equation: str, x: Array, y: Array, first: Chain | None, second: Chain | None
) -> Array:
    """Return a product whose operands are made by one step."""
    a, b = sc.tensor(x), sc.tensor(y)
    node = product(equation, first(a) if first else a, second(b) if second else b)
    executable = made(backend, node)
    (step,) = (step for step in executable.program.steps if step.backend_id == backend)
    assert len(step.chain) > 1, "ops are in the loads"
    assert not any(step.backend_id == "cuda_elementwise" for step in executable.program.steps)
    (found,) = executable.run()
    return np.asarray(found.numpy())


def check(
    backend: str,
    equation: str,
    x: Array,
    y: Array,
    first: Chain | None,
    second: Chain | None,
    *,
    is_same: bool | None = None,
) -> None:
    """Compare with the product of the same values, written by launches in front of it.

    The bits are the same where the kernel is: `is_same`, else where cuda_tiled chooses by extents.
    """
    a, b = apart(first, x) if first else x, apart(second, y) if second else y
    found = fused(backend, equation, x, y, first, second)
    assert_product(found, equation, a, b)
    if backend == "cuda_tiled" if is_same is None else is_same:
        assert found.tobytes() == test_gemm.run(equation, a, b, backend).tobytes(), equation


@pytest.mark.sanitize
@pytest.mark.parametrize(("dtype", "tile"), test_contract.TILES)
def test_boxes(dtype: DType, tile: ContractTile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every box, two ways to read: the bits are those of what is written first."""
    for shape in range(2):
        test_contract.force(monkeypatch, tile, shape, is_cut=False)
        for equation, a, b in test_contract.EQUATIONS:
            x, y = sample(a, dtype), sample(b, dtype, 1)
            check("cuda_contract", equation, x, y, bent, tilted, is_same=True)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", CONTRACT_TILES, ids=str)
def test_cuts_along_the_depth(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    test_contract.force(monkeypatch, CONTRACT_TILES[dtype][-1], 0, is_cut=True)
    for equation, a, b in (
        ("ij,jk->ik", (30, 10_003), (10_003, 17)),
        ("dca,cbd->ba", (100, 30, 60), (30, 50, 100)),
    ):
        x, y = sample(a, dtype), sample(b, dtype, 1)
        check("cuda_contract", equation, x, y, bent, None)
        check("cuda_contract", equation, x, y, None, tilted)


@pytest.mark.sanitize
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("dtype", "tile"), test_gemm.TILES)
def test_tiles(dtype: DType, tile: GemmTile, splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles at their edges, in the storage orders and where each step decides how to read."""
    test_gemm.force(monkeypatch, tile, splits)
    m, n, k = tile.m + 1, tile.n - 1, 2 * tile.k * splits + 3
    for equation, a, b in (
        ("ij,jk->ik", (m, k), (k, n)),
        ("ji,kj->ik", (k, m), (n, k)),
        ("ij,jk->ik", (tile.m, 2 * tile.k * splits), (2 * tile.k * splits, tile.n)),
        ("aib,kba->ik", (tile.k, m, 9), (n, 9, tile.k)),
        ("bij,bjk->bik", (3, m, k), (3, k, n)),
    ):
        x, y = sample(a, dtype), sample(b, dtype, 1)
        check("cuda_tiled", equation, x, y, bent, tilted)


@pytest.mark.sanitize
@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", [f32, f64, f16], ids=str)
def test_a_few_rows(dtype: DType, rows: int) -> None:
    """Products of a vector and of a few rows, the wide operand along the depth or across it."""
    for equation, a, b in (
        ("ij,jk->ik", (rows, 700), (700, 264)),
        ("ij,kj->ik", (rows, 700), (261, 700)),
        ("ij,jk->ik", (300, 513), (513, rows)),
    ):
        x, y = sample(a, dtype), sample(b, dtype, 1)
        for backend in BACKENDS:
            is_same = backend == "cuda_tiled" and rows <= 4  # else gemm_tiled takes made rows
            check(backend, equation, x, y, bent, tilted, is_same=is_same)


@pytest.mark.parametrize("dtype", CONTRACT_TILES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_functions(dtype: DType, backend: str) -> None:
    """Values of exp, tanh, silu and gelu, against the same functions in f64."""
    rng = np.random.default_rng(5)

    def rounded(chain: Chain | None, x: Array) -> Array:
        wide = sc.tensor(x.astype(np.float64))
        value = sc.compile(chain(wide) if chain else wide, "default").run()
        return np.asarray(value.numpy()).astype(dtype.numpy)

    for equation, a, b in test_contract.EQUATIONS[1::3]:
        x, y = (rng.uniform(-2, 2, shape).astype(dtype.numpy) for shape in (a, b))
        for first, second in ((sc.exp, sc.tanh), (sc.silu, None), (None, sc.gelu)):
            found = fused(backend, equation, x, y, first, second)
            assert_product(found, equation, rounded(first, x), rounded(second, y))


@pytest.mark.sanitize
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_stored_is_converted(backend: str) -> None:
    """Integers, truth values and other floats are read as they are stored."""

    def widened(dtype: DType) -> Chain:
        return lambda x: sc.cast(x, dtype) + 1.0

    for stored, dtype in STORED.items():
        for equation, a, b in test_contract.EQUATIONS[:4]:
            x = sample(a, stored) if stored is not bool_ else sample(a, i32) > 0
            check(backend, equation, x, sample(b, dtype, 1), widened(dtype), bent)


@pytest.mark.sanitize
@pytest.mark.parametrize("backend", BACKENDS)
def test_strides_and_views(backend: str) -> None:
    """Ops on views of a leaf, and views behind the ops: both are read where the leaf lies."""
    big = sample((90, 140), f32)
    leaf = sc.Tensor.leaf(device_array(big))
    views: list[tuple[Callable[[Any], Any], Array]] = [
        (lambda z: z[1:61, 3:73], big[1:61, 3:73]),
        (lambda z: z[::-1, ::2][:60, :70], big[::-1, ::2][:60, :70]),
        (lambda z: sc.permute_dims(z, (1, 0))[5:65, 7:77], big.T[5:65, 7:77]),
        (lambda z: sc.broadcast_to(z[:1, :70], (60, 70)), np.broadcast_to(big[:1, :70], (60, 70))),
        (lambda z: sc.broadcast_to(z[:60, :1], (60, 70)), np.broadcast_to(big[:60, :1], (60, 70))),
        (lambda z: sc.reshape(z, (180, 70))[100:160], big.reshape(180, 70)[100:160]),
    ]
    other = sample((50, 70), f32, 1)
    for view, array in views:
        right = apart(bent, np.ascontiguousarray(array))
        for x in (bent(view(leaf)), view(bent(leaf))):
            executable = made(backend, product("ij,kj->ik", x, sc.tensor(other)))
            assert not any(s.backend_id == "cuda_elementwise" for s in executable.program.steps)
            (found,) = executable.run()
            assert_product(np.asarray(found.numpy()), "ij,kj->ik", right, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_no_number_stays_where_it_is(backend: str) -> None:
    """NaN and infinities through relu; nothing beyond an edge is made or multiplied."""
    for m, k, n in ((70, 50, 45), (257, 33, 130), (3, 900, 200)):
        x, y = sample((m, k), f32), sample((k, n), f32, 1)
        x[1, 4], x[2, 6], x[2, 7], y[7, 8], y[4, 9] = np.inf, -np.inf, np.nan, np.nan, -np.inf
        check(backend, "ij,jk->ik", x, y, sc.relu, sc.relu)
        x, y = np.zeros((m, k), np.float32), np.zeros((k, n), np.float32)
        check(backend, "ij,jk->ik", x, y, lambda z: z + 1.0, lambda z: z + 2.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_three_numbers(dtype: DType, backend: str) -> None:
    """Each is read where it belongs, those of both operands."""

    def clipped(low: float) -> Chain:
        return lambda x: sc.minimum(sc.maximum(x * 3.0, low), low + 2.5)

    for equation, a, b in (*test_contract.EQUATIONS, ("ij,jk->ik", (3, 700), (700, 264))):
        x, y = sample(a, dtype), sample(b, dtype, 1)
        check(backend, equation, x, y, clipped(-1.5), clipped(0.25))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", CONTRACT_TILES, ids=str)
def test_ops_before_and_behind(dtype: DType, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of the loads lie behind the operands of the chain behind the product."""
    if backend == "cuda_contract":
        test_contract.force(monkeypatch, CONTRACT_TILES[dtype][-1], 0, is_cut=False)
    x, y = sample((40, 300, 12), dtype), sample((20, 300), dtype, 1)
    bias, scale = sample((12, 1, 40), dtype, 2), sample((), dtype, 3)
    a, b = apart(bent, x), apart(lambda z: z * sc.tensor(scale), y)
    plain = test_gemm.run("akb,ck->bca", a, b, backend)
    node = product("akb,ck->bca", bent(sc.tensor(x)), sc.tensor(y) * sc.tensor(scale))
    executable = made(backend, sc.relu(node + sc.tensor(bias)))
    steps = [step for step in executable.program.steps if step.backend_id == backend]
    assert len(steps) == 1 and len(steps[0].chain) == 8
    compute = compute_dtype(dtype).numpy
    added = (plain.astype(compute) + bias.astype(compute)).astype(dtype.numpy)
    (found,) = executable.run()
    np.testing.assert_array_equal(found.numpy(), np.maximum(added, np.zeros((), dtype.numpy)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_extents_of_one_and_none(backend: str) -> None:
    """What is summed over nothing is 0, whatever would be made of it."""
    for m, k, n in ((1, 1, 5), (1, 40, 1), (7, 1, 9), (5, 0, 4), (2, 3, 1)):
        x, y = sample((m, k), f32), sample((k, n), f32, 1)
        node = product("ij,jk->ik", sc.tensor(x) + 1.0, sc.exp(sc.tensor(y)))
        (found,) = made(backend, node).run()
        assert_product(np.asarray(found.numpy()), "ij,jk->ik", x + 1, np.exp(y))


@pytest.mark.sanitize
def test_behind_copies_and_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are of what is stored; labels that the other operand alone has are summed first."""
    for backend in BACKENDS:
        x, y = sample((90, 33, 4), f32), sample((33, 60), f32, 1)
        check(backend, "ijp,jk->ik", x, y, None, bent)
    plan_anew(monkeypatch)
    for name in ("COPIES", "WORTH"):
        monkeypatch.setattr(contract_products, name, 1e9)
    monkeypatch.setattr(contract_products, "LONG_US", 0.0)
    monkeypatch.setattr(gemm_packed, "MIN_AREA", 1)
    x, y = sample((24, 6, 24, 5), f32), sample((6, 24, 5, 24), f32, 1)
    equation = "ijkl,jmln->imkn"
    node = product(equation, bent(sc.tensor(x)), tilted(sc.tensor(y)))
    executable = made("cuda_contract", node)
    (step,) = (step for step in executable.program.steps if step.backend_id == "cuda_contract")
    assert any(launch.spec.family.startswith("permute") for launch in step.launches)
    (found,) = executable.run()
    assert_product(np.asarray(found.numpy()), equation, apart(bent, x), apart(tilted, y))


@pytest.mark.parametrize("backend", BACKENDS)
def test_dots(backend: str) -> None:
    """Reductions of products take the ops too."""
    for equation, dims in (("ij,ij->i", (90, 300)), ("i,i->", (5000,))):
        x, y = sample(dims, f32), sample(dims, f32, 1)
        found = fused(backend, equation, x, y, bent, tilted)
        assert_product(found, equation, apart(bent, x), apart(tilted, y))


def test_named_contractions() -> None:
    """Functions of the operands, alpha, and beta times a function of C in one launch."""
    x, y, z = sample((30, 40, 20), f32), sample((40, 50), f32, 1), sample((50, 20, 30), f32, 2)
    modes: Any = {"c_modes": "mki", "alpha": 0.5, "beta": 2.0}
    modes["unary"] = [sc.UnaryOp.Relu, sc.UnaryOp.Square, sc.UnaryOp.Negate]
    node = sc.contract(sc.tensor(x), "ijk", sc.tensor(y), "jm", "mki", c=sc.tensor(z), **modes)
    executable = made("cuda_contract", node)
    assert len([s for s in executable.program.steps if s.backend_id != "transfer"]) == 1
    (found,) = executable.run()
    squares = np.square(y.astype(np.float64))
    sums, sizes = (
        np.einsum("ijk,jm->mki", part.astype(np.float64), squares)
        for part in (np.maximum(x, 0), np.abs(x))
    )
    scale = sizes + 2 * np.abs(z)
    assert_close(found.numpy(), 0.5 * sums - 2.0 * z, f32, "matmul", k_extent=40, scale=scale)
