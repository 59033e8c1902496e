"""Launches of gemm_tiled.cu and gemm_narrow.cu: what a contraction and the chain behind it take."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

from softcuda.backends.cuda.emitter import chain_digest, chain_header, chain_label, emit, split
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
    GemmTile,
    GemmVariant,
    choose_variant,
    part_bytes,
    tile_count,
)
from softcuda.backends.cuda.naive_contraction import PreparedPair, prepared_pair
from softcuda.backends.cuda.planned import Launches, launch_in_row, one_step
from softcuda.backends.launches import Argument, packed, read, scratch, write
from softcuda.backends.steps import Operand, Step, Unit
from softcuda.dtype import DType, compute_dtype, f32, f64
from softcuda.errors import BackendError
from softcuda.graph.shapes import contiguous_strides
from softcuda.kernelspec import KernelSpec, Rounding
from softcuda.target import Target

__all__ = [
    "GEMM_KERNELS",
    "chosen",
    "gemm_launches",
    "gemm_spec",
    "narrow_spec",
    "planned_product",
    "prepare_gemm",
]

Variant: TypeAlias = GemmVariant[GemmTile] | GemmVariant[NarrowTile]

PARAMETER_BYTES: Final = 4096
SUM_THREADS: Final = 256
MAX_BLOCKS: Final = 2**31 - 1

_NO_CHAIN: Final = chain_header()
_PRODUCTS: Final = ("gemm_tiled", "gemm_narrow")


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
    kinds = f"{a.name}, {b.name}, {dtype.name}, {tile.expression}"
    ways = ", ".join(reading.name for reading in readings)
    return KernelSpec(
        "gemm_tiled",
        f"{_stored(a, b, dtype)}_{tile.name}_{reads}",
        "gemm_tiled.cu",
        f"gemm_tiled<{kinds}, {ways}, {_rounded(dtype)}>",
        (dtype.name, a.name, b.name),
        tile.threads,
        tile=(tile.m, tile.n, tile.k),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def narrow_spec(a: DType, b: DType, dtype: DType, tile: NarrowTile) -> KernelSpec:
    """Return the kernel of a product of a few rows alone.

    Args:
        a: stored dtype of the operand that gives the rows.
        b: stored dtype of the wide one.
        dtype: of the product.
        tile: what a block sums.
    """
    kinds = f"{a.name}, {b.name}, {dtype.name}, {tile.expression}"
    return KernelSpec(
        "gemm_narrow",
        f"{_stored(a, b, dtype)}_{tile.name}",
        "gemm_narrow.cu",
        f"gemm_narrow<{kinds}, {_rounded(dtype)}>",
        (dtype.name, a.name, b.name),
        tile.threads,
        tile=(tile.m, tile.n),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def _stored(a: DType, b: DType, dtype: DType) -> str:
    """Return the dtypes as a kernel's name has them."""
    names = dict.fromkeys((a.name, b.name, dtype.name))
    return dtype.name if len(names) == 1 else f"{a.name}_{b.name}_{dtype.name}"


def _sum_spec(dtype: DType) -> KernelSpec:
    """Return the kernel that adds the parts of a split product."""
    return KernelSpec(
        "gemm_split_sum",
        dtype.name,
        "gemm_tiled.cu",
        f"gemm_split_sum<{dtype.name}, {_rounded(dtype)}>",
        (dtype.name, compute_dtype(dtype).name),
        SUM_THREADS,
        tile=(SUM_THREADS,),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def _rounded(dtype: DType) -> str:
    """Return the last template arguments of a kernel without a chain."""
    return f"Rounded<{dtype.name}>, 1"


def _with_chain(spec: KernelSpec, plan: GemmPlan) -> KernelSpec:
    """Return the same kernel with the plan's chain in place of the rounding alone."""
    part = plan.epilogue
    if not part.chain:
        return spec
    header = chain_header(emit(part.chain, part.dtypes))
    extras = [dtype.name for dtype in part.dtypes[1:]]
    arguments = ", ".join(("Chain", str(plan.extra_rank), *extras))
    label = f"{chain_label(part.chain)}_{chain_digest(header)}"
    return replace(
        spec,
        variant=f"{spec.variant}_{label}_rank{plan.extra_rank}",
        expression=f"{spec.expression.removesuffix(_rounded(plan.dtype) + '>')}{arguments}>",
        dtypes=(part.result.name, *spec.dtypes[1:], *extras),
        headers=(header,),
    )


# How the operands of a row-major product are read where vectors fit.
_ROW_MAJOR: Final = (Reading.DEPTH_VECTOR, Reading.ROWS_VECTOR)

# Operands of one dtype, read in any way, and row-major ones of f32; a few rows times a matrix; all
# else (two dtypes, other ways to read, a chain behind) is compiled when it is met.
GEMM_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(gemm_spec(d, d, d, tile) for d, tiles in GEMM_TILES.items() for tile in tiles),
    *(gemm_spec(f32, f32, f32, tile, _ROW_MAJOR) for tile in GEMM_TILES[f32]),
    *(
        narrow_spec(d, d, d, narrow_tile(rows, width, reading))
        for d, width in ((f32, 4), (f64, 2))
        for rows in (1, MAX_FEW)
        for reading in (Reading.ROWS_VECTOR, Reading.DEPTH_VECTOR)
    ),
    *(_sum_spec(dtype) for dtype in GEMM_TILES),
)


