"""Complex numbers on a device: what each backend takes, and ops that treat their parts alike.

Elementwise ops and contractions have kernels of their own. An op that moves elements or adds them
up does the same to real and imaginary parts: it is planned as the real op over an operand with one
more axis, the two parts, which lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from softcuda.backends.steps import Micro, Operand, Step, Unit, Verdict
from softcuda.dtype import complex64, complex128, real_dtype
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.params import literal, value_of
from softcuda.graph.shapes import MAX_RANK
from softcuda.target import Target

__all__ = ["complex_verdict", "has_parts", "on_parts", "prepared_on_parts", "real_verdict"]

Preparer = Callable[[Unit, Target], tuple[Step, ...]]

# The axis of the parts stays, behind all others; or it is reduced with the op's own axes.
_KEEPING: Final = (
    *("sum", "mean", "cumsum", "concat", "stack", "pad", "take", "gather"),
    *("index_add", "scatter_add"),
)
_REDUCING: Final = ("norm", "any")
_CREATED: Final = ("full", "eye")
_PER_ELEMENT: Final = ("gather", "scatter_add")  # an index an element: both parts have the same


def real_verdict(backend_id: str, line: Line, operands: Sequence[Line]) -> Verdict:
    """Return whether the result and all operands of a line are real.

    Args:
        backend_id: who is asked.
        line: what is to be computed.
        operands: the lines it reads.
    """
    for each in (line, *operands):
        if each.dtype.is_complex:
            return Verdict(False, f"{backend_id} computes real numbers, not {each.dtype}")
    return Verdict(True)


def complex_verdict(backend_id: str, line: Line, operands: Sequence[Line]) -> Verdict:
    """Return whether a line is one of real numbers, or of complex ones that a device computes.

    Args:
        backend_id: who is asked.
        line: what is to be computed.
        operands: the lines it reads.
    """
    name = line.op.name
    if line.op.kind in (Kind.ELEMENTWISE, Kind.CONTRACTION):
        return Verdict(True)
    real = real_verdict(backend_id, line, operands)
    if real or (name in _CREATED and _is_created(line)):
        return Verdict(True)
    if name not in (*_KEEPING, *_REDUCING):
        known = ", ".join((*_KEEPING, *_REDUCING))
        return Verdict(
            False,
            f"{backend_id} computes of complex numbers elementwise ops, contractions, {known}, "
            f"not {name}; of complex128 zeros are created",
        )
    indices = 1 if line.op.has_indices else -1
    mixed = {x.dtype for place, x in enumerate(operands) if place != indices}
    if len(mixed) > 1:
        both = " and ".join(sorted(str(dtype) for dtype in mixed))
        return Verdict(False, f"{name} of {both}; {backend_id} takes one complex dtype")
    if max(len(x.dims) for x in (line, *operands)) >= MAX_RANK:
        return Verdict(False, f"{name} of complex numbers has rank {MAX_RANK}, one too many")
    if name == "norm" and float(value_of(line.params.order)) != 2:
        return Verdict(False, f"{backend_id} computes norms of order 2 of complex numbers")
    if name == "pad" and value_of(line.params.value) != 0:
        return Verdict(False, f"{backend_id} pads complex numbers with zeros")
    return Verdict(True)


def _is_created(line: Line) -> bool:
    """Return whether the elements fit 8 bytes, or are two equal parts."""
    if line.dtype is complex64:
        return True
    if line.op.name != "full":
        return False
    value = complex(value_of(line.params.value))
    return value.real == value.imag


def has_parts(unit: Unit) -> bool:
    """Return whether a unit of one op is to be planned over the parts of complex numbers."""
    name = unit.chain[-1].op.name
    if name == "full":
        return unit.result.dtype is complex128
    is_parted = name in _KEEPING or name in _REDUCING
    return is_parted and any(operand.dtype.is_complex for operand in unit.operands)


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
    name = micro.op.name
    indices = micro.sources[1] if micro.op.has_indices else -1
    operands = tuple(
        _doubled(x, 0) if name in _PER_ELEMENT and place == indices else _parted(x)
        for place, x in enumerate(unit.operands)
    )
    result = _parted(unit.result)
    params: Any = micro.params
    if name in _REDUCING:
        params = params._replace(axes=(*params.axes, len(unit.operands[0].dims)))
        if params.keepdims:
            result = unit.result._replace(
                dims=(*unit.result.dims, 1), strides=(*unit.result.strides, 1)
            )
    elif name == "full":
        part = literal(complex(value_of(params.value)).real)
        params = params._replace(dims=result.dims, dtype=result.dtype, value=part)
    elif name == "pad":
        before, after = (*params.before, 0), (*params.after, 0)
        params = params._replace(before=before, after=after, value=literal(0.0))
    moved = Micro(micro.op, micro.sources, result.dims, result.dtype, params)
    return unit._replace(chain=(moved,), operands=operands, result=result)


def _parted(operand: Operand) -> Operand:
    """Return the parts of an operand [its extents, 2]; itself where it is real."""
    if not operand.dtype.is_complex:
        return operand
    wide = _doubled(operand, 1)
    steps = (*(2 * stride for stride in operand.strides), 1)
    return wide._replace(offset=2 * operand.offset, strides=steps, dtype=real_dtype(operand.dtype))


def _doubled(operand: Operand, stride: int) -> Operand:
    """Return an operand with an axis of extent 2 behind all others."""
    return operand._replace(dims=(*operand.dims, 2), strides=(*operand.strides, stride))
