"""Launches of naive_reduce.cu: a thread an output or a row, in f64, i64 and complex128."""

from __future__ import annotations

from typing import Any, Final

from softcuda.backends.cuda.axes import fuse_axes
from softcuda.backends.cuda.planned import launch_in_row, one_step
from softcuda.backends.cuda.states import measure_of, pack_options
from softcuda.backends.cuda.walks import DTYPE_CODES, WALK_THREADS, blocks_for, pack_walk
from softcuda.backends.launches import (
    Argument,
    f64,
    i32,
    i64,
    packed,
    read,
)
from softcuda.backends.launches import write as write_output
from softcuda.backends.steps import Step, Unit
from softcuda.dtype import REAL_DTYPES, DType, complex64, complex128
from softcuda.dtype import f64 as f64_dtype
from softcuda.dtype import i64 as i64_dtype
from softcuda.graph.lines import operand_dtypes
from softcuda.graph.params import Dims, value_of
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["NAIVE_REDUCE", "prepare_composite", "prepare_reduction", "prepare_scan"]

_BACKEND_ID: Final = "cuda_naive"
_ALL: Final = tuple(REAL_DTYPES)
_FLOATS: Final = tuple(name for name, d in REAL_DTYPES.items() if d.is_float)
_COMPLEX: Final = (complex64.name, complex128.name)
_WHOLE: Final = tuple(name for name, d in REAL_DTYPES.items() if not d.is_float)


def _spec(family: str, argument: str, dtypes: tuple[str, ...]) -> KernelSpec:
    variant = argument.replace("<", "_").replace(">", "").lower()
    expression = f"{family}<{argument}>"
    return KernelSpec(family, variant, "naive_reduce.cu", expression, dtypes, WALK_THREADS)


_REDUCE: Final = {
    argument: _spec("naive_reduce", argument, dtypes)
    for argument, dtypes in (
        *((f"{state}<f64>", _FLOATS) for state in ("Product", "Argument")),
        ("Extreme<f64>", (*_FLOATS, *_COMPLEX)),
        *((f"{state}<i64>", _WHOLE) for state in ("Sum", "Product", "Extreme", "Argument")),
        *((f"{state}<f64>", _ALL) for state in ("Sum", "Moments", "LogSumExp")),
        *((f"{state}<f64>", (*_ALL, *_COMPLEX)) for state in ("Norm", "Powers")),
        ("Extreme<bool>", (*_ALL, *_COMPLEX)),
        ("Product<complex128>", _COMPLEX),
    )
}
_SCAN: Final = {
    "f64": _spec("naive_scan", "f64", _FLOATS),
    "i64": _spec("naive_scan", "i64", _WHOLE),
}
_SOFTMAX: Final = _spec("naive_softmax", "f64", _ALL)
_LAYER_NORM: Final = _spec("naive_layer_norm", "f64", _ALL)

NAIVE_REDUCE: Final[tuple[KernelSpec, ...]] = (
    *_REDUCE.values(),
    *_SCAN.values(),
    _SOFTMAX,
    _LAYER_NORM,
)


