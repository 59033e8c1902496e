"""What the kernels of products have in common: their names, chains and parameters.

gemm_tiled.cu, gemm_narrow.cu and contract.cu multiply; whichever it is, a chain of elementwise ops
takes the place of its rounding, others make the elements of its operands as they are loaded, and
the parts of tiles that are cut are added by one more kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import broadcast_strides
from softcuda.backends.cuda.chain_headers import Struct, joint_header
from softcuda.backends.cuda.emitter import (
    Part,
    chain_digest,
    chain_header,
    chain_label,
    split,
)
from softcuda.backends.cuda.making import making_of
from softcuda.backends.cuda.naive_contraction import Factor, PreparedPair, prepared_pair
from softcuda.backends.cuda.planned import Launches
from softcuda.backends.launches import Argument, packed, read
from softcuda.backends.steps import Operand, Unit
from softcuda.contraction.axes import Axes
from softcuda.dtype import DType, compute_dtype
from softcuda.errors import BackendError
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.kernelspec import KernelSpec, Rounding

__all__ = [
    "PRODUCTS",
    "SUM_THREADS",
    "PreparedProduct",
    "fits_parameters",
    "numbers_of",
    "packed_parameters",
    "prepared_product",
    "product_spec",
    "shown_product",
    "sum_spec",
    "with_chain",
]

PARAMETER_BYTES: Final = 4096
SUM_THREADS: Final = 256

PRODUCTS: Final = ("contract", "gemm_tiled", "gemm_narrow")  # families of kernels that multiply
_NO_CHAIN: Final = chain_header()


class PreparedProduct(NamedTuple):
    """A contraction without private labels.

    Attributes:
        pair: its operands, with the chains that make their elements, and the launches in front.
        product: its result, before the chain behind it.
        epilogue: that chain.
        extras: axes of the chain's further operands, by the labels of the result.
    """

    pair: PreparedPair
    product: Operand
    epilogue: Part
    extras: tuple[Axes, ...]


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


def with_chain(
    spec: KernelSpec, dtype: DType, epilogue: Part, rank: int, factors: Sequence[Factor] = ()
) -> KernelSpec:
    """Return the same kernel with chains: in place of the rounding alone, and in its loads.

    Args:
        spec: the kernel without a chain.
        dtype: of the product.
        epilogue: the chain behind it; without any chain the kernel stays as it is.
        rank: axes of that chain's further operands.
        factors: the operands that give the rows and the columns; none where the kernel loads none.
    """
    made = [(letter, each) for letter, each in zip("AB", factors, strict=False) if each.making]
    if not epilogue.chain and not made:
        return spec
    structs = [Struct(f"Chain{x}", f.making.chain, f.making.dtypes) for x, f in made if f.making]
    labels = [f"{s.name[-1].lower()}_{chain_label(s.chain)}" for s in structs]
    behind = _rounded(dtype)
    if epilogue.chain:
        structs.append(Struct("Chain", epilogue.chain, epilogue.dtypes))
        labels.append(chain_label(epilogue.chain))
        behind = f"Chain, {rank}"
    header = joint_header(structs)
    in_order = (*structs[len(made) :], *structs[: len(made)])
    further = [each.name for struct in in_order for each in struct.dtypes[1:]]
    return replace(
        spec,
        variant=f"{spec.variant}_{'_'.join(labels)}_{chain_digest(header)}_rank{rank}",
        expression=f"{_loading(spec, factors, dtype)}{', '.join((behind, *further))}>",
        dtypes=(epilogue.result.name, *spec.dtypes[1:], *further),
        headers=(header,),
    )


def _loading(spec: KernelSpec, factors: Sequence[Factor], dtype: DType) -> str:
    """Return the start of an expression, up to what takes the place of the rounding."""
    start = spec.expression.removesuffix(f"{_rounded(dtype)}>")
    if not factors:
        return start
    stored = ", ".join(each.dtype.name for each in factors)
    elements = ", ".join(
        each.making.element(each.dtype, f"Chain{letter}") if each.making else each.dtype.name
        for letter, each in zip("AB", factors, strict=True)
    )
    return f"{spec.family}<{elements}{start.removeprefix(f'{spec.family}<{stored}')}"


def shown_product(launches: Launches) -> str:
    """Return the kernel that tables show: the one that multiplies."""
    return next(launch.spec.id for launch in launches if launch.spec.family in PRODUCTS)


def prepared_product(backend_id: str, unit: Unit) -> PreparedProduct:
    """Return the contraction of a unit without private labels, and the chains around it.

    Args:
        backend_id: who was given the unit.
        unit: a contraction, the chains that make its operands, and the chain behind it.

    Raises:
        BackendError: ops in front of the contraction read more than one operand and numbers, or
            make an operand that is summed over labels of its own first.
    """
    parts = split(unit)
    anchor = parts.anchor
    found = [making_of(unit, part) for part in parts.prologues]
    strides = contiguous_strides(anchor.dims)
    product = Operand(unit.result.value, 0, anchor.dims, strides, anchor.dtype)
    pair = prepared_pair(unit, [source for source, _ in found], product, anchor.params)
    factors = []
    for factor, (_, making) in zip((pair.a, pair.b), found, strict=True):
        if making and factor.argument.kind != "read":
            raise BackendError(
                f"{backend_id} was given ops in front of an operand of {anchor.op.name} that has "
                "labels of its own; allowed are ops in front of operands that are read as they lie"
            )
        factors.append(factor._replace(making=making))
    pair = pair._replace(a=factors[0], b=factors[1])
    extras = _extras(unit, pair.pair.out.labels, product.dims, parts.epilogue)
    return PreparedProduct(pair, product, parts.epilogue, extras)


def _extras(unit: Unit, labels: Sequence[int], dims: Dims, epilogue: Part) -> tuple[Axes, ...]:
    """Return the axes of a chain's operands by the labels of a result; extents of 1 have none."""
    kept = [axis for axis, extent in enumerate(dims) if extent != 1]
    found = []
    for number in epilogue.operands:
        x = unit.operands[number]
        strides = broadcast_strides(x.dims, x.strides, dims)
        own = tuple(dims[axis] for axis in kept), tuple(strides[axis] for axis in kept)
        found.append(Axes(tuple(labels), *own))
    return tuple(found)


