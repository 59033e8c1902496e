"""cuda_contract: contractions of floats where their operands lie, a chain behind them.

Boxes over several labels at once, so that operands and result are read and written in whole sectors
of memory without a transposed copy; the kernel's id names the box and how the operands are read,
which a rule chooses (softcuda/backends/cuda/contract_rule.py); `explain` prints what it expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from softcuda.backends.cuda.contract import CONTRACT_KERNELS, further_contractions
from softcuda.backends.cuda.contract_soonest import prepare_contract
from softcuda.backends.cuda.contract_told import contraction_told
from softcuda.backends.cuda.contraction_limits import (
    carried_verdict,
    chain_verdict,
    contraction_verdict,
)
from softcuda.backends.cuda.dots import dot_steps
from softcuda.backends.cuda.gemm_told import product_told
from softcuda.backends.cuda.making_rule import makes_verdict
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
    "absorbs",
    "carries",
    "further_kernels",
    "in_place",
    "makes",
    "prepare",
    "supports",
    "told",
]

BACKEND_ID: Final = "cuda_contract"
DEVICE: Final = "cuda"
FUSES: Final = frozenset({Kind.CONTRACTION})
EPILOGUES: Final = frozenset({Kind.CONTRACTION})
KERNELS: Final[tuple[KernelSpec, ...]] = CONTRACT_KERNELS


def further_kernels() -> Iterator[KernelSpec]:
    """Yield the kernels without a chain that the table lacks, and some that it has."""
    return further_contractions()


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is a contraction of floats whose extents fit 32-bit indices."""
    return contraction_verdict(BACKEND_ID, line, operands)


def absorbs(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line can be part of the chain behind a contraction."""
    return chain_verdict(BACKEND_ID, line, operands)


def carries(chain: Sequence[Line], reads: Sequence[Line], registers: int) -> Verdict:
    """Return whether a kernel holds the chain behind a contraction."""
    return carried_verdict(BACKEND_ID, chain, reads, registers)


def makes(
    chain: Sequence[Line],
    reads: Sequence[Line],
    line: Line,
    operands: Sequence[Line],
    number: int,
    target: Target,
) -> Verdict:
    """Return whether a kernel makes operand `number` by a chain as it loads it, and why."""
    return makes_verdict(BACKEND_ID, chain, reads, line, operands, number, target)


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction, by dots.py where it is a sum, and its chain."""
    return dot_steps(BACKEND_ID, unit, target) or prepare_contract(unit, target)


def in_place(step: Step) -> Step:
    """Return the step itself: a contraction may write what only the chain behind it reads.

    The thread that stores an element has read that element of the chain's operands before; what
    other threads read in its place, for rows that do not exist, they do not use.
    """
    return step


def told(step: Step, target: Target) -> tuple[str, ...]:
    """Return into which boxes a contraction is cut, or tiles where gemm_tiled.cu computes it."""
    return contraction_told(step, target) or product_told(step, target)
