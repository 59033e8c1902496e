"""Rows and running sums of cuda_reduce as the compiler sees them: which kernel, which tile."""

from __future__ import annotations

import pytest
from chain_cases import micro_of
from reduce_steps import H200, families, step_for

from softcuda.backends import cuda_reduce
from softcuda.backends.cuda.row_tiles import FullTile, HeldTile, full_tiles, held_tiles
from softcuda.backends.cuda.rows import plan_row, rows_of
from softcuda.backends.launches import i64
from softcuda.backends.steps import Operand, Unit
from softcuda.dtype import REAL_DTYPES, DType, bf16, f16, f32, f64
from softcuda.graph.params import Cumulative, Dims, LayerNorm, Softmax
from softcuda.graph.shapes import contiguous_strides

ROWS = [
    ("softmax", (8192, 8188), Softmax(1), "softmax_held", "softmax_rows"),
    ("softmax", (64, 1 << 20), Softmax(1), "softmax_rows", "softmax_rows"),
    ("log_softmax", (8192, 8192), Softmax(0), "softmax_columns", "softmax_columns"),
    ("softmax", (5,), Softmax(0), "softmax_held", "softmax_rows"),
    ("softmax", (9, 1031), Softmax(1), "softmax_held", "softmax_rows"),
    ("cumsum", (4096, 4096), Cumulative(1), "scan_rows", "scan_rows"),
    ("cumsum", (4096, 4096), Cumulative(0), "scan_columns", "scan_columns"),
    (
        "layer_norm",
        (512, 768),
        LayerNorm(1, "1e-05", False, False),
        "layer_norm_held",
        "layer_norm",
    ),
    ("layer_norm", (3, 40_000), LayerNorm(1, "1e-05", False, False), "layer_norm", "layer_norm"),
]


@pytest.mark.parametrize(("name", "dims", "params", "of_floats", "of_others"), ROWS, ids=str)
@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
def test_rows_and_scans(
    name: str, dims: Dims, params: object, of_floats: str, of_others: str, dtype: DType
) -> None:
    """Rows of the result's dtype that are short enough stay in registers."""
    operand = Operand(0, 0, dims, contiguous_strides(dims), dtype)
    step = step_for([micro_of(name, (0,), [operand], params)], [operand])
    assert families(step)[-1] == (of_floats if dtype.is_float else of_others)
    nothing = operand._replace(dims=(0, *dims[1:]))
    assert not step_for([micro_of(name, (0,), [nothing], params)], [nothing]).launches


def test_the_shortest_tile_that_holds_a_row() -> None:
    for family, params in (
        ("softmax", Softmax(1)),
        ("layer_norm", LayerNorm(1, "1e-05", False, False)),
    ):
        for dtype in (f16, bf16, f32, f64):
            tiles = held_tiles(family, dtype)
            for length in (2, 3, 127, 129, 1000, 4096, 8191, 8193, 16384):
                dims = (7, length)
                operand = Operand(0, 0, dims, contiguous_strides(dims), dtype)
                unit = Unit((micro_of(family, (0,), [operand], params),), (operand,), operand, (0,))
                plan = plan_row(rows_of(unit), H200)
                held = [t.vectors * 16 // dtype.itemsize * t.team for t in tiles]
                if length > max(held):
                    assert plan.tile is None
                    continue
                assert plan.tile == tiles[next(k for k, n in enumerate(held) if n >= length)]
                each = plan.tile.vectors * 16 // dtype.itemsize
                assert plan.team * each >= length
                assert plan.team == 1 or plan.team // 2 * each < length
                assert plan.team <= plan.tile.team <= plan.tile.threads


@pytest.mark.parametrize("rows", [1, 33, 65536])
def test_blocks_that_go_over_rows_are_held_at_once(rows: int) -> None:
    """Further blocks would begin when the first have done their share."""
    for length, variant in ((120, "bf16_2x256x4_ahead"), (128, "bf16_2x8x256x4x4")):
        operand = Operand(0, 0, (rows, length), (length, 1), bf16)
        micro = micro_of("layer_norm", (0,), [operand], LayerNorm(1, "1e-05", False, False))
        (launch,) = step_for([micro], [operand]).launches
        assert launch.spec.variant == variant
        held = H200.multiprocessors * held_tiles("layer_norm", bf16)[0].blocks
        assert launch.grid == (min(-(-rows // 32), held), 1, 1)


def unit_of_rows(family: str, dims: Dims, strides: Dims, dtype: DType) -> Unit:
    params = Softmax(1) if family == "softmax" else LayerNorm(1, "1e-05", False, False)
    operand = Operand(0, 0, dims, strides, dtype)
    micro = micro_of(family, (0,), [operand], params)
    return Unit((micro,), (operand,), operand._replace(strides=contiguous_strides(dims)), (0,))


FLOATS = (f16, bf16, f32, f64)


@pytest.mark.parametrize("family", ["softmax", "layer_norm"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rows_that_fill_their_teams_have_kernels_of_their_own(family: str, dtype: DType) -> None:
    tiles = {
        tile.vectors * 16 // dtype.itemsize * tile.team: tile for tile in full_tiles(family, dtype)
    }
    assert min(tiles) * dtype.itemsize in (256, 512)
    for length, tile in tiles.items():
        whole = unit_of_rows(family, (70, length), (length, 1), dtype)
        plan = plan_row(rows_of(whole), H200)
        assert plan == (tile, tile.team)
        (launch,) = cuda_reduce.prepare(whole, H200)[0].launches
        teams = tile.threads // tile.team
        assert launch.grid == (-(-70 // teams), 1, 1)
        assert launch.shared_bytes == launch.spec.shared_bytes == tile.ring_bytes
        assert launch.arguments[-2:] == (i64(70), i64(length))
        apart = unit_of_rows(family, (70, length), (2 * length, 1), dtype)
        assert cuda_reduce.prepare(apart, H200)[0].launches[0].arguments[-1] == i64(2 * length)
        for dims, strides in (
            ((70, length - 1), (length - 1, 1)),
            ((70, length), (length + 1, 1)),
            ((70, length), (2 * length, 2)),
        ):
            others = unit_of_rows(family, dims, strides, dtype)
            assert not isinstance(plan_row(rows_of(others), H200).tile, FullTile)
        of_sm_75 = plan_row(rows_of(whole), H200._replace(arch="sm_75")).tile
        assert isinstance(of_sm_75, HeldTile if tile.ahead else FullTile)


def test_a_long_running_sum_takes_three_launches() -> None:
    operand = Operand(0, 0, (1 << 24,), (1,), f32)
    step = step_for([micro_of("cumsum", (0,), [operand], Cumulative(0))], [operand])
    assert families(step) == ["scan_rows", "scan_carries", "scan_rows"]
    assert step.scratch_bytes == -(-step.launches[0].grid[1] * 8 // 256) * 256
