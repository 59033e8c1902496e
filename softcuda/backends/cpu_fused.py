"""cpu_fused: chains of elementwise ops, reductions with the ops before them, rows of composites.

Everything runs in cache-sized blocks on all cores, without a full-size temporary; few elements
are one block, whose bare NumPy calls are listed when the step is bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain import bind_chain, chain_scratch_bytes
from softcuda.backends.host.chain_reduce import bind_reduction, reduction_scratch_bytes
from softcuda.backends.host.chain_rows import ROW_OPS, bind_rows, rows_scratch_bytes
from softcuda.backends.steps import Step, Unit, Verdict
from softcuda.errors import BackendError
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.target import Target

__all__ = [
    "BACKEND_ID",
    "DEVICE",
    "FUNCTIONS",
    "FUSES",
    "bind",
    "in_place",
    "prepare",
    "supports",
]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

BACKEND_ID: Final = "cpu_fused"
DEVICE: Final = "cpu"
# A reduction may only be the last op of a chain; the elementwise ops before it have the extents
# of its input.
FUSES: Final = frozenset({Kind.ELEMENTWISE, Kind.REDUCTION})
FUNCTIONS: Final[Mapping[str, Any]] = MappingProxyType({})  # bind makes the calls itself


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the backend computes the line: by its kind of op; no complex reductions."""
    kind = line.op.kind
    if kind is Kind.REDUCTION and operands and operands[0].dtype.is_complex:
        return Verdict(False, f"cpu_fused reduces real numbers, not {operands[0].dtype}")
    if kind in FUSES or line.op.name in ROW_OPS:
        return Verdict(True)
    return Verdict(
        False,
        f"{line.op.name} is a {kind.value}; cpu_fused computes elementwise ops, reductions and "
        f"{', '.join(sorted(ROW_OPS))}",
    )


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step that computes the unit."""
    last = unit.chain[-1]
    if last.op.kind is Kind.REDUCTION:
        kernel = "reduce"
        scratch_bytes = reduction_scratch_bytes(unit.chain, unit.operands)
    elif last.op.kind is Kind.ELEMENTWISE:
        kernel = "chain"
        scratch_bytes = chain_scratch_bytes(unit.chain, unit.operands)
    else:
        kernel = "rows"
        scratch_bytes = rows_scratch_bytes(last, [unit.operands[s] for s in last.sources])
    return (
        Step(
            BACKEND_ID,
            kernel,
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            scratch_bytes=scratch_bytes,
            lines=unit.lines,
        ),
    )


def in_place(step: Step) -> Step | None:
    """Return a chain itself: its last call alone writes, each block what that block read."""
    return step if step.kernel == "chain" else None


def bind(
    step: Step, inputs: Sequence[Array], outputs: Sequence[Array], scratch: Array | None
) -> list[Call]:
    """Return the calls that carry out a step of `prepare` on these arrays.

    Args:
        step: made by this module.
        inputs: arrays of step.inputs, any strides.
        outputs: the array of step.outputs[0], dense.
        scratch: step.scratch_bytes bytes, or None; nothing is kept in it between two runs.

    Raises:
        BackendError: the step's kernel is not one of this module's.
    """
    if step.kernel == "chain":
        return bind_chain(step.chain, step.inputs, inputs, outputs[0], scratch)
    if step.kernel == "reduce":
        return bind_reduction(step.chain, step.inputs, inputs, outputs[0], scratch)
    if step.kernel == "rows":
        micro = step.chain[-1]  # an operand that is read twice stands once in inputs
        return bind_rows(micro, [inputs[source] for source in micro.sources], outputs[0], scratch)
    raise BackendError(
        f"cpu_fused has no kernel {step.kernel!r}; it has chain, reduce, rows; compile the graph "
        "again with this version"
    )
