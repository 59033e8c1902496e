"""Contractions on the device: every box, way to read and cut, against sums in f64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from device_leaves import device_array
from op_cases import fast_profile, profile_of
from planning import plan_anew
from test_gemm import assert_product, product, run, sample
from tolerance import EPSILON

import softcuda as sc
from softcuda.backends.cuda import contract_packed, contract_soonest
from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_rule import cuts, shapes
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, ContractTile
from softcuda.dtype import DType, bf16, compute_dtype, f16, f32, f64, promote

Array = np.ndarray[Any, Any]

NAME = "cuda_contract"
CONTRACT = profile_of(NAME)
TILES = [
    pytest.param(dtype, tile, id=f"{dtype}_{tile.name}")
    for dtype, tiles in CONTRACT_TILES.items()
    for tile in tiles
]
# Each class of labels, in orders that make boxes over several of them; extents off every multiple.
EQUATIONS = [
    ("ij,jk->ik", (150, 37), (37, 141)),
    ("ij,kj->ki", (100, 72), (260, 72)),
    ("adb,cd->cba", (40, 24, 72), (24, 24)),
    ("afbce,df->edcba", (24, 17, 6, 5, 36), (24, 17)),
    ("cged,bafg->fedcba", (8, 12, 6, 8), (6, 24, 5, 12)),
    ("dca,cbd->ba", (40, 30, 60), (30, 50, 40)),
    ("bij,bjk->ikb", (3, 134, 20), (3, 20, 36)),
]


def force(monkeypatch: pytest.MonkeyPatch, tile: ContractTile, shape: int, is_cut: bool) -> None:
    """Make every contraction take a tile: its boxes of that number, cut along the depth or not."""

    def chosen(problem: ContractProblem, multiprocessors: int) -> BoxChoice:
        found = shapes(problem, tile, multiprocessors)
        choice = found[shape % len(found)]
        every = list(cuts(problem, choice, multiprocessors)) if is_cut else []
        return every[-1] if every else choice

    plan_anew(monkeypatch)
    monkeypatch.setattr(contract_packed, "choose", chosen)
    for module in (contract_packed, contract_soonest):  # operands and results stay where they lie
        monkeypatch.setattr(module, "WASTED", math.inf)
    monkeypatch.setattr(contract_packed, "MAX_BYTES", 0)
    monkeypatch.setattr(contract_soonest, "sooner_product", lambda *_: None)


@pytest.mark.sanitize
@pytest.mark.parametrize("shape", range(3))
@pytest.mark.parametrize(("dtype", "tile"), TILES)
def test_boxes(
    dtype: DType, tile: ContractTile, shape: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, tile, shape, is_cut=False)
    for equation, a, b in EQUATIONS:
        x, y = sample(a, dtype), sample(b, dtype, 1)
        assert_product(run(equation, x, y, NAME), equation, x, y)


@pytest.mark.sanitize
@pytest.mark.parametrize(("dtype", "tile"), TILES)
def test_cuts_along_the_depth(
    dtype: DType, tile: ContractTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits in every run."""
    force(monkeypatch, tile, 0, is_cut=True)
    for equation, a, b in (
        ("ij,jk->ik", (30, 10_003), (10_003, 17)),
        ("dca,cbd->ba", (100, 30, 60), (30, 50, 100)),
    ):
        x, y = sample(a, dtype), sample(b, dtype, 1)
        found = run(equation, x, y, NAME)
        assert_product(found, equation, x, y)
        assert run(equation, x, y, NAME).tobytes() == found.tobytes()


