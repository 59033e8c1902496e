"""What the kernels of products have in common: their names, chains and parameters.

gemm_tiled.cu, gemm_narrow.cu and contract.cu multiply; whichever it is, a chain of elementwise ops
takes the place of its rounding, and the parts of tiles that are cut are added by one more kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from softcuda.backends.cuda.chain_headers import header_of
from softcuda.backends.cuda.emitter import (
    Part,
    chain_digest,
    chain_header,
    chain_label,
    split,
)
from softcuda.backends.cuda.naive_contraction import PreparedPair, prepared_pair
from softcuda.backends.cuda.planned import Launches
from softcuda.backends.launches import Argument, packed, read
from softcuda.backends.steps import Operand, Unit
from softcuda.dtype import DType, compute_dtype
from softcuda.errors import BackendError
from softcuda.graph.shapes import contiguous_strides
from softcuda.kernelspec import KernelSpec, Rounding

__all__ = [
    "SUM_THREADS",
    "PreparedProduct",
    "fits_parameters",
    "packed_parameters",
    "prepared_product",
    "product_spec",
    "shown_product",
    "sum_spec",
    "with_chain",
]

PARAMETER_BYTES: Final = 4096
SUM_THREADS: Final = 256

_FAMILIES: Final = ("contract", "gemm_tiled", "gemm_narrow")
_NO_CHAIN: Final = chain_header()


class PreparedProduct(NamedTuple):
    """A contraction without private labels.

    Attributes:
        pair: its operands, and the launches that make them.
        product: its result, before the chain.
        epilogue: the chain.
    """

    pair: PreparedPair
    product: Operand
    epilogue: Part


def product_spec(
    family: str,
    variant: str,
    arguments: str,
    dtypes: tuple[DType, DType, DType],
    threads: int,
    tile: tuple[int, ...],
) -> KernelSpec:
    """Return the kernel of a product alone, in the file of its family.

    Args:
        family: also the name in device code.
        variant: what tells it apart, behind its dtypes.
        arguments: template arguments between the dtypes and the rounding.
        dtypes: stored ones of the operand that gives the rows and of the other one, and that of
            the product.
        threads: a block.
        tile: as tables show it.
    """
    a, b, dtype = dtypes
    names = dict.fromkeys((a.name, b.name, dtype.name))
    stored = dtype.name if len(names) == 1 else f"{a.name}_{b.name}_{dtype.name}"
    return KernelSpec(
        family,
        f"{stored}_{variant}",
        f"{family}.cu",
        f"{family}<{a.name}, {b.name}, {dtype.name}, {arguments}, {_rounded(dtype)}>",
        (dtype.name, a.name, b.name),
        threads,
        tile=tile,
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def sum_spec(family: str, file: str, dtype: DType) -> KernelSpec:
    """Return the kernel that adds the parts of tiles that are cut."""
    return KernelSpec(
        family,
        dtype.name,
        file,
        f"{family}<{dtype.name}, {_rounded(dtype)}>",
        (dtype.name, compute_dtype(dtype).name),
        SUM_THREADS,
        tile=(SUM_THREADS,),
        rounding=Rounding.FMA,
        headers=(_NO_CHAIN,),
    )


def _rounded(dtype: DType) -> str:
    """Return the last template arguments of a kernel without a chain."""
    return f"Rounded<{dtype.name}>, 1"


def with_chain(spec: KernelSpec, dtype: DType, epilogue: Part, rank: int) -> KernelSpec:
    """Return the same kernel with a chain in place of the rounding alone.

    Args:
        spec: the kernel without a chain.
        dtype: of the product.
        epilogue: the chain; without ops the kernel stays as it is.
        rank: axes of the chain's further operands.
    """
    if not epilogue.chain:
        return spec
    header = header_of(epilogue.chain, epilogue.dtypes)
    extras = [each.name for each in epilogue.dtypes[1:]]
    arguments = ", ".join(("Chain", str(rank), *extras))
    label = f"{chain_label(epilogue.chain)}_{chain_digest(header)}"
    return replace(
        spec,
        variant=f"{spec.variant}_{label}_rank{rank}",
        expression=f"{spec.expression.removesuffix(_rounded(dtype) + '>')}{arguments}>",
        dtypes=(epilogue.result.name, *spec.dtypes[1:], *extras),
        headers=(header,),
    )


def shown_product(launches: Launches) -> str:
    """Return the kernel that tables show: the one that multiplies."""
    return next(launch.spec.id for launch in launches if launch.spec.family in _FAMILIES)


def prepared_product(backend_id: str, unit: Unit) -> PreparedProduct:
    """Return the contraction of a unit without private labels, and the chain behind it.

    Args:
        backend_id: who was given the unit.
        unit: a contraction and the chain behind it.

    Raises:
        BackendError: ops stand in front of the contraction.
    """
    parts = split(unit)
    anchor = parts.anchor
    if any(part.chain for part in parts.prologues):
        raise BackendError(
            f"{backend_id} was given ops in front of {anchor.op.name}; allowed are ops behind it"
        )
    sources = [part.operands[0] for part in parts.prologues]
    strides = contiguous_strides(anchor.dims)
    product = Operand(unit.result.value, 0, anchor.dims, strides, anchor.dtype)
    pair = prepared_pair(unit, sources, product, anchor.params)
    return PreparedProduct(pair, product, parts.epilogue)


def fits_parameters(problem_bytes: int, extras_bytes: int, extras: int) -> bool:
    """Return whether a kernel takes its parameters: two structs and pointers.

    Args:
        problem_bytes: of the struct of the product.
        extras_bytes: of the struct of the chain's further operands.
        extras: further operands.
    """
    return _used(problem_bytes, extras_bytes, extras) <= PARAMETER_BYTES


def _used(problem_bytes: int, extras_bytes: int, extras: int) -> int:
    return problem_bytes + extras_bytes + 8 * (4 + extras)


def packed_parameters(problem: bytes, extras: bytes, epilogue: Part) -> tuple[Argument, ...]:
    """Return the arguments that the kernels of a product end with.

    Args:
        problem: the struct of the product.
        extras: the struct of the chain's further operands.
        epilogue: the chain.

    Raises:
        BackendError: they are more than a kernel takes.
    """
    numbers = epilogue.operands
    used = _used(len(problem), len(extras), len(numbers))
    if used > PARAMETER_BYTES:
        raise BackendError(
            f"a chain behind a contraction reads {len(numbers)} operands whose strides take "
            f"{used} bytes of parameters; allowed are {PARAMETER_BYTES}; evaluate a part of the "
            "chain before, or give it operands of fewer axes"
        )
    return (packed(problem), packed(extras), *(read(number) for number in numbers))
