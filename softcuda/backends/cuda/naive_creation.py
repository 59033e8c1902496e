"""Launches of full, arange, linspace and eye: one thread an output, the CPU's arithmetic."""

from __future__ import annotations

import math
from typing import Any, Final

from softcuda.backends.cuda.axes import Axes, needs_wide_index
from softcuda.backends.cuda.walks import (
    SIZED,
    WALK_THREADS,
    bits_of,
    blocks_for,
    each_block,
    index_name,
    pack_divisor,
    size_name,
    sized_dtypes,
    sized_rows,
)
from softcuda.backends.launches import Argument, KernelLaunch, f64, i32, i64, packed, write
from softcuda.backends.steps import Operand, Step, Unit
from softcuda.dtype import DTYPES
from softcuda.errors import BackendError
from softcuda.graph.params import Arange, Eye, Full, Linspace, value_of
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["CREATION_KERNELS", "prepare_creation"]

_WHOLE: Final = ("bool", "i32", "i64")


def _row(family: str, variant: str, types: str, dtypes: tuple[str, ...]) -> KernelSpec:
    return KernelSpec(family, variant, "creation.cu", f"{family}<{types}>", dtypes, WALK_THREADS)


CREATION_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(_row("full", size, size, sized_dtypes(size)) for size in SIZED),
    *(_row("arange", f"{name}_whole", f"{name}, i64", (name,)) for name in _WHOLE),
    *(_row("arange", name, f"{name}, f64", (name,)) for name in DTYPES),
    *(_row("linspace", name, name, (name,)) for name in DTYPES),
    *sized_rows("eye", "creation.cu"),
)
_SPECS: Final = {(spec.family, spec.variant): spec for spec in CREATION_KERNELS}


def prepare_creation(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a full, arange, linspace or eye; none is launched for no elements.

    Raises:
        BackendError: the unit is another op.
    """
    micro = unit.chain[-1]
    maker = _MAKERS.get(micro.op.name)
    if maker is None:
        raise BackendError(
            f"{micro.op.name} is no creation that cuda_naive launches; allowed are "
            f"{', '.join(_MAKERS)}"
        )
    launches: tuple[KernelLaunch, ...] = ()
    if numel(unit.result.dims):
        launches = (maker(unit.result, micro.params, target),)
    return (
        Step(
            "cuda_naive",
            launches[0].spec.id if launches else micro.op.name,
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            lines=unit.lines,
            launches=launches,
        ),
    )


def _launch(
    spec: KernelSpec, pieces: int, each: int, target: Target, arguments: tuple[Argument, ...]
) -> KernelLaunch:
    blocks = blocks_for(pieces, each, target)
    return KernelLaunch(spec, (blocks, 1, 1), arguments, (spec.threads, 1, 1))


def _full(out: Operand, params: Full, target: Target) -> KernelLaunch:
    count = numel(out.dims)
    value = bits_of(value_of(params.value), out.dtype)
    arguments = (write(), i64(count), i64(value))
    spec = _SPECS["full", size_name(out.dtype)]
    return _launch(spec, count, WALK_THREADS * 16 // out.dtype.itemsize, target, arguments)


def _arange(out: Operand, params: Arange, target: Target) -> KernelLaunch:
    start: Any = value_of(params.start)
    step: Any = value_of(params.step)
    count = numel(out.dims)
    is_whole = isinstance(start, int) and isinstance(step, int) and not out.dtype.is_float
    spec = _SPECS["arange", f"{out.dtype.name}_whole" if is_whole else out.dtype.name]
    number = i64 if is_whole else f64
    kind: Any = int if is_whole else float
    arguments = (write(), i64(count), number(kind(start)), number(kind(step)))
    return _launch(spec, count, each_block(False), target, arguments)


def _linspace(out: Operand, params: Linspace, target: Target) -> KernelLaunch:
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
    return _launch(_SPECS["linspace", out.dtype.name], count, each_block(False), target, arguments)


def _eye(out: Operand, params: Eye, target: Target) -> KernelLaunch:
    count = numel(out.dims)
    is_wide = needs_wide_index(Axes(out.dims, ()))
    arguments = (
        write(),
        i64(count),
        packed(pack_divisor(params.columns, is_wide)),
        i64(params.k),
        i64(bits_of(1, out.dtype)),
    )
    spec = _SPECS["eye", f"{size_name(out.dtype)}_{index_name(is_wide)}"]
    return _launch(spec, count, each_block(is_wide), target, arguments)


_MAKERS: Final[dict[str, Any]] = {
    "full": _full,
    "arange": _arange,
    "linspace": _linspace,
    "eye": _eye,
}
