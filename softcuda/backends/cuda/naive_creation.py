"""Launches of full, arange, linspace and eye: one thread an output, the CPU's arithmetic."""

from __future__ import annotations

import math
from typing import Any, Final

from softcuda.backends.cuda.axes import Axes, needs_wide_index
from softcuda.backends.cuda.planned import Maker, Planned, launch_in_row, step_by_table
from softcuda.backends.cuda.walks import (
    LARGE,
    SIZED,
    WALK_THREADS,
    blocks_for,
    each_block,
    element_of,
    large_rows,
    pack_divisor,
    size_name,
    sized_dtypes,
    sized_rows,
    sized_spec,
)
from softcuda.backends.launches import Argument, f64, i32, i64, packed, write
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import REAL_DTYPES
from softcuda.graph.params import Arange, Eye, Full, Linspace, value_of
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["CREATION_KERNELS", "FURTHER_CREATION", "prepare_creation"]

_WHOLE: Final = ("bool", "i32", "i64")


def _row(family: str, variant: str, types: str, dtypes: tuple[str, ...]) -> KernelSpec:
    return KernelSpec(family, variant, "creation.cu", f"{family}<{types}>", dtypes, WALK_THREADS)


CREATION_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(_row("full", size, size, sized_dtypes(size)) for size in SIZED if size != LARGE),
    *(_row("arange", f"{name}_whole", f"{name}, i64", (name,)) for name in _WHOLE),
    *(_row("arange", name, f"{name}, f64", (name,)) for name in REAL_DTYPES),
    *(_row("linspace", name, name, (name,)) for name in REAL_DTYPES),
    *sized_rows("eye", "creation.cu"),
)
FURTHER_CREATION: Final[tuple[KernelSpec, ...]] = (
    _row("full", LARGE, LARGE, sized_dtypes(LARGE)),
    *large_rows("eye", "creation.cu"),
)
_SPECS: Final = {
    (spec.family, spec.variant): spec for spec in (*CREATION_KERNELS, *FURTHER_CREATION)
}


def prepare_creation(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a full, arange, linspace or eye; none is launched for no elements.

    Raises:
        BackendError: the unit is another op.
    """
    return step_by_table("cuda_naive", unit, target, _MAKERS, "creation")


def _planned(
    spec: KernelSpec, pieces: int, each: int, target: Target, arguments: tuple[Argument, ...]
) -> Planned:
    return (launch_in_row(spec, blocks_for(pieces, each, target), arguments),), 0


def _full(unit: Unit, micro: Micro, target: Target) -> Planned:
    out: Operand = unit.result
    params: Full = micro.params
    count = numel(out.dims)
    arguments = (write(), i64(count), element_of(value_of(params.value), out.dtype))
    spec = _SPECS["full", size_name(out.dtype)]
    return _planned(spec, count, WALK_THREADS * 16 // out.dtype.itemsize, target, arguments)


def _arange(unit: Unit, micro: Micro, target: Target) -> Planned:
    out: Operand = unit.result
    params: Arange = micro.params
    start: Any = value_of(params.start)
    step: Any = value_of(params.step)
    count = numel(out.dims)
    is_whole = isinstance(start, int) and isinstance(step, int) and not out.dtype.is_float
    spec = _SPECS["arange", f"{out.dtype.name}_whole" if is_whole else out.dtype.name]
    number = i64 if is_whole else f64
    kind: Any = int if is_whole else float
    arguments = (write(), i64(count), number(kind(start)), number(kind(step)))
    return _planned(spec, count, each_block(False), target, arguments)


def _linspace(unit: Unit, micro: Micro, target: Target) -> Planned:
    params: Linspace = micro.params
    start, stop = float(value_of(params.start)), float(value_of(params.stop))
    count = params.length
    intervals = max(count - 1 if params.endpoint else count, 1)
    step = (stop - start) / intervals
    is_weighed = step == 0 or not math.isfinite(step)
    arguments = (
        write(),
        i64(count),
        f64(start),
        f64(stop),
        f64(step),
        f64(float(intervals)),
        i32(is_weighed),
        i32(params.endpoint and count > 1),
    )
    spec = _SPECS["linspace", unit.result.dtype.name]
    return _planned(spec, count, each_block(False), target, arguments)


def _eye(unit: Unit, micro: Micro, target: Target) -> Planned:
    out: Operand = unit.result
    params: Eye = micro.params
    count = numel(out.dims)
    is_wide = needs_wide_index(Axes(out.dims, ()))
    arguments = (
        write(),
        i64(count),
        packed(pack_divisor(params.columns, is_wide)),
        i64(params.k),
        element_of(1, out.dtype),
    )
    spec = sized_spec("eye", "creation.cu", out.dtype, is_wide)
    return _planned(spec, count, each_block(is_wide), target, arguments)


_MAKERS: Final[dict[str, Maker]] = {
    "full": _full,
    "arange": _arange,
    "linspace": _linspace,
    "eye": _eye,
}