def test_the_choice_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cuts every box adds in one order."""
    x, y = sample((24, 40, 8, 36), f32), sample((20, 40), f32, 1)
    equation = "afbe,df->edba"
    right = run(equation, x, y, NAME)
    for tile in CONTRACT_TILES[f32]:
        for shape in range(3):
            force(monkeypatch, tile, shape, is_cut=False)
            assert run(equation, x, y, NAME).tobytes() == right.tobytes()


def test_plain_products_by_tiles() -> None:
    """Products of matrices and their private sums go to gemm_tiled.cu, from within this backend."""
    for equation, a, b in (
        ("ij,jk->ik", (300, 70), (70, 140)),
        ("ijp,jk->ik", (90, 33, 4), (33, 60)),
    ):
        x, y = sample(a, f32), sample(b, f32, 1)
        assert_product(run(equation, x, y, NAME), equation, x, y)


def test_many_tasks_a_block() -> None:
    """Blocks take several boxes, whole and at the edges, of a depth of one and of several steps."""
    for depth in (3, 8, 24, 100):
        x, y = sample((70, depth, 30, 44), f32), sample((50, depth, 20), f32, 1)
        assert_product(run("akbc,dke->ecdba", x, y, NAME), "akbc,dke->ecdba", x, y)


@pytest.mark.sanitize
def test_strides_of_views() -> None:
    """Views of a leaf: stepped, reversed, turned, stretched, and off any alignment."""
    big = sample((90, 140), f32)
    leaf = sc.tensor(big)
    views = [
        (leaf[1:61, 3:73], big[1:61, 3:73]),
        (leaf[::-1, ::2][:60, :70], big[::-1, ::2][:60, :70]),
        (sc.permute_dims(leaf, (1, 0))[5:65, 7:77], big.T[5:65, 7:77]),
        (sc.broadcast_to(leaf[:1, :70], (60, 70)), np.broadcast_to(big[:1, :70], (60, 70))),
        (sc.broadcast_to(leaf[:60, :1], (60, 70)), np.broadcast_to(big[:60, :1], (60, 70))),
    ]
    for x, a in views:
        for y, b in views:
            node = product("ij,kj->ik", x, y)
            found = sc.compile(node, CONTRACT, strict=True).run().numpy()
            assert_product(found, "ij,kj->ik", a, b)


@pytest.mark.parametrize("equation", ["ik,jk->ij", "ki,jk->ij"])
def test_a_copy_in_front_of_a_plain_product(equation: str) -> None:
    """An operand that lies along the depth is copied into rows, with a chain behind the product."""
    left = (2048, 1024) if equation.startswith("ik") else (1024, 2048)
    x, y = sample(left, f32), sample((2048, 1024), f32, 1)
    a, b = equation.split("->", maxsplit=1)[0].split(",")
    node = sc.relu(sc.einsum(equation, sc.tensor(x), sc.tensor(y)) * 0.5)
    executable = sc.compile(node, fast_profile())
    families = [launch.spec.family for s in executable.program.steps for launch in s.launches]
    assert any(name.startswith("permute_") for name in families)
    right = np.maximum(np.einsum(f"{a},{b}->ij", x.astype(np.float64), y.astype(np.float64)) / 2, 0)
    found = executable.run().numpy()
    error = np.linalg.norm(found - right) / np.linalg.norm(right)
    assert error <= EPSILON[f32] * np.sqrt(1024)


def test_operands_of_two_dtypes() -> None:
    for a, b in ((f16, f32), (bf16, f16), (f64, f16), (sc.i32, f32), (f16, sc.i64)):
        x, y = sample((36, 20, 24), a), sample((20, 18), b, 1)
        assert_product(run("ijp,jk->kip", x, y, NAME), "ijp,jk->kip", x, y)


def test_infinities_stay_where_they_are() -> None:
    a, b = sample((70, 50), f32), sample((50, 45), f32, 1)
    a[3, 4], a[5, 6], a[5, 7], b[7, 8], b[4, 9], b[:, 11] = np.inf, -np.inf, np.inf, np.nan, 0, 1e36
    assert_product(run("ij,jk->ik", a, b, NAME), "ij,jk->ik", a, b)


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", CONTRACT_TILES, ids=str)
def test_columns_of_no_label(dtype: DType) -> None:
    """Depths of several labels, below one step and off its multiples, summed into rows alone."""
    for extent in (2, 3, 6, 7):
        x, y = sample((extent,) * 4, dtype), sample((extent,) * 2, dtype, 1)
        for equation in ("abcd,ac->bd", "abcd,bd->ac", "abcd,cd->ab"):
            assert_product(run(equation, x, y, NAME), equation, x, y)


@pytest.mark.sanitize
@pytest.mark.parametrize("is_cut", [False, True])
def test_chains_read_nothing_beyond_edges(is_cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a box that do not exist would lie megabytes behind the chain's operand."""
    force(monkeypatch, CONTRACT_TILES[f32][-1], 0, is_cut)
    x, y = sc.tensor(sample((9, 300, 13), f32)), sc.tensor(sample((21, 300), f32, 1))
    far = np.zeros((13, 1 << 20), np.float32)
    bias = far[:, : 21 * 9].reshape(13, 21, 9)
    bias[...] = sample((13, 21, 9), f32, 2)
    assert np.shares_memory(far, bias)
    plain = sc.compile(product("akb,ck->bca", x, y), CONTRACT, strict=True).run().numpy()
    made = product("akb,ck->bca", x, y) + sc.Tensor.leaf(device_array(bias))
    executable = sc.compile(made, fast_profile(matmul=NAME))
    (step,) = (step for step in executable.program.steps if step.backend_id == NAME)
    assert len(step.chain) > 1
    np.testing.assert_array_equal(executable.run().numpy(), plain + bias)


