"""Launches of contract.cu: which kernels a contraction and the chain behind it take."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from softcuda.backends.cuda.contract_pack import (
    extra_rank,
    needs_wide_offsets,
    pack_contraction,
    pack_extra_operands,
)
from softcuda.backends.cuda.contract_plan import ContractProblem, plan_contraction
from softcuda.backends.cuda.contract_products import sooner_product
from softcuda.backends.cuda.contract_rule import (
    MULTIPROCESSORS,
    BoxChoice,
    choose,
    contract_us,
    cut_bytes,
)
from softcuda.backends.cuda.contract_sides import Way
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, ContractTile
from softcuda.backends.cuda.emitter import chain_digest, chain_header, chain_label, emit, split
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
    "CONTRACT_KERNELS",
    "contract_launches",
    "contract_spec",
    "planned_contraction",
    "prepare_contract",
]

PARAMETER_BYTES: Final = 4096
SUM_THREADS: Final = 256

_NO_CHAIN: Final = chain_header()
_PRODUCTS: Final = ("contract", "gemm_tiled", "gemm_narrow")


def contract_spec(
    a: DType,
    b: DType,
    dtype: DType,
    tile: ContractTile,
    ways: tuple[Way, Way],
    wide: bool = False,
) -> KernelSpec:
    """Return the kernel of a contraction alone.

    Args:
        a: stored dtype of the operand that gives the rows.
        b: stored dtype of the other one.
        dtype: of the product.
        tile: what a block sums.
        ways: how a and b are read.
        wide: offsets are 64 bits.
    """
    names = dict.fromkeys((a.name, b.name, dtype.name))
    stored = dtype.name if len(names) == 1 else f"{a.name}_{b.name}_{dtype.name}"
    reads = "_".join(way.value for way in ways)
    kinds = f"{a.name}, {b.name}, {dtype.name}, {tile.expression}"
    named = ", ".join(way.name for way in ways)
    offset = "i64" if wide else "i32"
    return KernelSpec(
        "contract",
        f"{stored}_{tile.name}_{reads}{'_wide' if wide else ''}",
        "contract.cu",
        f"contract<{kinds}, {named}, {offset}, {_rounded(dtype)}>",
        (dtype.name, a.name, b.name),
        tile.threads,
        tile=(tile.m, tile.n, tile.k),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def _sum_spec(dtype: DType) -> KernelSpec:
    """Return the kernel that adds the parts of tiles that are cut."""
    return KernelSpec(
        "contract_sum",
        dtype.name,
        "contract.cu",
        f"contract_sum<{dtype.name}, {_rounded(dtype)}>",
        (dtype.name, compute_dtype(dtype).name),
        SUM_THREADS,
        tile=(SUM_THREADS,),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def _rounded(dtype: DType) -> str:
    """Return the last template arguments of a kernel without a chain."""
    return f"Rounded<{dtype.name}>, 1"


def _with_chain(spec: KernelSpec, problem: ContractProblem, rank: int) -> KernelSpec:
    """Return the same kernel with the problem's chain in place of the rounding alone."""
    part = problem.epilogue
    if not part.chain:
        return spec
    header = chain_header(emit(part.chain, part.dtypes))
    extras = [dtype.name for dtype in part.dtypes[1:]]
    arguments = ", ".join(("Chain", str(rank), *extras))
    label = f"{chain_label(part.chain)}_{chain_digest(header)}"
    return replace(
        spec,
        variant=f"{spec.variant}_{label}_rank{rank}",
        expression=f"{spec.expression.removesuffix(_rounded(problem.dtype) + '>')}{arguments}>",
        dtypes=(part.result.name, *spec.dtypes[1:], *extras),
        headers=(header,),
    )


# The boxes that serve most contractions, read in vectors of rows and along the depth; other boxes,
# other ways to read, a mix of two dtypes and every chain are compiled when they are met.
_USUAL: Final = (Way.ROWS_VECTOR, Way.DEPTH_SINGLE)

CONTRACT_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(contract_spec(f32, f32, f32, tile, _USUAL) for tile in CONTRACT_TILES[f32] if tile.is_usual),
    contract_spec(f64, f64, f64, CONTRACT_TILES[f64][0], _USUAL),
    *(_sum_spec(dtype) for dtype in CONTRACT_TILES),
)


