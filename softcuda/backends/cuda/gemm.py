"""Launches of gemm_tiled.cu and gemm_narrow.cu: what a contraction and the chain behind it take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final, TypeAlias

from softcuda.backends.cuda.gemm_narrow import (
    MAX_FEW,
    NarrowTile,
    narrow_tile,
    narrow_variant,
    turned,
)
from softcuda.backends.cuda.gemm_plan import (
    GemmPlan,
    Reading,
    pack_extras,
    pack_problem,
    plan_gemm,
)
from softcuda.backends.cuda.gemm_tiles import (
    GEMM_TILES,
    MULTIPROCESSORS,
    GemmTile,
    GemmVariant,
    choose_variant,
    gemm_cycles,
    part_bytes,
    tile_count,
)
from softcuda.backends.cuda.making_rule import ISSUED, SHARE, loading_code
from softcuda.backends.cuda.naive_contraction import PreparedPair
from softcuda.backends.cuda.planned import Launches, launch_in_row, one_step
from softcuda.backends.cuda.products import (
    SUM_THREADS,
    packed_parameters,
    prepared_product,
    product_spec,
    shown_product,
    sum_spec,
    with_chain,
)
from softcuda.backends.launches import scratch, write
from softcuda.backends.steps import Step, Unit
from softcuda.dtype import DType, bf16, compute_dtype, f16, f32, f64
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "GEMM_KERNELS",
    "chosen",
    "further_products",
    "gemm_launches",
    "gemm_spec",
    "narrow_spec",
    "plan_cycles",
    "planned_product",
    "prepare_gemm",
    "product_launches",
]

Variant: TypeAlias = GemmVariant[GemmTile] | GemmVariant[NarrowTile]

MAX_BLOCKS: Final = 2**31 - 1


def plan_cycles(plan: GemmPlan, variant: Variant, multiprocessors: int) -> float:
    """Return the cycles that a product is expected to take by the rule of gemm_tiles.

    Instructions of chains in the loads are added, for each tile that loads an element. Kernels of a
    few rows have a rule of their own, and are chosen where tiles are mostly empty: 0.
    """
    if isinstance(variant.tile, NarrowTile):
        return 0.0
    sized = GemmVariant(variant.tile, variant.whole, variant.splits, variant.k_chunk)
    cycles = gemm_cycles(plan.size, sized, multiprocessors, compute_dtype(plan.dtype).itemsize)
    made = variant.tile.m * loading_code(plan.a) + variant.tile.n * loading_code(plan.b)
    loaded = tile_count(plan.size, variant.tile) * plan.size.k * made
    return cycles + loaded / (ISSUED * SHARE * (multiprocessors or MULTIPROCESSORS))


def gemm_spec(
    a: DType,
    b: DType,
    dtype: DType,
    tile: GemmTile,
    readings: tuple[Reading, Reading] = (Reading.ANY, Reading.ANY),
) -> KernelSpec:
    """Return the kernel of a product alone.

    Args:
        a: stored dtype of the operand that gives the rows.
        b: stored dtype of the other one.
        dtype: of the product.
        tile: what a block sums.
        readings: how a and b are read.
    """
    reads = "any" if Reading.ANY in readings else "_".join(way.value for way in readings)
    ways = ", ".join(reading.name for reading in readings)
    return product_spec(
        "gemm_tiled",
        f"{tile.name}_{reads}",
        f"{tile.expression}, {ways}",
        (a, b, dtype),
        tile.threads,
        (tile.m, tile.n, tile.k),
    )


def narrow_spec(a: DType, b: DType, dtype: DType, tile: NarrowTile) -> KernelSpec:
    """Return the kernel of a product of a few rows alone.

    Args:
        a: stored dtype of the operand that gives the rows.
        b: stored dtype of the wide one.
        dtype: of the product.
        tile: what a block sums.
    """
    return product_spec(
        "gemm_narrow", tile.name, tile.expression, (a, b, dtype), tile.threads, (tile.m, tile.n)
    )


def _sum_spec(dtype: DType) -> KernelSpec:
    return sum_spec("gemm_split_sum", "gemm_tiled.cu", dtype)


# How the operands of a row-major product are read where vectors fit.
_ROW_MAJOR: Final = (Reading.DEPTH_VECTOR, Reading.ROWS_VECTOR)

# Row-major operands of one dtype by the tiles that differ most, and the largest tile of f32 with
# operands read in any way; a few rows times a matrix. All else (two dtypes, other tiles and ways to
# read, a chain behind) is compiled when it is met. f16 and bf16 differ in types alone: they share
# their tiles' rows.
_LISTED: Final = ("128x256x8", "128x128x8", "128x64x16", "16x32x64", "16x128x32")
_TILES: Final = {
    f32: tuple(tile for tile in GEMM_TILES[f32] if tile.name in _LISTED),
    f64: GEMM_TILES[f64][:1],
    f16: GEMM_TILES[f16][:1],
    bf16: GEMM_TILES[bf16][1:],
}

GEMM_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(gemm_spec(d, d, d, tile, _ROW_MAJOR) for d, tiles in _TILES.items() for tile in tiles),
    gemm_spec(f32, f32, f32, GEMM_TILES[f32][0]),
    *(
        narrow_spec(d, d, d, narrow_tile(rows, width, reading))
        for d, width, most in ((f32, 4, MAX_FEW), (f64, 2, 1))
        for rows in sorted({1, most})
        for reading in (Reading.ROWS_VECTOR, Reading.DEPTH_VECTOR)
    ),
    *(_sum_spec(dtype) for dtype in GEMM_TILES),
)


def further_products() -> Iterator[KernelSpec]:
    """Yield every kernel of a product without a chain, those that are compiled when met too."""
    ways = [way for way in Reading if way is not Reading.ANY]
    pairs = ((Reading.ANY, Reading.ANY), *product(ways, ways))
    for a, b, dtype in product(GEMM_TILES, repeat=3):
        for tile in GEMM_TILES[dtype]:
            yield from (gemm_spec(a, b, dtype, tile, pair) for pair in pairs)
        width = 16 // compute_dtype(dtype).itemsize
        narrow = (narrow_tile(few, width, way) for few in range(1, MAX_FEW + 1) for way in ways)
        yield from (narrow_spec(a, b, dtype, tile) for tile in dict.fromkeys(narrow))
    yield from map(_sum_spec, GEMM_TILES)


def prepare_gemm(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction of floats and the elementwise chain behind it.

    Raises:
        BackendError: ops stand in front of the contraction, or the chain reads so many operands
            that their strides are more than a kernel takes.
    """
    return one_step(backend_id, unit, lambda: product_launches(unit, target), shown_product)