@pytest.mark.sanitize
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("dtype", CONTRACT_TILES, ids=str)
def test_chains_change_no_bit(dtype: DType, is_cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias, an activation, a factor and a cast behind a product, of rows that are stretched."""
    force(monkeypatch, CONTRACT_TILES[dtype][-1], 0, is_cut)
    x, y = sc.tensor(sample((40, 300, 12), dtype)), sc.tensor(sample((20, 300), dtype, 1))
    bias, scale = sample((12, 1, 40), dtype, 2), sample((20, 1), f32, 3)
    pair = product("akb,ck->bca", x, y)
    plain = sc.compile(pair, CONTRACT, strict=True).run().numpy()
    made = sc.cast(sc.relu(product("akb,ck->bca", x, y) + sc.tensor(bias)) * sc.tensor(scale), f32)
    executable = sc.compile(made, fast_profile(matmul=NAME))
    fused = [step for step in executable.program.steps if step.backend_id == NAME]
    assert len(fused) == 1 and len(fused[0].chain) > 1
    compute = compute_dtype(dtype).numpy
    added = (plain.astype(compute) + bias.astype(compute)).astype(dtype.numpy)
    active = np.maximum(added.astype(compute), 0).astype(dtype.numpy)
    wide = promote(dtype, f32).numpy
    right = (active.astype(wide) * scale.astype(wide)).astype(np.float32)
    np.testing.assert_array_equal(executable.run().numpy(), right)


# Batch labels that are contiguous in the result, in one operand, in all; odd extents among them.
INSIDE = [
    ("caed,cdb->baec", (40, 11, 24, 20), (40, 20, 36)),
    ("acd,cdb->bad", (61, 50, 37), (50, 37, 44)),
    ("bca,adc->cbd", (31, 24, 40), (40, 72, 24)),
    ("ijb,jkb->ikb", (48, 40, 64), (40, 52, 64)),
]


@pytest.mark.sanitize
@pytest.mark.parametrize("dtype", CONTRACT_TILES, ids=str)
@pytest.mark.parametrize(("equation", "a", "b"), INSIDE)
def test_batches_inside(
    equation: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    dtype: DType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operands copied in front and results moved behind, however little that is worth."""
    plan_anew(monkeypatch)
    for module in (contract_packed, contract_soonest):
        monkeypatch.setattr(module, "MIN_BYTES", 0)
        monkeypatch.setattr(module, "WORTH", math.inf)
    x, y = sample(a, dtype), sample(b, dtype, 1)
    node = product(equation, sc.tensor(x), sc.tensor(y))
    executable = sc.compile(node, CONTRACT, strict=True)
    launches = [launch for step in executable.program.steps for launch in step.launches]
    if dtype is f32:
        assert any(launch.spec.family.startswith("permute_") for launch in launches)
    assert_product(executable.run().numpy(), equation, x, y)


def test_a_chain_in_front_of_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operands are read by label where the result lies in another order."""
    equation = "caed,cdb->baec"
    x, y = sample((40, 11, 24, 20), f32), sample((40, 20, 36), f32, 1)
    bias, scale = sample((36, 1, 24, 40), f32, 2), sample((11, 1, 1), f32, 3)
    node = product(equation, sc.tensor(x), sc.tensor(y))
    plain = sc.compile(node, CONTRACT, strict=True).run().numpy()
    plan_anew(monkeypatch)
    monkeypatch.setattr(contract_soonest, "MIN_BYTES", 0)
    monkeypatch.setattr(contract_soonest, "WORTH", math.inf)
    pair = product(equation, sc.tensor(x), sc.tensor(y))
    made = sc.relu(pair + sc.tensor(bias)) * sc.tensor(scale)
    executable = sc.compile(made, fast_profile(matmul=NAME))
    (step,) = (step for step in executable.program.steps if step.backend_id == NAME)
    assert len(step.chain) > 1 and step.launches[-1].spec.family.startswith("permute_")
    right = np.maximum(plain + bias, 0) * scale
    found = executable.run().numpy()
    error = np.linalg.norm((found - right).astype(np.float64)) / np.linalg.norm(right)
    assert error <= EPSILON[f32] * np.sqrt(20)
