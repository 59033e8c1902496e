"""cuda_permute: copies and casts of permuted or strided views, concat and stack, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.backends.cuda.permute import PERMUTE_KERNELS, Side, cast_launch, copy_launch
from softcuda.backends.launches import KernelLaunch, read
from softcuda.backends.steps import Micro, Operand, Step, Unit, Verdict
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["BACKEND_ID", "DEVICE", "EPILOGUES", "FUSES", "KERNELS", "prepare", "supports"]

BACKEND_ID: Final = "cuda_permute"
DEVICE: Final = "cuda"
FUSES: Final[frozenset[Kind]] = frozenset()
EPILOGUES: Final[frozenset[Kind]] = frozenset()
KERNELS: Final[tuple[KernelSpec, ...]] = PERMUTE_KERNELS

MAX_JOINED: Final = 16  # operands of a concat or stack: each is a launch

_COPIES: Final = ("copy", "cast")
_JOINS: Final = ("concat", "stack")


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is a copy or cast, or a concat or stack of few operands."""
    name = line.op.name
    if name in _COPIES:
        return Verdict(True)
    if name not in _JOINS:
        return Verdict(False, f"cuda_permute computes {', '.join((*_COPIES, *_JOINS))}, not {name}")
    if len(operands) > MAX_JOINED:
        return Verdict(
            False,
            f"{name} of {len(operands)} operands; cuda_permute launches a kernel for each and "
            f"takes at most {MAX_JOINED}",
        )
    return Verdict(True)


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a node; a result without elements launches nothing."""
    micro = unit.chain[-1]
    launches: tuple[KernelLaunch, ...] = ()
    if numel(unit.result.dims):
        places = _places(unit, micro)
        launches = tuple(
            _moved(unit.operands[source], source, place, unit.result, target)
            for source, place in zip(micro.sources, places, strict=True)
            if numel(unit.operands[source].dims)
        )
    return (
        Step(
            BACKEND_ID,
            launches[0].spec.id if launches else micro.op.name,
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            lines=unit.lines,
            launches=launches,
        ),
    )


def _places(unit: Unit, micro: Micro) -> list[Side]:
    """Return where each operand lies in the result."""
    strides = contiguous_strides(unit.result.dims)
    if micro.op.name not in _JOINS:
        return [Side(0, strides)]
    axis, start, places = micro.params.axis, 0, []
    is_stack = micro.op.name == "stack"
    kept: Dims = (*strides[:axis], *strides[axis + 1 :]) if is_stack else strides
    for source in micro.sources:
        places.append(Side(start * strides[axis], kept))
        start += 1 if is_stack else unit.operands[source].dims[axis]
    return places


def _moved(
    operand: Operand, number: int, place: Side, result: Operand, target: Target
) -> KernelLaunch:
    source = read(number)
    if operand.dtype is not result.dtype:
        dtypes = (operand.dtype, result.dtype)
        return cast_launch(operand.dims, source, operand.strides, place, dtypes, target)
    given = Side(operand.offset, operand.strides)
    return copy_launch(operand.dims, source, given, place, result.dtype.itemsize, target)
