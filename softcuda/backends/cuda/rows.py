"""Launches of softmax, log_softmax and layer_norm: whole rows in one kernel."""

from __future__ import annotations

from typing import Final

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.cuda.reduce_shapes import MULTIPROCESSORS, REDUCE_THREADS, power_above
from softcuda.backends.cuda.row_spaces import axis_rows, pack_rows
from softcuda.backends.cuda.walks import DTYPE_CODES
from softcuda.backends.launches import (
    Argument,
    KernelLaunch,
    f64,
    i32,
    i64,
    packed,
    read,
)
from softcuda.backends.launches import write as write_output
from softcuda.backends.steps import Step, Unit
from softcuda.dtype import DTYPES, DType
from softcuda.graph.params import value_of
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["ROW_KERNELS", "row_steps"]

_MAX_BLOCKS: Final = 2**30
_VECTOR_BYTES: Final = 16
_LONGEST: Final = 32  # columns that threads of a block lie across
_FLOATS: Final = tuple(d for d in DTYPES.values() if d.is_float)


def _spec(family: str, dtype: DType) -> KernelSpec:
    file = "layer_norm.cu" if family == "layer_norm" else "softmax.cu"
    name = dtype.name
    return KernelSpec(family, name, file, f"{family}<{name}>", (name, name), REDUCE_THREADS)


ROW_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(
    _spec(family, dtype)
    for family in ("softmax_rows", "softmax_columns", "layer_norm")
    for dtype in _FLOATS
)


def row_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a softmax, a log_softmax or a layer_norm."""
    launches: tuple[KernelLaunch, ...] = ()
    if numel(unit.result.dims):
        is_norm = unit.chain[-1].op.name == "layer_norm"
        launches = (_layer_norm(unit, target) if is_norm else _softmax(unit, target),)
    return (
        Step(
            backend_id,
            launches[0].spec.id if launches else "nothing",
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            lines=unit.lines,
            launches=launches,
        ),
    )


def _softmax(unit: Unit, target: Target) -> KernelLaunch:
    micro = unit.chain[-1]
    source = unit.operands[micro.sources[0]]
    dims, dtype = source.dims, micro.dtype
    rows = axis_rows(dims, micro.params.axis, [contiguous_strides(dims), source.strides], 1)
    length = dims[micro.params.axis]
    outer = rows.outer
    inner = Axes((length,), tuple((step,) for step in rows.steps))
    is_log = i32(micro.op.name == "log_softmax")
    out, pointer = write_output(), read(micro.sources[0])
    code = i32(DTYPE_CODES[source.dtype])
    if rows.is_columns(1):
        across = min(_LONGEST, power_above(outer.dims[-1]))
        space = packed(pack_rows(outer, inner, across.bit_length() - 1, False))
        spec = _spec("softmax_columns", dtype)
        return _launched(spec, outer.numel, across, (out, pointer, code, is_log, space))
    even = rows.steps == (1, 1) and _is_even(outer, length, dtype)
    team = _team(outer.numel, length, even and source.dtype is dtype, dtype, target)
    space = packed(pack_rows(outer, inner, team.bit_length() - 1, even))
    own = i32(source.dtype is dtype)
    spec = _spec("softmax_rows", dtype)
    arguments = (out, pointer, code, is_log, own, space)
    return _launched(spec, outer.numel, REDUCE_THREADS // team, arguments)


def _layer_norm(unit: Unit, target: Target) -> KernelLaunch:
    micro = unit.chain[-1]
    params, dtype = micro.params, micro.dtype
    numbers = list(micro.sources)
    source = unit.operands[numbers[0]]
    split = len(source.dims) - params.axes_count
    outer_dims, tail = source.dims[:split], source.dims[split:]
    factors: list[int | None] = [
        numbers.pop(1) if given else None for given in (params.has_weight, params.has_bias)
    ]
    strides = [source.strides[split:]]
    pointers: list[Argument] = [read(numbers[0])]
    codes = [i32(DTYPE_CODES[source.dtype])]
    own = source.dtype is dtype
    for number in factors:
        if number is None:
            strides.append((0,) * len(tail))
            pointers.append(i64(0))
            codes.append(i32(0))
            continue
        factor = unit.operands[number]
        strides.append(factor.strides)
        pointers.append(read(number))
        codes.append(i32(DTYPE_CODES[factor.dtype]))
        own = own and factor.dtype is dtype
    found = fuse_axes(tail, [*strides, contiguous_strides(tail)])
    inner = Axes(found.dims, found.strides[:3])
    rows = fuse_axes(outer_dims, [source.strides[:split], contiguous_strides(outer_dims)])
    none = (0,) * rows.rank
    outer = Axes(rows.dims, (rows.strides[0], none, none))
    needed = [0, *(k + 1 for k, number in enumerate(factors) if number is not None)]
    own = own and inner.rank == 1 and all(inner.strides[k] == (1,) for k in needed)
    even = own and _is_even(outer, inner.numel, dtype)
    team = _team(outer.numel, inner.numel, even, dtype, target)
    space = packed(pack_rows(outer, inner, team.bit_length() - 1, even))
    eps = f64(float(value_of(params.eps)))
    arguments = (write_output(), *pointers, *codes, i32(own), eps, space)
    return _launched(_spec("layer_norm", dtype), outer.numel, REDUCE_THREADS // team, arguments)


def _is_even(outer: Axes, length: int, dtype: DType) -> bool:
    """Return whether rows of stride 1 are vectors from their first element to their last."""
    width = _VECTOR_BYTES // dtype.itemsize
    return length % width == 0 and all(step % width == 0 for s in outer.strides for step in s)


def _team(rows: int, length: int, is_held: bool, dtype: DType, target: Target) -> int:
    """Return how many threads take a row: enough to hold it, more where rows are few."""
    width = _VECTOR_BYTES // dtype.itemsize if is_held else 1
    vectors = -(-length // width)
    team = max(min(power_above(-(-vectors // 4)), REDUCE_THREADS), min(8, power_above(vectors)))
    lanes = target.multiprocessors or MULTIPROCESSORS
    while team < min(REDUCE_THREADS, power_above(vectors)) and rows * team < lanes * 1024:
        team *= 2
    return team


def _launched(
    spec: KernelSpec, rows: int, each: int, arguments: tuple[Argument, ...]
) -> KernelLaunch:
    blocks = min(-(-rows // each), _MAX_BLOCKS)
    return KernelLaunch(spec, (blocks, 1, 1), arguments, (REDUCE_THREADS, 1, 1))
