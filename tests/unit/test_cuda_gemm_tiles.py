"""cuda_tiled's table, the rule that chooses a tile and a split, and what the backend refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from gemm_units import unit_of
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import cuda_tiled
from softcuda.backends.cuda.gemm import gemm_spec
from softcuda.backends.cuda.gemm_tiles import (
    GEMM_TILES,
    MAX_PART_BYTES,
    GemmSize,
    choose_variant,
    part_bytes,
    tile_count,
)
from softcuda.backends.steps import Verdict
from softcuda.dtype import DType, compute_dtype, f16, f32, i32
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)


def test_the_rule_chooses_what_was_fastest() -> None:
    names = {
        size: choose_variant(GemmSize(1, size, size, size), f32, 132).tile.name
        for size in (64, 512, 1024, 1031, 2048, 4096, 8192)
    }
    assert names == {
        64: "16x32x64",
        512: "32x64x32",
        1024: "64x64x16",
        1031: "64x64x32",
        2048: "128x128x8",
        4096: "128x64x16",
        8192: "128x64x16",
    }


def test_products_of_a_small_layer_are_one_launch() -> None:
    """Warps of a block share out k there: parts of other blocks would need a second launch."""
    for batch, width in ((32, 64), (128, 256)):
        for size in (GemmSize(1, batch, width, width), GemmSize(1, width, width, batch)):
            variant = choose_variant(size, f32, 132)
            assert variant.splits == 1
            assert variant.tile.slices > 1


@pytest.mark.parametrize("dtype", GEMM_TILES, ids=str)
def test_splits_cover_k(dtype: DType) -> None:
    for size in (
        GemmSize(1, 300, 300, 100_000),
        GemmSize(1, 1, 1, 5_000_000),
        GemmSize(3, 40, 50, 7001),
        GemmSize(2, 64, 64, 0),
        GemmSize(1, 4096, 4096, 300),
    ):
        variant = choose_variant(size, dtype, 132)
        tile, whole, splits, chunk = variant
        assert chunk % tile.k == 0
        assert splits * chunk >= size.k
        assert splits == 1 or (splits - 1) * chunk < size.k
        assert (splits == 1) == (whole == tile_count(size, tile))
        assert part_bytes(size, variant, compute_dtype(dtype).itemsize) <= MAX_PART_BYTES
    assert choose_variant(GemmSize(1, 300, 300, 100_000), dtype, 132).splits > 4


def line_of(equation: str, shapes: Sequence[tuple[int, ...]], dtype: DType) -> Verdict:
    unit = unit_of(equation, list(shapes), dtype)
    micro = unit.chain[0]
    lines = [Line(OPS["input"], (), x.dims, x.dtype, ()) for x in unit.operands]
    line = Line(micro.op, (0, 1), micro.dims, micro.dtype, micro.params)
    return cuda_tiled.supports(line, lines, H200)


def test_what_is_refused_and_why() -> None:
    assert line_of("ij,jk->ik", [(2, 3), (3, 4)], f16)
    assert "not i32" in line_of("ij,jk->ik", [(2, 3), (3, 4)], i32).reason
    assert "m of 2147483648" in line_of("ij,jk->ik", [(2**31, 1), (1, 4)], f32).reason
    assert line_of("ij,jk->ik", [(2**19, 8), (8, 2**19)], f32)
    too_many = line_of("ij,jk->ik", [(2**30, 8), (8, 2**30)], f32)
    assert f"results in {2**52} tiles" in too_many.reason
    many = "abcdefghi"
    nine = line_of(f"{many},j->{many}j", [(2,) * 9, (3,)], f32)
    assert "9 labels of m" in nine.reason
    assert line_of(f"{many},j->{many}j", [(2,) * 8 + (1,), (3,)], f32)
    add = Line(OPS["add"], (0, 1), (3,), f32, ())
    assert "not add" in cuda_tiled.supports(add, [add, add], H200).reason
    assert cuda_tiled.absorbs(add, [add, add], H200)
    power = Line(OPS["pow"], (0, 1), (3,), i32, ())
    assert "power of integers" in cuda_tiled.absorbs(power, [power, power], H200).reason
    matmul = Line(OPS["matmul"], (0, 1), (3,), f32, ())
    assert not cuda_tiled.absorbs(matmul, [add, add], H200)


def test_rows_are_listed_once() -> None:
    ids = [spec.id for spec in cuda_tiled.KERNELS]
    assert len(set(ids)) == len(ids)
    tiles = [tile for tiles in GEMM_TILES.values() for tile in tiles]
    for tile in tiles:
        spec = gemm_spec(f32, f32, f32, tile)
        assert spec.threads == tile.threads
        assert spec.threads % (32 * tile.slices) == 0


@pytest.mark.parametrize("backend_id", ["cuda_tiled", "cuda_contract"])
def test_explain_says_tiles_cuts_and_what_the_rule_expects(backend_id: str) -> None:
    a, b = sc.input((64, 65536), device="cuda"), sc.input((65536, 64), device="cuda")
    product = a @ b
    made = sc.compile(product, fast_profile(matmul=backend_id), target="sm_90a")
    text = made.explain(product)
    assert "in 8 tiles 16x32; 0 whole, 8 cut into 32 parts of k 2048 each" in text
    assert "rule: 50772 cycles on 128 multiprocessors, 25.6 us at 1980 MHz" in text
