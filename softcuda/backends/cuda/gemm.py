"""Launches of gemm_tiled.cu: which kernels a contraction and the chain behind it take."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from softcuda.backends.cuda.emitter import chain_digest, chain_header, chain_label, emit, split
from softcuda.backends.cuda.gemm_plan import GemmPlan, pack_extras, pack_problem, plan_gemm
from softcuda.backends.cuda.gemm_tiles import GEMM_TILES, GemmTile, GemmVariant, choose_variant
from softcuda.backends.cuda.naive_contraction import prepared_pair
from softcuda.backends.launches import Argument, KernelLaunch, packed, read, scratch, write
from softcuda.backends.steps import Operand, Step, Unit
from softcuda.dtype import DType, compute_dtype
from softcuda.errors import BackendError
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec, Rounding
from softcuda.target import Target

__all__ = ["GEMM_KERNELS", "gemm_spec", "prepare_gemm"]

PARAMETER_BYTES: Final = 4096
SUM_THREADS: Final = 256
MAX_BLOCKS: Final = 2**31 - 1

_NO_CHAIN: Final = chain_header()


def gemm_spec(a: DType, b: DType, dtype: DType, tile: GemmTile) -> KernelSpec:
    """Return the kernel of a product alone; a and b are stored dtypes, `dtype` the product's."""
    names = dict.fromkeys((a.name, b.name, dtype.name))
    stored = dtype.name if len(names) == 1 else f"{a.name}_{b.name}_{dtype.name}"
    return KernelSpec(
        "gemm_tiled",
        f"{stored}_{tile.name}",
        "gemm_tiled.cu",
        f"gemm_tiled<{a.name}, {b.name}, {dtype.name}, {tile.expression}, {_rounded(dtype)}>",
        (dtype.name, a.name, b.name),
        tile.threads,
        tile=(tile.m, tile.n, tile.k),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


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


# Operands of one dtype; a mix of two, and every chain, is compiled when it is met.
GEMM_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(gemm_spec(d, d, d, tile) for d, tiles in GEMM_TILES.items() for tile in tiles),
    *(_sum_spec(dtype) for dtype in GEMM_TILES),
)


def prepare_gemm(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction of floats and the elementwise chain behind it.

    Raises:
        BackendError: ops stand in front of the contraction, or the chain reads so many operands
            that their strides are more than a kernel takes.
    """
    parts = split(unit)
    if any(part.chain for part in parts.prologues):
        raise BackendError(
            f"{backend_id} was given ops in front of {parts.anchor.op.name}; allowed are ops "
            "behind it"
        )
    launches: tuple[KernelLaunch, ...] = ()
    scratch_bytes = 0
    if numel(unit.result.dims):
        sources = [part.operands[0] for part in parts.prologues]
        dims, dtype = parts.anchor.dims, parts.anchor.dtype
        product = Operand(unit.result.value, 0, dims, contiguous_strides(dims), dtype)
        made = prepared_pair(unit, sources, product, parts.anchor.params)
        plan = plan_gemm(unit, made, product, parts.epilogue)
        variant = choose_variant(plan.size, dtype, target.multiprocessors)
        launches = (*made.launches, *_launches(plan, variant, made.scratch_bytes))
        scratch_bytes = made.scratch_bytes + _part_bytes(plan, variant)
    return (
        Step(
            backend_id,
            next((x.spec.id for x in launches if x.spec.family == "gemm_tiled"), "nothing"),
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            scratch_bytes=scratch_bytes,
            lines=unit.lines,
            launches=launches,
        ),
    )


def _part_bytes(plan: GemmPlan, variant: GemmVariant) -> int:
    if variant.splits == 1:
        return 0
    size = plan.size
    itemsize = compute_dtype(plan.dtype).itemsize
    return itemsize * variant.splits * size.batches * size.m * size.n


def _launches(plan: GemmPlan, variant: GemmVariant, part_place: int) -> tuple[KernelLaunch, ...]:
    """Return the launch of a product, several where it has more blocks than a grid.

    A split product gets one more, which adds the parts at `part_place` of the scratch.
    """
    size, tile = plan.size, variant.tile
    partial = scratch(part_place) if variant.splits > 1 else write()
    spec = _with_chain(gemm_spec(plan.a.dtype, plan.b.dtype, plan.dtype, tile), plan)
    blocks = -(-size.m // tile.m) * -(-size.n // tile.n) * variant.splits
    most = MAX_BLOCKS // blocks
    made = []
    for first in range(0, size.batches, most):
        arguments = (
            *(write(), partial, plan.a.argument, plan.b.argument),
            *_parameters(plan, variant, first),
        )
        grid = (blocks * min(most, size.batches - first), 1, 1)
        made.append(KernelLaunch(spec, grid, arguments, (spec.threads, 1, 1)))
    if variant.splits > 1:
        spec = _with_chain(_sum_spec(plan.dtype), plan)
        count = size.batches * size.m * size.n
        arguments = (write(), partial, *_parameters(plan, variant, 0))
        grid = (min(-(-count // SUM_THREADS), MAX_BLOCKS), 1, 1)
        made.append(KernelLaunch(spec, grid, arguments, (SUM_THREADS, 1, 1)))
    return tuple(made)


def _parameters(plan: GemmPlan, variant: GemmVariant, first_batch: int) -> tuple[Argument, ...]:
    """Return the arguments that both kernels end with."""
    problem, extras = pack_problem(plan, variant, first_batch), pack_extras(plan)
    numbers = plan.epilogue.operands
    used = len(problem) + len(extras) + 8 * (4 + len(numbers))
    if used > PARAMETER_BYTES:
        raise BackendError(
            f"a chain behind a contraction reads {len(numbers)} operands whose strides take "
            f"{used} bytes of parameters; allowed are {PARAMETER_BYTES}; evaluate a part of the "
            "chain before, or give it operands of fewer axes"
        )
    return (packed(problem), packed(extras), *(read(number) for number in numbers))
