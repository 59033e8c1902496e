"""Contractions compile in every box, way to read and with chains, without spills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gemm_units import unit_of
from test_compile_gemm import compiled

from softcuda.backends import cuda_contract, cuda_tiled
from softcuda.backends.cuda.contract import contract_spec
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, STATIC_BYTES
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.emitter import chain_header, emit
from softcuda.backends.steps import Micro
from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i64
from softcuda.graph.op import OPS
from softcuda.nvrtc.compiler import compile_unit
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
ENDS = ["sm_75", "sm_90a"]


@pytest.mark.parametrize("number", range(len(CONTRACT_TILES[f32])))
def test_boxes_and_ways(number: int) -> None:
    """Each box with two ways to read: one for each architecture, in turn."""
    tile, turn = CONTRACT_TILES[f32][number], 1 if number % 2 else -1
    ways = (Way.ROWS_APART, Way.DEPTH_SINGLE), (Way.DEPTH_SINGLE, Way.ROWS_VECTOR)
    for pair, arch in zip(ways, ENDS[::turn], strict=True):
        compiled(contract_spec(f32, f32, f32, tile, pair), arch)


@pytest.mark.parametrize("arch", ENDS)
def test_wide_offsets(arch: str) -> None:
    ways = Way.ROWS_APART, Way.DEPTH_SINGLE
    for dtype in (f32, f64):
        compiled(contract_spec(dtype, dtype, dtype, CONTRACT_TILES[dtype][0], ways, True), arch)


@pytest.mark.parametrize("arch", ENDS)
def test_operands_that_are_converted(arch: str) -> None:
    single, vector = (Way.ROWS_SINGLE, Way.DEPTH_SINGLE), (Way.ROWS_APART, Way.ROWS_VECTOR)
    for a, b, dtype, ways in (
        (f16, bf16, f32, vector),
        (f32, i64, f32, single),
        (f64, f16, f64, vector),
        (bool_, bf16, bf16, single),
    ):
        compiled(contract_spec(a, b, dtype, CONTRACT_TILES[dtype][-1], ways), arch)


@pytest.mark.parametrize("number", range(len(CONTRACT_TILES)))
def test_chains_behind_a_contraction(number: int) -> None:
    """A bias, an activation, a cast; in one launch and behind the sum of the parts."""
    dtype, arch = tuple(CONTRACT_TILES)[number], ENDS[number % 2]
    chain = [
        ("add", (-1, 2), f32 if dtype is f16 else dtype),
        ("gelu", (-1,), None),
        ("mul", (-1, 3), None),
        ("cast", (-1,), bf16),
    ]
    for m, k in ((512, 16), (40, 1 << 20)):
        shapes = [(m, k, 24), (k, 24), (m,), (24, 1, 1)]
        unit = unit_of("akb,kc->cba", shapes, dtype, chain)
        (step,) = cuda_contract.prepare(unit, H200)
        assert len(step.launches) == (2 if m == 40 else 1)
        for launch in step.launches:
            assert len(launch.spec.headers) == 1
            compiled(launch.spec, arch)


@pytest.mark.parametrize(
    ("dtype", "arch"), [(f32, "sm_75"), (f16, "sm_90a"), (bf16, "sm_90a")], ids=str
)
def test_eight_bytes_behind_sums_of_four(dtype: DType, arch: str) -> None:
    """A result, and a further operand, wider than what is summed: whole and behind cut tiles."""
    cast = [("cast", (-1,), f64)]
    for m, k in ((512, 16), (40, 1 << 20)):
        for chain in (cast, [*cast, ("mul", (-1, 2), f64)], [("cast", (-1,), i64)]):
            shapes = [(m, k, 24), (k, 24), (24, 1, 1)]
            unit = unit_of("akb,kc->cba", shapes[: 3 if len(chain) > 1 else 2], dtype, chain)
            (step,) = cuda_contract.prepare(unit, H200)
            assert len(step.launches) == (2 if m == 40 else 1)
            for launch in step.launches:
                compiled(launch.spec, arch)


@pytest.mark.parametrize(
    ("dtype", "other", "count"),
    [(f32, f64, 7), (f64, f64, 6), (bf16, bf16, 8)],
    ids=str,
)
@pytest.mark.parametrize(("backend", "arch"), [(cuda_contract, ENDS[0]), (cuda_tiled, ENDS[1])])
def test_chains_of_the_most_that_kernels_carry(
    backend: Any, dtype: DType, other: DType, count: int, arch: str
) -> None:
    """As many operands, and as much code, as a chain behind a product may have."""
    chain: list[Any] = []
    for number in range(count):
        chain += [("add", (-1, 2 + number), other)] + [("tanh", (-1,), None)] * (number < 4)
    shapes = [(512, 24, 40), (24, 24), *[(24, 40, 512)] * count]
    unit = unit_of("akb,kc->cba", shapes, dtype, chain)
    assert backend.carries(unit.chain[1:], [unit.result] * count, 16)
    (step,) = backend.prepare(unit, H200)
    for launch in step.launches:
        compiled(launch.spec, arch)


@pytest.mark.parametrize("extras", [None, 1, 3])
def test_shared_memory_is_foreseen(extras: int | None) -> None:
    for dtype in (f32, f64):
        for tile in CONTRACT_TILES[dtype][(extras or 0) % 2 :: 2]:
            foreseen = tile.shared_bytes(dtype.itemsize, True, extras)
            if foreseen > STATIC_BYTES:
                continue
            spec = contract_spec(dtype, dtype, dtype, tile, (Way.ROWS_SINGLE,) * 2, True)
            if extras is not None:
                struct = emit(*_chain_of(extras, dtype))
                arguments = ", ".join(("Chain", "1", *[dtype.name] * extras))
                expression = spec.expression.replace(f"Rounded<{dtype}>, 1", arguments)
                spec = replace(spec, expression=expression, headers=(chain_header(struct),))
            made = compile_unit(spec.unit, "sm_90a")
            assert made.resources is not None
            assert made.resources.shared_bytes <= foreseen <= made.resources.shared_bytes + 1024


def _chain_of(extras: int, dtype: DType) -> tuple[tuple[Micro, ...], tuple[DType, ...]]:
    sources = [(0, 1), *((~k, k + 2) for k in range(extras - 1))]
    chain = tuple(Micro(OPS["add"], pair, (8,), dtype, ()) for pair in sources)
    return chain, (dtype,) * (extras + 1)
