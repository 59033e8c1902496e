"""cuda_reduce: reductions with the elementwise ops around them, running sums, whole composites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from softcuda.backends.cuda.complex_parts import (
    has_parts,
    parts_verdict,
    prepared_on_parts,
    real_verdict,
)
from softcuda.backends.cuda.long_rows import refusal_of_long_rows
from softcuda.backends.cuda.reduce import reduce_steps
from softcuda.backends.cuda.reduce_table import REDUCE_KERNELS, further_reductions
from softcuda.backends.cuda.row_chain_tiles import takes_chain
from softcuda.backends.cuda.row_chains import chained_row_steps
from softcuda.backends.cuda.row_tiles import ROW_KERNELS, further_rows
from softcuda.backends.cuda.rows import row_steps
from softcuda.backends.cuda.scan import SCAN_KERNELS, scan_steps
from softcuda.backends.steps import Step, Unit, Verdict
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
    "MOST_BEFORE",
    "absorbs",
    "further_kernels",
    "in_place",
    "prepare",
    "supports",
    "surrounds",
]

BACKEND_ID: Final = "cuda_reduce"
DEVICE: Final = "cuda"
FUSES: Final = frozenset({Kind.ELEMENTWISE, Kind.REDUCTION, Kind.COMPOSITE})
EPILOGUES: Final = frozenset({Kind.REDUCTION, Kind.COMPOSITE})
MOST_BEFORE: Final = 12  # a thread of a block that has a multiprocessor alone holds these
KERNELS: Final[tuple[KernelSpec, ...]] = (*REDUCE_KERNELS, *ROW_KERNELS, *SCAN_KERNELS)

_KINDS: Final = frozenset({Kind.REDUCTION, Kind.SCAN, Kind.COMPOSITE})


def further_kernels() -> Iterator[KernelSpec]:
    """Yield the kernels without a chain that the table lacks, and some that it has."""
    yield from further_reductions()
    yield from further_rows()


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is a reduction, scan or composite; of complex numbers a sum.

    A composite of few long rows is refused, since its parts are sooner.
    """
    long = refusal_of_long_rows(line, target) if line.op.kind is Kind.COMPOSITE else ""
    if long:
        return Verdict(False, long)
    if line.op.kind in _KINDS:
        return parts_verdict(BACKEND_ID, line, operands)
    return Verdict(
        False,
        f"{line.op.name} is a {line.op.kind.value}; cuda_reduce computes reductions, cumsum, "
        "softmax, log_softmax and layer_norm, and elementwise ops only around a reduction",
    )


def absorbs(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line can run around a reduction: elementwise ops of real numbers can."""
    if line.op.kind is Kind.ELEMENTWISE:
        return real_verdict(BACKEND_ID, line, operands)
    return supports(line, operands, target)


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step that computes the unit."""
    if has_parts(unit):
        return prepared_on_parts(unit, target, _prepared)
    return _prepared(unit, target)


def surrounds(line: Line, operands: Sequence[Line], target: Target) -> bool:
    """Return whether elementwise ops run around a line: a reduction, rows that are held whole."""
    return line.op.kind is not Kind.COMPOSITE or takes_chain(line)


def _prepared(unit: Unit, target: Target) -> tuple[Step, ...]:
    kinds = [micro.op.kind for micro in unit.chain]
    kind = next(k for k in kinds if k is not Kind.ELEMENTWISE)
    if kind is Kind.SCAN:
        return scan_steps(BACKEND_ID, unit, target)
    if kind is Kind.COMPOSITE:
        steps = row_steps if len(kinds) == 1 else chained_row_steps
        return steps(BACKEND_ID, unit, target)
    return reduce_steps(BACKEND_ID, unit, target)


def in_place(step: Step) -> Step | None:
    """Return the step itself: a reduction may write what only the chain behind it reads.

    The thread that stores an element has read that element of the chain's operands before, and
    uses no other. Chains that are launches of their own behind rows are no such kernels: None.
    """
    is_composite = any(micro.op.kind is Kind.COMPOSITE for micro in step.chain)
    return None if is_composite and len(step.launches) > 1 else step