def prepare_contract(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction of floats and the elementwise chain behind it.

    Raises:
        BackendError: ops stand in front of the contraction, or the chain reads so many operands
            that their strides are more than a kernel takes.
    """
    return one_step(backend_id, unit, lambda: _planned(unit, target), _shown)


def _shown(launches: Launches) -> str:
    """Return the kernel that tables show: the one that multiplies."""
    return next(launch.spec.id for launch in launches if launch.spec.family in _PRODUCTS)


def planned_contraction(unit: Unit) -> tuple[PreparedPair, ContractProblem]:
    """Return a contraction without private labels, classified.

    Raises:
        BackendError: ops stand in front of the contraction.
    """
    parts = split(unit)
    anchor = parts.anchor
    if any(part.chain for part in parts.prologues):
        raise BackendError(
            f"cuda_contract was given ops in front of {anchor.op.name}; allowed are ops behind it"
        )
    sources = [part.operands[0] for part in parts.prologues]
    strides = contiguous_strides(anchor.dims)
    product = Operand(unit.result.value, 0, anchor.dims, strides, anchor.dtype)
    made = prepared_pair(unit, sources, product, anchor.params)
    return made, plan_contraction(unit, made, product, parts.epilogue)


def _planned(unit: Unit, target: Target) -> tuple[Launches, int]:
    """Return the launches of a unit and its scratch [bytes]."""
    made, problem = planned_contraction(unit)
    choice = choose(problem, target.multiprocessors)
    expected_us = contract_us(problem, choice, target.multiprocessors or MULTIPROCESSORS)
    product = sooner_product(unit, target, expected_us)
    if product is not None:
        return product
    launches = contract_launches(problem, choice, target.multiprocessors, made.scratch_bytes)
    return (*made.launches, *launches), made.scratch_bytes + cut_bytes(problem, choice)


def contract_launches(
    problem: ContractProblem, choice: BoxChoice, multiprocessors: int, part_place: int
) -> Launches:
    """Return the launch of a contraction; tiles that are cut get one more, which adds their parts.

    Args:
        problem: what is computed.
        choice: how.
        multiprocessors: of the device; 0 counts as 128.
        part_place: of the parts in the scratch [bytes].
    """
    tile = choice.tile
    rank = extra_rank(problem, choice)
    wide = needs_wide_offsets(problem, choice)
    ways = (choice.rows.way, choice.columns.way)
    spec = contract_spec(problem.a.dtype, problem.b.dtype, problem.dtype, tile, ways, wide)
    parameters = _parameters(problem, choice)
    operands = problem.a.argument, problem.b.argument
    batches = problem.batches.count
    cut = batches * choice.tiles_of_batch - choice.whole
    parts = scratch(part_place) if cut else write()
    blocks = min(choice.tasks(batches), (multiprocessors or MULTIPROCESSORS) * tile.resident)
    first = launch_in_row(
        _with_chain(spec, problem, rank), blocks, (write(), parts, *operands, *parameters)
    )
    if not cut:
        return (first,)
    sums = _with_chain(_sum_spec(problem.dtype), problem, rank)
    vectors = cut * tile.m * tile.n // problem.width
    last = launch_in_row(sums, -(-vectors // SUM_THREADS), (write(), parts, *parameters))
    return first, last


def _parameters(problem: ContractProblem, choice: BoxChoice) -> tuple[Argument, ...]:
    """Return the arguments that both kernels end with."""
    shape, extras = pack_contraction(problem, choice), pack_extra_operands(problem, choice)
    numbers = problem.epilogue.operands
    used = len(shape) + len(extras) + 8 * (4 + len(numbers))
    if used > PARAMETER_BYTES:
        raise BackendError(
            f"a chain behind a contraction reads {len(numbers)} operands whose strides take "
            f"{used} bytes of parameters; allowed are {PARAMETER_BYTES}; evaluate a part of the "
            "chain before, or give it operands of fewer axes"
        )
    return (packed(shape), packed(extras), *(read(number) for number in numbers))
