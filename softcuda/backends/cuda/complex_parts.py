"""Complex numbers on a device: who refuses them, and ops that treat their parts alike.

A sum does the same to real and imaginary parts: it is planned as the real op over an operand with
one more axis, the two parts, which lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from softcuda.backends.steps import Micro, Operand, Step, Unit, Verdict
from softcuda.dtype import real_dtype
from softcuda.graph.lines import Line
from softcuda.target import Target

__all__ = [
    "doubled",
    "has_parts",
    "on_parts",
    "parted",
    "parts_verdict",
    "prepared_on_parts",
    "real_verdict",
]

Preparer = Callable[[Unit, Target], tuple[Step, ...]]

_ALIKE: Final = ("sum", "mean", "cumsum")


def real_verdict(backend_id: str, line: Line, operands: Sequence[Line]) -> Verdict:
    """Return whether the result and all operands of a line are real.

    Args:
        backend_id: who is asked.
        line: what is to be computed.
        operands: the lines it reads.
    """
    for each in (line, *operands):
        if each.dtype.is_complex:
            return Verdict(
                False, f"{backend_id} computes {line.op.name} of reals, not {each.dtype}"
            )
    return Verdict(True)


def parts_verdict(backend_id: str, line: Line, operands: Sequence[Line]) -> Verdict:
    """Return whether a line is one of real numbers, or of complex ones part by part.

    Args:
        backend_id: who is asked.
        line: what is to be computed.
        operands: the lines it reads.
    """
    if line.op.name in _ALIKE:
        return Verdict(True)
    return real_verdict(backend_id, line, operands)


def has_parts(unit: Unit) -> bool:
    """Return whether a unit is one op that is to be planned over the parts of complex numbers."""
    return unit.chain[-1].op.name in _ALIKE and unit.result.dtype.is_complex


def prepared_on_parts(unit: Unit, target: Target, preparer: Preparer) -> tuple[Step, ...]:
    """Return the steps of a unit over complex numbers, planned over their parts.

    Args:
        unit: one that `has_parts`.
        target: for the grids.
        preparer: plans the op of real numbers.
    """
    made = preparer(on_parts(unit), target)
    inputs, outputs, chain = unit.operands, (unit.result,), unit.chain
    return tuple(step._replace(inputs=inputs, outputs=outputs, chain=chain) for step in made)


def on_parts(unit: Unit) -> Unit:
    """Return a unit over complex numbers as one over real numbers with an axis of parts."""
    (micro,) = unit.chain
    result = parted(unit.result)
    moved = Micro(micro.op, micro.sources, result.dims, result.dtype, micro.params)
    operands = tuple(parted(x) for x in unit.operands)
    return unit._replace(chain=(moved,), operands=operands, result=result)


def parted(operand: Operand) -> Operand:
    """Return the parts of a complex operand [its extents, 2]."""
    wide = doubled(operand, 1)
    steps = (*(2 * stride for stride in operand.strides), 1)
    return wide._replace(offset=2 * operand.offset, strides=steps, dtype=real_dtype(operand.dtype))


def doubled(operand: Operand, stride: int) -> Operand:
    """Return an operand with an axis of extent 2 behind all others.

    Args:
        operand: of any dtype.
        stride: along that axis [elements].
    """
    return operand._replace(dims=(*operand.dims, 2), strides=(*operand.strides, stride))
