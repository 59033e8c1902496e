"""cuda_naive: every op with one thread an output, the reference of the CUDA backends.

Nothing is fused; a kernel does one op and its offsets are 64-bit. Complex numbers are computed by
every op that they have; see complex_parts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from softcuda.backends.cuda.complex_parts import has_parts, prepared_on_parts
from softcuda.backends.cuda.naive_contraction import (
    NAIVE_CONTRACTION,
    further_naive_contractions,
    prepare_contraction,
)
from softcuda.backends.cuda.naive_creation import (
    CREATION_KERNELS,
    FURTHER_CREATION,
    prepare_creation,
)
from softcuda.backends.cuda.naive_elementwise import NAIVE_ELEMENTWISE, prepare_elementwise
from softcuda.backends.cuda.naive_movement import (
    FURTHER_MOVEMENT,
    MOVEMENT_KERNELS,
    prepare_movement,
)
from softcuda.backends.cuda.naive_random import RANDOM_KERNELS, prepare_random
from softcuda.backends.cuda.naive_reduce import (
    NAIVE_REDUCE,
    prepare_composite,
    prepare_reduction,
    prepare_scan,
)
from softcuda.backends.steps import Step, Unit, Verdict
from softcuda.errors import BackendError
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "BACKEND_ID",
    "DEVICE",
    "EPILOGUES",
    "FUSES",
    "KERNELS",
    "further_kernels",
    "prepare",
    "supports",
]

BACKEND_ID: Final = "cuda_naive"
DEVICE: Final = "cuda"
FUSES: Final[frozenset[Kind]] = frozenset()
EPILOGUES: Final[frozenset[Kind]] = frozenset()

_PREPARERS: Final[Mapping[Kind, Callable[[Unit, Target], tuple[Step, ...]]]] = MappingProxyType(
    {
        Kind.ELEMENTWISE: prepare_elementwise,
        Kind.CONTRACTION: prepare_contraction,
        Kind.CREATION: prepare_creation,
        Kind.MOVEMENT: prepare_movement,
        Kind.RANDOM: prepare_random,
        Kind.REDUCTION: prepare_reduction,
        Kind.SCAN: prepare_scan,
        Kind.COMPOSITE: prepare_composite,
    }
)

KERNELS: Final[tuple[KernelSpec, ...]] = (
    *NAIVE_ELEMENTWISE,
    *NAIVE_CONTRACTION,
    *CREATION_KERNELS,
    *MOVEMENT_KERNELS,
    *RANDOM_KERNELS,
    *NAIVE_REDUCE,
)


def further_kernels() -> Iterator[KernelSpec]:
    """Yield the kernels without a chain that the table lacks, and some that it has."""
    yield from further_naive_contractions()
    yield from (*FURTHER_CREATION, *FURTHER_MOVEMENT)


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is work at all: leaves, views and transfers are not."""
    if line.op.kind in _PREPARERS:
        return Verdict(True)
    return Verdict(False, f"{line.op.name} is a {line.op.kind.value}, which cuda_naive has not")


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a node.

    Raises:
        BackendError: the node is a leaf or a view.
    """
    op = unit.chain[-1].op
    preparer = _PREPARERS.get(op.kind)
    if preparer is None:
        raise BackendError(
            f"cuda_naive has no {op.kind.value} such as {op.name}; it has "
            f"{', '.join(kind.value for kind in _PREPARERS)}"
        )
    if has_parts(unit):
        return prepared_on_parts(unit, target, preparer)
    return preparer(unit, target)