def planned_product(unit: Unit) -> tuple[PreparedPair, GemmPlan]:
    """Return a contraction without private labels, and the product of matrices that it then is.

    Raises:
        BackendError: ops stand in front of the contraction.
    """
    made = prepared_product("cuda_tiled", unit)
    return made.pair, plan_gemm(unit, made)


def product_launches(unit: Unit, target: Target) -> tuple[Launches, int]:
    """Return the launches of a unit and its scratch [bytes].

    Args:
        unit: a contraction and the chain behind it.
        target: the device.
    """
    made, plan = planned_product(unit)
    plan, variant = chosen(plan, target)
    launches = (*made.launches, *gemm_launches(plan, variant, plan.readings, made.scratch_bytes))
    nbytes = part_bytes(plan.size, variant, compute_dtype(plan.dtype).itemsize)
    return launches, made.scratch_bytes + nbytes


def chosen(plan: GemmPlan, target: Target) -> tuple[GemmPlan, Variant]:
    """Return a product, turned where it has a few columns, and how it is computed."""
    wide = turned(plan) if plan.size.n <= MAX_FEW < plan.size.m else plan
    narrow = narrow_variant(wide, target.multiprocessors)
    if narrow is not None:
        return wide, narrow
    return plan, choose_variant(plan.size, plan.dtype, target.multiprocessors)


def gemm_launches(
    plan: GemmPlan, variant: Variant, readings: tuple[Reading, Reading], part_place: int
) -> Launches:
    """Return the launch of a product, several where it has more blocks than a grid.

    Tiles that are cut get one more launch, which adds their parts.

    Args:
        plan: the product.
        variant: how it is computed.
        readings: how gemm_tiled reads its operands: the plan's, or ANY.
        part_place: of the parts in the scratch [bytes].
    """
    size, tile = plan.size, variant.tile
    dtypes = plan.a.dtype, plan.b.dtype, plan.dtype
    if isinstance(tile, NarrowTile):
        alone = narrow_spec(*dtypes, tile)
    else:
        alone = gemm_spec(*dtypes, tile, readings)
    chain = plan.dtype, plan.epilogue, plan.extra_rank
    factors = plan.a, plan.b
    spec = with_chain(alone, *chain, factors)
    operands = plan.a.argument, plan.b.argument
    tiles = tile_count(size, tile)
    cut = tiles - variant.whole
    if cut:
        problem = pack_problem(plan, variant, 0, variant.whole), pack_extras(plan), plan.epilogue
        parameters = packed_parameters(*problem)
        sums, parts = with_chain(_sum_spec(plan.dtype), *chain), scratch(part_place)
        vectors = cut * tile.m * tile.n // plan.width
        return (
            launch_in_row(
                spec,
                variant.whole + cut * variant.splits,
                (write(), parts, *operands, *packed_parameters(*problem, factors)),
            ),
            launch_in_row(sums, -(-vectors // SUM_THREADS), (write(), parts, *parameters)),
        )
    each = tiles // size.batches
    made = []
    for first in range(0, size.batches, MAX_BLOCKS // each):
        blocks = each * min(MAX_BLOCKS // each, size.batches - first)
        problem = pack_problem(plan, variant, first, blocks), pack_extras(plan), plan.epilogue
        parameters = packed_parameters(*problem, factors)
        made.append(launch_in_row(spec, blocks, (write(), write(), *operands, *parameters)))
    return tuple(made)