def numbers_of(factors: Sequence[Factor]) -> tuple[int, ...]:
    """Return the unit's operands that chains in the loads read as numbers, in their order."""
    return tuple(number for each in factors if each.making for number in each.making.numbers)


def fits_parameters(problem_bytes: int, extras_bytes: int, extras: int) -> bool:
    """Return whether a kernel takes its parameters: two structs and pointers.

    Args:
        problem_bytes: of the struct of the product.
        extras_bytes: of the struct of further operands.
        extras: further operands of all chains.
    """
    return _used(problem_bytes, extras_bytes, extras) <= PARAMETER_BYTES


def _used(problem_bytes: int, extras_bytes: int, extras: int) -> int:
    return problem_bytes + extras_bytes + 8 * (4 + extras)


def packed_parameters(
    problem: bytes, extras: bytes, epilogue: Part, factors: Sequence[Factor] = ()
) -> tuple[Argument, ...]:
    """Return the arguments that the kernels of a product end with.

    Args:
        problem: the struct of the product.
        extras: the struct of further operands of the chain behind it.
        epilogue: that chain.
        factors: the operands, whose chains read numbers; none where the kernel loads none.

    Raises:
        BackendError: they are more than a kernel takes.
    """
    numbers = (*epilogue.operands, *numbers_of(factors))
    each = len(extras) // max(len(epilogue.operands), 1)
    extras = extras.ljust(each * len(numbers), b"\0")  # numbers have no strides
    used = _used(len(problem), len(extras), len(numbers))
    if used > PARAMETER_BYTES:
        raise BackendError(
            f"a chain behind a contraction reads {len(numbers)} operands whose strides take "
            f"{used} bytes of parameters; allowed are {PARAMETER_BYTES}; evaluate a part of the "
            "chain before, or give it operands of fewer axes"
        )
    return (packed(problem), packed(extras), *(read(number) for number in numbers))
