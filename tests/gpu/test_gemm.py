"""Tiled products on a device, through the product, against NumPy in float64.

Every tile at its edges, every storage order, splits of k, strides, batches, several labels of a
class, private and stretched labels, chains behind, special values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_units import labels_of
from op_cases import profile_of
from planning import plan_anew
from tolerance import assert_close

import softcuda as sc
from softcuda.backends.cuda import gemm
from softcuda.backends.cuda.gemm_plan import GemmPlan, Reading
from softcuda.backends.cuda.gemm_tiles import (
    GEMM_TILES,
    GemmSize,
    GemmTile,
    GemmVariant,
    cut_variant,
    tile_count,
)
from softcuda.dtype import DType, compute_dtype, dtype_of_array, f16, f32, f64, promote
from softcuda.graph.op import OPS
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.vocabulary import work_ops
from softcuda.tensor import Tensor

Array = np.ndarray[Any, Any]

TILED = Profile(
    "tiled",
    {"soft_version": "0.1.0"},
    DeviceFacts(),
    tuple(
        Row(op, None, 0, None, "cuda_tiled" if op == "matmul" else "cuda_elementwise")
        for op in work_ops()
    ),
)
TILES = [
    pytest.param(dtype, tile, id=f"{dtype}_{tile.name}")
    for dtype, tiles in GEMM_TILES.items()
    for tile in tiles
]


def sample(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
    return np.asarray(rng.integers(-9, 10, shape)).astype(dtype.numpy)


def product(equation: str, a: Tensor, b: Tensor) -> Tensor:
    """Return the node of a contraction by its labels."""
    return a.apply(OPS["matmul"], (a, b), labels_of(equation))


def stretched(equation: str, a: Array, b: Array) -> tuple[Array, Array, int]:
    """Return both operands in f64 with extents of 1 stretched, and how many terms are summed."""
    operands, out = equation.split("->")
    names = operands.split(",")
    extents: dict[str, int] = {}
    for labels, array in zip(names, (a, b), strict=True):
        for label, extent in zip(labels, array.shape, strict=True):
            extents[label] = extent if extents.get(label, 1) == 1 else extents[label]
    wide = [
        np.broadcast_to(array.astype(np.float64), [extents[label] for label in labels])
        for labels, array in zip(names, (a, b), strict=True)
    ]
    terms = int(np.prod([extent for label, extent in extents.items() if label not in out]))
    return wide[0], wide[1], terms


def assert_product(found: Array, equation: str, a: Array, b: Array) -> None:
    """Compare with the sum in f64."""
    dtype = promote(dtype_of_array(a.dtype), dtype_of_array(b.dtype))
    x, y, terms = stretched(equation, a.astype(dtype.numpy), b.astype(dtype.numpy))
    with np.errstate(all="ignore"):
        expected = np.einsum(equation, x, y)
        scale = np.einsum(equation, np.abs(x), np.abs(y))
    assert_close(found, expected, dtype, "matmul", k_extent=max(terms, 1), scale=scale)


def run(equation: str, a: Array, b: Array, backend_id: str = "cuda_tiled") -> Array:
    """Return a contraction of two arrays on a backend, which may not be stood in for."""
    y = product(equation, sc.tensor(a), sc.tensor(b))
    executable = sc.compile(y, profile_of(backend_id), strict=True)
    return np.asarray(executable.run().numpy())


def force(monkeypatch: pytest.MonkeyPatch, tile: GemmTile, splits: int, whole: int = 0) -> None:
    """Make every product take a tile, and cut those behind the first ones into parts."""

    def choose(size: GemmSize, dtype: DType, multiprocessors: int) -> GemmVariant[GemmTile]:
        tiles = tile_count(size, tile)
        return cut_variant(size, tile, tiles if splits == 1 else min(whole, tiles - 1), splits)

    plan_anew(monkeypatch)
    monkeypatch.setattr(gemm, "choose_variant", choose)


@pytest.mark.sanitize
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("dtype", "tile"), TILES)
def test_tiles_at_their_edges(
    dtype: DType, tile: GemmTile, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact tiles and those one more or less, in the four storage orders and their results."""
    force(monkeypatch, tile, splits)
    for m, n, k in (
        (tile.m, tile.n, 3 * tile.k * splits),
        (tile.m + 1, tile.n - 1, tile.k * splits + 1),
        (tile.m - 1, tile.n + 4, 2 * tile.k * splits - 1),
        (1, 1, 13),
    ):
        for order in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ki"):
            shapes = (m, k) if order[:2] == "ij" else (k, m), (k, n) if order[3] == "j" else (n, k)
            a, b = (sample(shape, dtype) for shape in shapes)
            assert_product(run(order, a, b), order, a, b)


