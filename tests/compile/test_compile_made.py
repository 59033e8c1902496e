"""Products whose operands are made as they are loaded compile without spills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from test_compile_gemm import ARCHITECTURES, compiled

from softcuda.backends.cuda.contract import contract_spec
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, ContractTile
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.gemm import gemm_spec, narrow_spec
from softcuda.backends.cuda.gemm_narrow import MAX_FEW, narrow_tile
from softcuda.backends.cuda.gemm_plan import Reading
from softcuda.backends.cuda.gemm_tiles import GEMM_TILES, GemmTile
from softcuda.backends.cuda.making import Making
from softcuda.backends.cuda.making_rule import MAX_REGISTERS, MOST_CODE
from softcuda.backends.cuda.naive_contraction import Factor
from softcuda.backends.cuda.products import with_chain
from softcuda.backends.launches import read
from softcuda.backends.steps import Micro
from softcuda.dtype import DType, bf16, bool_, compute_dtype, f16, f32, f64, i32, i64
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast
from softcuda.kernelspec import KernelSpec

ENDS = ["sm_75", "sm_90a"]
VECTORS = Way.ROWS_APART, Way.ROWS_VECTOR
ALONG = Way.DEPTH_SINGLE, Way.DEPTH_SINGLE
Factors = tuple[Factor, Factor]


def in_turn(cases: Iterable[tuple[DType, Any]]) -> list[tuple[int, DType, Any]]:
    """Return cases with the number of the architecture that the first of two kernels is for."""
    return [(number % 2, *case) for number, case in enumerate(cases)]


def op(name: str, dtype: DType, *sources: int) -> Micro:
    return Micro(OPS[name], sources, (8, 8), dtype, Cast(dtype) if name == "cast" else ())


def factor(chain: tuple[Micro, ...], stored: DType, numbers: tuple[DType, ...] = ()) -> Factor:
    places = tuple(range(2, 2 + len(numbers)))
    return Factor(read(0), stored, Making(chain, (stored, *numbers), places))


def plain(dtype: DType) -> Factor:
    """Return an operand behind one short function."""
    return factor((op("exp", dtype, 0),), dtype)


def with_numbers(dtype: DType) -> Factor:
    """Return an operand behind as many numbers as registers allow, and functions between them."""
    first = op("mul", dtype, 0, 1), op("exp", dtype, ~0), op("add", dtype, ~1, 2)
    if dtype is f64:
        return factor(first[:2], dtype, (dtype,))
    chain = (*first, op("exp", dtype, ~2), op("maximum", dtype, ~3, 3))
    return factor(chain, dtype, (dtype,) * MAX_REGISTERS)


def longest(dtype: DType) -> Factor:
    """Return an operand behind as much code as loads have."""
    chain = (op("erf", dtype, 0), op("tanh", dtype, ~0))
    made = factor(chain[:1] if dtype is f64 else chain, dtype)
    assert made.code == MOST_CODE
    return made


def check(spec: KernelSpec, dtype: DType, factors: Factors, arch: str) -> None:
    compiled(with_chain(spec, dtype, Part((), (), (dtype,)), 1, factors), arch)


def check_box(dtype: DType, tile: ContractTile, factors: Factors, ways: object, arch: str) -> None:
    stored = [each.dtype for each in factors]
    spec = contract_spec(*stored, dtype, tile, ways)  # type: ignore[arg-type, misc]
    check(spec, dtype, factors, arch)


@pytest.mark.parametrize(
    ("number", "dtype", "tile"),
    in_turn((d, tile) for d, tiles in CONTRACT_TILES.items() for tile in tiles),
    ids=str,
)
def test_boxes(number: int, dtype: DType, tile: ContractTile) -> None:
    """Both operands: short functions in vectors, numbers along the depth."""
    check_box(dtype, tile, (plain(dtype),) * 2, VECTORS, ENDS[number])
    check_box(dtype, tile, (with_numbers(dtype),) * 2, ALONG, ENDS[1 - number])


@pytest.mark.parametrize(
    ("dtype", "arch"),
    [(d, arch) for d in CONTRACT_TILES for arch in (ARCHITECTURES if d is f32 else ENDS)],
    ids=str,
)
def test_long_chains_in_boxes(dtype: DType, arch: str) -> None:
    tile = CONTRACT_TILES[dtype][0]
    check_box(dtype, tile, (longest(dtype),) * 2, (Way.ROWS_VECTOR, Way.DEPTH_SINGLE), arch)


@pytest.mark.parametrize(
    ("number", "dtype", "tile"),
    in_turn((d, tile) for d, tiles in GEMM_TILES.items() for tile in tiles),
    ids=str,
)
def test_tiles(number: int, dtype: DType, tile: GemmTile) -> None:
    for made, way, arch in (
        (plain, (Reading.DEPTH_VECTOR, Reading.ROWS_VECTOR), ENDS[number]),
        (with_numbers, (Reading.ANY, Reading.ANY), ENDS[1 - number]),
    ):
        check(gemm_spec(dtype, dtype, dtype, tile, way), dtype, (made(dtype),) * 2, arch)


@pytest.mark.parametrize(
    ("dtype", "arch"),
    [(d, arch) for d in GEMM_TILES for arch in (ARCHITECTURES if d is f32 else ENDS)],
    ids=str,
)
def test_long_chains_in_tiles(dtype: DType, arch: str) -> None:
    way = Reading.DEPTH_VECTOR, Reading.ROWS_VECTOR
    spec = gemm_spec(dtype, dtype, dtype, GEMM_TILES[dtype][0], way)
    check(spec, dtype, (longest(dtype),) * 2, arch)


@pytest.mark.parametrize(
    ("dtype", "arch"), [(f32, "sm_75"), (f64, "sm_90a"), (f16, "sm_75"), (bf16, "sm_90a")], ids=str
)
def test_a_few_rows(dtype: DType, arch: str) -> None:
    width = 16 // compute_dtype(dtype).itemsize
    for rows, way in (
        (1, Reading.DEPTH_VECTOR),
        (4, Reading.DEPTH_VECTOR),
        (8, Reading.ROWS_VECTOR),
    ):
        assert rows <= MAX_FEW
        spec = narrow_spec(dtype, dtype, dtype, narrow_tile(rows, width, way))
        for made in (with_numbers, longest):
            check(spec, dtype, (made(dtype),) * 2, arch)


@pytest.mark.parametrize("arch", ENDS)
def test_what_is_stored_otherwise(arch: str) -> None:
    """Integers, truth values and narrower floats; one operand made, and one that is converted."""
    single = Way.ROWS_SINGLE, Way.DEPTH_SINGLE
    for stored, other, dtype, ways in (
        (i32, f16, f32, VECTORS),
        (bool_, bf16, f32, VECTORS),
        (i64, f32, f64, single),
        (f16, f64, f64, VECTORS),
        (i32, f16, f16, single),
    ):
        made = factor((op("cast", dtype, 0), op("sqrt", dtype, ~0)), stored)
        for tile in (CONTRACT_TILES[dtype][0], CONTRACT_TILES[dtype][-1]):
            check_box(dtype, tile, (made, Factor(read(1), other)), ways, arch)
