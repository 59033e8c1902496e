"""Launches of contract.cu: which kernels a contraction and the chain behind it take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.contract_pack import (
    extra_rank,
    needs_wide_offsets,
    pack_contraction,
    pack_extra_operands,
)
from softcuda.backends.cuda.contract_plan import ContractProblem, plan_contraction
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES, ContractTile
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.gemm_tiles import MULTIPROCESSORS
from softcuda.backends.cuda.naive_contraction import PreparedPair
from softcuda.backends.cuda.planned import Launches, launch_in_row
from softcuda.backends.cuda.products import (
    SUM_THREADS,
    packed_parameters,
    prepared_product,
    product_spec,
    sum_spec,
    with_chain,
)
from softcuda.backends.launches import scratch, write
from softcuda.backends.steps import Unit
from softcuda.dtype import DType, f32, f64
from softcuda.kernelspec import KernelSpec

__all__ = [
    "CONTRACT_KERNELS",
    "contract_launches",
    "contract_spec",
    "further_contractions",
    "planned_contraction",
]


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
    reads = "_".join(way.value for way in ways)
    named = ", ".join(way.name for way in ways)
    offset = "i64" if wide else "i32"
    return product_spec(
        "contract",
        f"{tile.name}_{reads}{'_wide' if wide else ''}",
        f"{tile.expression}, {named}, {offset}",
        (a, b, dtype),
        tile.threads,
        (tile.m, tile.n, tile.k),
    )


def _sum_spec(dtype: DType) -> KernelSpec:
    return sum_spec("contract_sum", "contract.cu", dtype)


# The boxes that serve most contractions, read in vectors of rows and along the depth; other boxes,
# other ways to read, a mix of two dtypes and every chain are compiled when they are met.
_USUAL: Final = (Way.ROWS_VECTOR, Way.DEPTH_SINGLE)

CONTRACT_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(contract_spec(f32, f32, f32, tile, _USUAL) for tile in CONTRACT_TILES[f32] if tile.is_usual),
    contract_spec(f64, f64, f64, CONTRACT_TILES[f64][0], _USUAL),
    *(_sum_spec(dtype) for dtype in CONTRACT_TILES),
)


def further_contractions() -> Iterator[KernelSpec]:
    """Yield every kernel of a contraction without a chain, those compiled when met too."""
    for a, b, dtype in product(CONTRACT_TILES, repeat=3):
        for tile, *ways in product(CONTRACT_TILES[dtype], Way, Way):
            for is_wide in (False, True):
                yield contract_spec(a, b, dtype, tile, (ways[0], ways[1]), is_wide)
    yield from map(_sum_spec, CONTRACT_TILES)


def planned_contraction(unit: Unit) -> tuple[PreparedPair, ContractProblem]:
    """Return a contraction without private labels, classified.

    Raises:
        BackendError: ops stand in front of the contraction.
    """
    made = prepared_product("cuda_contract", unit)
    return made.pair, plan_contraction(made)


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
    packed = pack_contraction(problem, choice), pack_extra_operands(problem, choice)
    parameters = packed_parameters(*packed, problem.epilogue, problem.factors)
    operands = problem.a.argument, problem.b.argument
    batches = problem.batches.count
    cut = batches * choice.tiles_of_batch - choice.whole
    parts = scratch(part_place) if cut else write()
    blocks = min(choice.tasks(batches), (multiprocessors or MULTIPROCESSORS) * tile.resident)
    chain = problem.dtype, problem.epilogue, rank
    first = launch_in_row(
        with_chain(spec, *chain, problem.factors),
        blocks,
        (write(), parts, *operands, *parameters),
    )
    if not cut:
        return (first,)
    sums = with_chain(_sum_spec(problem.dtype), *chain)
    parameters = packed_parameters(*packed, problem.epilogue)
    vectors = cut * tile.m * tile.n // problem.width
    last = launch_in_row(sums, -(-vectors // SUM_THREADS), (write(), parts, *parameters))
    return first, last