@pytest.mark.sanitize
@pytest.mark.parametrize(("dtype", "tile"), TILES)
def test_operands_read_in_any_way(
    dtype: DType, tile: GemmTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The four storage orders by the kernel that chooses among all ways to read."""
    force(monkeypatch, tile, 1)
    monkeypatch.setattr(GemmPlan, "readings", (Reading.ANY, Reading.ANY))
    for m, n, k in ((tile.m, tile.n, 3 * tile.k), (tile.m + 1, tile.n - 1, tile.k + 1)):
        for order in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ki"):
            shapes = (m, k) if order[:2] == "ij" else (k, m), (k, n) if order[3] == "j" else (n, k)
            a, b = (sample(shape, dtype) for shape in shapes)
            assert_product(run(order, a, b), order, a, b)


@pytest.mark.sanitize
@pytest.mark.parametrize(("dtype", "tile"), TILES)
def test_only_the_last_tiles_are_cut(
    dtype: DType, tile: GemmTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole tiles change no bit beside cut ones, in batches too."""
    m, n, k = 2 * tile.m + 1, 2 * tile.n - 3, 9 * tile.k + 1
    a, b = sample((2, m, k), dtype), sample((2, k, n), dtype, 1)
    force(monkeypatch, tile, 1)
    whole = run("bij,bjk->bik", a, b)
    force(monkeypatch, tile, 4, whole=7)
    found = run("bij,bjk->bik", a, b)
    assert_product(found, "bij,bjk->bik", a, b)
    assert found[0].tobytes() == whole[0].tobytes()


@pytest.mark.sanitize
@pytest.mark.parametrize("few", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("dtype", GEMM_TILES, ids=str)
def test_few_rows_or_columns(dtype: DType, few: int) -> None:
    """A few rows times a matrix of either order, with whole vectors and without, cut and not."""
    for wide, k in ((64, 40), (132, 1200), (131, 1201), (5000, 300), (300, 5001)):
        for order in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "kj,ji->ki"):
            names = order.split("->")[0].split(",")
            extents = {"i": few, "j": k, "k": wide}
            x, y = (
                sample(tuple(extents[label] for label in labels), dtype, seed)
                for seed, labels in enumerate(names)
            )
            assert_product(run(order, x, y), order, x, y)


@pytest.mark.sanitize
def test_a_chain_behind_a_few_rows() -> None:
    a, b, c = sample((3, 4096), f32), sample((4096, 260), f32, 1), sample((260,), f32, 2)
    y = sc.compile(sc.relu(sc.tensor(a) @ sc.tensor(b) + sc.tensor(c)), TILED)
    assert "gemm_narrow" in str(y)
    plain = sc.compile(sc.tensor(a) @ sc.tensor(b), TILED).run().numpy()
    np.testing.assert_array_equal(y.run().numpy(), np.maximum(plain + c, 0))


@pytest.mark.sanitize
@pytest.mark.parametrize("backend_id", ["cuda_tiled", "cuda_naive"])
@pytest.mark.parametrize("dtype", GEMM_TILES, ids=str)
@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        ("bij,bjk->ikb", (3, 34, 20), (3, 20, 36)),
        ("abc,dce->edab", (3, 4, 8), (4, 8, 4)),
        ("abcd,ebfd->acef", (3, 4, 5, 6), (7, 4, 3, 6)),
        ("abcd,dbea->ec", (3, 4, 5, 6), (6, 4, 7, 3)),
        ("abcdefgh,hgfedcba->", (2,) * 8, (2,) * 8),
        ("i,i->", (1000,), (1000,)),
        ("i,j->ij", (40,), (37,)),
        (",ij->ij", (), (4, 5)),
        ("ij,ij->ji", (33, 34), (33, 34)),
        ("ijp,jkq->ik", (5, 6, 3), (6, 7, 4)),
        ("ij,jk->ik", (4, 1), (7, 5)),
        ("aij,ajk->aik", (1, 4, 5), (3, 5, 6)),
        ("ij,jk->ik", (4, 0), (0, 5)),
        ("ij,jk->ik", (4, 1), (0, 5)),
        ("ij,jk->ik", (0, 3), (3, 5)),
    ],
)
def test_labels_of_every_class(
    equation: str, a: tuple[int, ...], b: tuple[int, ...], dtype: DType, backend_id: str
) -> None:
    x, y = sample(a, dtype), sample(b, dtype, 1)
    assert_product(run(equation, x, y, backend_id), equation, x, y)