def prepare_reduction(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a reduction."""
    micro = unit.chain[-1]
    source = unit.operands[micro.sources[0]]
    axes = micro.params.axes
    kept = _part(source.dims, source.strides, [a not in axes for a in range(len(source.dims))])
    gone = _part(source.dims, source.strides, [a in axes for a in range(len(source.dims))])
    measure = measure_of(micro.op.name, _wide(micro.op.name, source.dtype), micro.params, gone[0])
    arguments = (
        write_output(),
        i64(kept[0]),
        i64(gone[0]),
        _code(micro.dtype),
        i32(measure.of_sizes),
        read(micro.sources[0]),
        _code(source.dtype),
        packed(pack_options(measure)),
        packed(kept[1]),
        packed(gone[1]),
    )
    return _step(unit, _REDUCE[measure.state], kept[0], arguments, target)


def prepare_scan(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a running sum."""
    micro = unit.chain[-1]
    source = unit.operands[micro.sources[0]]
    spec = _SCAN["f64" if micro.dtype.is_float else "i64"]
    rows, walk, steps = _rows(source.dims, source.strides, micro.params.axis)
    arguments = (
        write_output(),
        *(i64(n) for n in (rows, source.dims[micro.params.axis], *steps)),
        _code(micro.dtype),
        read(micro.sources[0]),
        _code(source.dtype),
        packed(walk),
    )
    return _step(unit, spec, rows, arguments, target)


def prepare_composite(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a softmax, a log_softmax or a layer_norm."""
    micro = unit.chain[-1]
    operands: list[Any] = [unit.operands[s] for s in micro.sources]
    operand = operand_dtypes(micro.op, operands, micro.params)[0]
    if micro.op.name == "layer_norm":
        return _layer_norm(unit, operand, target)
    source = operands[0]
    rows, walk, steps = _rows(source.dims, source.strides, micro.params.axis)
    arguments = (
        write_output(),
        *(i64(n) for n in (rows, source.dims[micro.params.axis], *steps)),
        _code(micro.dtype),
        i32(micro.op.name == "log_softmax"),
        read(micro.sources[0]),
        _code(source.dtype),
        _code(operand),
        packed(walk),
    )
    return _step(unit, _SOFTMAX, rows, arguments, target)


def _layer_norm(unit: Unit, operand: DType, target: Target) -> tuple[Step, ...]:
    micro, params = unit.chain[-1], unit.chain[-1].params
    numbers = list(micro.sources)
    source = unit.operands[numbers[0]]
    split = len(source.dims) - params.axes_count
    tail = source.dims[split:]
    strides = [source.strides[split:]]
    factors: list[Argument] = []
    for given in (params.has_weight, params.has_bias):
        if given:
            number = numbers.pop(1)
            strides.append(unit.operands[number].strides)
            factors += (read(number), _code(unit.operands[number].dtype))
        else:
            strides.append((0,) * len(tail))
            factors += (i64(0), i32(0))
    rows, walk = _part(source.dims, source.strides, [a < split for a in range(len(source.dims))])
    inner = fuse_axes(tail, [*strides, contiguous_strides(tail)]) if 0 not in tail else None
    elements = pack_walk(inner.dims, inner.strides[:3], True) if inner else b""
    arguments = (
        *(write_output(), i64(rows), i64(numel(tail)), f64(float(value_of(params.eps)))),
        *(_code(micro.dtype), _code(operand), read(numbers[0]), _code(source.dtype), *factors),
        *(packed(walk), packed(elements)),
    )
    return _step(unit, _LAYER_NORM, rows, arguments, target)


def _step(
    unit: Unit, spec: KernelSpec, work: int, arguments: tuple[Argument, ...], target: Target
) -> tuple[Step, ...]:
    launch = launch_in_row(spec, blocks_for(work, WALK_THREADS, target), arguments)
    return one_step(_BACKEND_ID, unit, lambda: ((launch,), 0))


def _code(dtype: DType) -> Argument:
    return i32(DTYPE_CODES[dtype])


def _wide(name: str, dtype: DType) -> DType:
    """Return what elements are computed as; of complex numbers but in products their sizes are."""
    if dtype.is_complex and name == "prod":
        return complex128
    return f64_dtype if dtype.is_inexact else i64_dtype


def _part(dims: Dims, strides: Dims, chosen: list[bool]) -> tuple[int, bytes]:
    """Return how many iterations some axes have, and their Walk over one set of strides."""
    axes = [axis for axis, is_chosen in enumerate(chosen) if is_chosen]
    extents = tuple(dims[a] for a in axes)
    if 0 in extents:
        return 0, pack_walk((), [()], True)
    steps = tuple(strides[a] for a in axes)
    fused = fuse_axes(extents, [steps, contiguous_strides(extents)])
    return fused.numel, pack_walk(fused.dims, fused.strides[:1], True)


def _rows(dims: Dims, strides: Dims, axis: int) -> tuple[int, bytes, Dims]:
    """Return the number of rows along an axis, their Walk, and the steps along a row."""
    dense = contiguous_strides(dims)
    axes = [a for a in range(len(dims)) if a != axis]
    extents = tuple(dims[a] for a in axes)
    steps = (strides[axis], dense[axis])
    if 0 in extents:
        return 0, pack_walk((), [(), ()], True), steps
    fused = fuse_axes(extents, [tuple(s[a] for a in axes) for s in (strides, dense)])
    return fused.numel, pack_walk(fused.dims, fused.strides, True), steps
