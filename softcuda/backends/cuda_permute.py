"""cuda_permute: copies and casts of permuted or strided views, concat and stack, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from softcuda.backends.cuda.elementwise import prepare_chain
from softcuda.backends.cuda.layouts import ChainInput
from softcuda.backends.cuda.permute import (
    PERMUTE_KERNELS,
    Side,
    copy_launch,
    further_permutations,
)
from softcuda.backends.cuda.planned import Launches, one_step
from softcuda.backends.cuda.turned import tiled_launch
from softcuda.backends.launches import KernelLaunch, read
from softcuda.backends.steps import Micro, Operand, Step, Unit, Verdict
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cast, Dims
from softcuda.graph.shapes import contiguous_strides, numel
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

BACKEND_ID: Final = "cuda_permute"
DEVICE: Final = "cuda"
FUSES: Final = frozenset({Kind.ELEMENTWISE})  # a copy or cast beside others is part of their chain
EPILOGUES: Final[frozenset[Kind]] = frozenset()
KERNELS: Final[tuple[KernelSpec, ...]] = PERMUTE_KERNELS

MAX_JOINED: Final = 16  # operands of a concat or stack: each is a launch

_COPIES: Final = ("copy", "cast")
_JOINS: Final = ("concat", "stack")


def further_kernels() -> Iterator[KernelSpec]:
    """Yield the kernels without a chain that the table lacks, and those that it has."""
    yield from further_permutations()


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
    """Return the one step of a unit; a result without elements launches nothing."""
    if len(unit.chain) > 1 or unit.chain[-1].op.name == "cast":
        return prepare_chain(BACKEND_ID, unit, target)
    return one_step(BACKEND_ID, unit, lambda: (_launches(unit, target), 0))


def _launches(unit: Unit, target: Target) -> Launches:
    micro = unit.chain[-1]
    return tuple(
        _moved(unit.operands[source], source, place, unit.result, target)
        for source, place in zip(micro.sources, _places(unit, micro), strict=True)
        if numel(unit.operands[source].dims)
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
    dims, dtype = operand.dims, result.dtype
    if operand.dtype is dtype:
        given = Side(operand.offset, operand.strides)
        return copy_launch(dims, read(number), given, place, dtype.itemsize, target)
    cast = (Micro(OPS["cast"], (0,), dims, dtype, Cast(dtype)),)
    reading = ChainInput(read(number), operand.dtype, operand.strides, operand.offset)
    return tiled_launch(cast, reading, dims, place, target)