@pytest.mark.parametrize("size", [1, 31, 127, 129, 257, 509, 1024, 2049])
@pytest.mark.parametrize("dtype", GEMM_TILES, ids=str)
def test_squares(dtype: DType, size: int) -> None:
    a, b = sample((size, size), dtype), sample((size, size), dtype, 1)
    assert_product(run("ij,jk->ik", a, b), "ij,jk->ik", a, b)


@pytest.mark.parametrize("dtype", GEMM_TILES, ids=str)
def test_few_outputs_and_many_terms(dtype: DType) -> None:
    """Split, and the same bits in every run."""
    a, b = sample((30, 100_003), dtype), sample((100_003, 17), dtype, 1)
    first = run("ij,jk->ik", a, b)
    assert_product(first, "ij,jk->ik", a, b)
    assert run("ij,jk->ik", a, b).tobytes() == first.tobytes()


@pytest.mark.sanitize
@pytest.mark.parametrize("backend_id", ["cuda_tiled", "cuda_naive"])
def test_strides(backend_id: str) -> None:
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
            found = sc.compile(node, profile_of(backend_id), strict=True).run().numpy()
            assert_product(found, "ij,kj->ik", a, b)


@pytest.mark.parametrize("backend_id", ["cuda_tiled", "cuda_naive"])
def test_mixed_dtypes(backend_id: str) -> None:
    for a, b in ((f16, f32), (sc.bf16, f16), (f64, f16), (sc.i32, f32), (f16, sc.i64)):
        x, y = sample((35, 21), a), sample((21, 18), b, 1)
        assert_product(run("ij,jk->ik", x, y, backend_id), "ij,jk->ik", x, y)
        x3 = sample((35, 21, 3), a)
        assert_product(run("ijp,jk->ik", x3, y, backend_id), "ijp,jk->ik", x3, y)


def test_integers_wrap() -> None:
    rng = np.random.default_rng(3)
    for number in (np.int32, np.int64):
        ends = np.iinfo(number)
        a = rng.integers(ends.min, ends.max, (20, 30), number)
        b = rng.integers(ends.min, ends.max, (30, 10), number)
        np.testing.assert_array_equal(run("ij,jk->ik", a, b, "cuda_naive"), a @ b)


@pytest.mark.parametrize("backend_id", ["cuda_tiled", "cuda_naive"])
def test_special_values(backend_id: str) -> None:
    a, b = sample((70, 50), f32), sample((50, 45), f32, 1)
    a[3, 4], a[5, 6], a[5, 7], b[7, 8], b[4, 9], b[:, 11] = np.inf, -np.inf, np.inf, np.nan, 0, 1e36
    assert_product(run("ij,jk->ik", a, b, backend_id), "ij,jk->ik", a, b)


@pytest.mark.sanitize
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("dtype", "tile"), TILES)
def test_chains_behind_a_product_change_no_bit(
    dtype: DType, tile: GemmTile, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, tile, splits)
    m, n, k = tile.m + 3, tile.n + 5, 2 * tile.k * splits
    a, b = sc.tensor(sample((m, k), dtype)), sc.tensor(sample((k, n), dtype, 1))
    bias, scale = sample((n,), dtype, 2), sample((m, 1), f32, 3)
    plain = sc.compile(a @ b, TILED).run().numpy()
    y = sc.cast(sc.relu(a @ b + sc.tensor(bias)) * sc.tensor(scale), f32)
    executable = sc.compile(y, TILED)
    assert "cuda_tiled" in str(executable)
    fused = [step for step in executable.program.steps if step.backend_id == "cuda_tiled"]
    assert [len(step.chain) for step in fused][-1] > 1
    compute = compute_dtype(dtype).numpy
    added = (plain.astype(compute) + bias.astype(compute)).astype(dtype.numpy)
    active = np.maximum(added.astype(compute), 0).astype(dtype.numpy)
    wide = promote(dtype, f32).numpy
    right = (active.astype(wide) * scale.astype(wide)).astype(np.float32)
    np.testing.assert_array_equal(executable.run().numpy(), right)