def prepare_gemm(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction of floats and the elementwise chain behind it.

    Raises:
        BackendError: ops stand in front of the contraction, or the chain reads so many operands
            that their strides are more than a kernel takes.
    """
    return one_step(backend_id, unit, lambda: _planned(unit, target), _shown)


def _shown(launches: Launches) -> str:
    """Return the kernel that tables show: the one that multiplies."""
    return next(launch.spec.id for launch in launches if launch.spec.family in _PRODUCTS)


def planned_product(unit: Unit) -> tuple[PreparedPair, GemmPlan]:
    """Return a contraction without private labels, and the product of matrices that it then is.

    Raises:
        BackendError: ops stand in front of the contraction.
    """
    parts = split(unit)
    anchor = parts.anchor
    if any(part.chain for part in parts.prologues):
        raise BackendError(
            f"cuda_tiled was given ops in front of {anchor.op.name}; allowed are ops behind it"
        )
    sources = [part.operands[0] for part in parts.prologues]
    strides = contiguous_strides(anchor.dims)
    product = Operand(unit.result.value, 0, anchor.dims, strides, anchor.dtype)
    made = prepared_pair(unit, sources, product, anchor.params)
    return made, plan_gemm(unit, made, product, parts.epilogue)


def _planned(unit: Unit, target: Target) -> tuple[Launches, int]:
    """Return the launches of a unit and its scratch [bytes]."""
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
        spec = _with_chain(narrow_spec(*dtypes, tile), plan)
    else:
        spec = _with_chain(gemm_spec(*dtypes, tile, readings), plan)
    operands = plan.a.argument, plan.b.argument
    tiles = tile_count(size, tile)
    cut = tiles - variant.whole
    if cut:
        parameters = _parameters(plan, variant, 0, variant.whole)
        sums, parts = _with_chain(_sum_spec(plan.dtype), plan), scratch(part_place)
        vectors = cut * tile.m * tile.n // plan.width
        return (
            launch_in_row(
                spec,
                variant.whole + cut * variant.splits,
                (write(), parts, *operands, *parameters),
            ),
            launch_in_row(sums, -(-vectors // SUM_THREADS), (write(), parts, *parameters)),
        )
    each = tiles // size.batches
    made = []
    for first in range(0, size.batches, MAX_BLOCKS // each):
        blocks = each * min(MAX_BLOCKS // each, size.batches - first)
        parameters = _parameters(plan, variant, first, blocks)
        made.append(launch_in_row(spec, blocks, (write(), write(), *operands, *parameters)))
    return tuple(made)


def _parameters(
    plan: GemmPlan, variant: Variant, first_batch: int, whole: int
) -> tuple[Argument, ...]:
    """Return the arguments that both kernels end with."""
    problem, extras = pack_problem(plan, variant, first_batch, whole), pack_extras(plan)
    numbers = plan.epilogue.operands
    used = len(problem) + len(extras) + 8 * (4 + len(numbers))
    if used > PARAMETER_BYTES:
        raise BackendError(
            f"a chain behind a contraction reads {len(numbers)} operands whose strides take "
            f"{used} bytes of parameters; allowed are {PARAMETER_BYTES}; evaluate a part of the "
            "chain before, or give it operands of fewer axes"
        )
    return (packed(problem), packed(extras), *(read(number) for number in numbers))
