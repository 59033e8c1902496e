"""Reductions of a few elements, with the chain before them: a flat list of bare ufunc calls.

Everything is decided when the calls are made; a run does nothing but the calls. Sums are kept in
f64 or i64, extremes in their own dtype; 16-bit values are read as f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain import environment, slot_bytes
from softcuda.backends.host.chain_calls import (
    EXTREME_LOOP_NS,
    LOOP_NS,
    SERIAL_NS,
    CallList,
    Field,
    in_memory_order,
)
from softcuda.backends.host.chain_program import build_program
from softcuda.backends.host.chain_space import fuse_axes
from softcuda.backends.host.chain_sums import wide
from softcuda.backends.steps import Micro, Operand
from softcuda.dtype import bf16, bool_, f16
from softcuda.graph.params import Params, value_of

__all__ = ["record_reduction"]

Array = np.ndarray[Any, Any]
Recorder = Callable[[CallList, Field, Array, Any], None]

_F32: Final = np.dtype(np.float32)
_F64: Final = np.dtype(np.float64)
_I16: Final = np.dtype(np.int16)
_BOOL: Final = np.dtype(np.bool_)


def record_reduction(
    made: CallList,
    chain: Sequence[Micro],
    operands: Sequence[Operand],
    inputs: Sequence[Array],
    out: Array,
) -> None:
    """Record the calls that write a reduction, with the chain before it, to `out`.

    Args:
        made: takes the calls.
        chain: elementwise ops, if any, then the reduction of the last one's value.
        operands: the external operands as the step names them.
        inputs: their arrays, any strides; no extent is 0.
        out: dense array of the result.
    """
    last = chain[-1]
    params: Any = last.params
    place = last.sources[0]
    dims = operands[place].dims if place >= 0 else chain[~place].dims
    if len(chain) == 1:
        operands, inputs = [operands[place]], [inputs[place]]
        if last.op.name in ("any", "all") and operands[0].dtype in (f16, bf16):
            operands, inputs = [operands[0]._replace(dtype=bool_)], [_flags(made, inputs[0])]
    program = build_program(chain[:-1], operands, None)
    space = fuse_axes(dims, inputs, [axis in params.axes for axis in range(len(dims))])
    axes = tuple(axis for axis, reduced in enumerate(space.labels) if reduced)
    scratch = made.memory(slot_bytes(program, math.prod(dims)))
    shapes = [view.shape for view in space.arrays]
    env = environment(program, space.dims, shapes, math.prod(dims), scratch)
    env[: len(space.arrays)] = space.arrays
    for number in program.zeros:  # in memory of their own: others may use the scratch between runs
        env[number] = np.zeros_like(env[number])
    for function, sources, target in program.instructions:
        made.add(function, *(env[source] for source in sources), env[target])
    values = np.broadcast_to(env[program.result], space.dims)
    own = program.result > program.externals and values.strides == env[program.result].strides
    if own:
        values = env[program.result]
    if not axes:  # only axes of extent 1, or none, are reduced
        values, axes = values.reshape(*space.dims, 1), (len(space.dims),)
    kept = tuple(d for axis, d in enumerate(values.shape) if axis not in axes)
    record = _ARGUMENTS.get(last.op.name) or _RECORDERS[last.op.name]
    result = out.reshape(kept, copy=False)
    if last.op.name in _ARGUMENTS:
        record(made, Field(values, axes, tuple(range(values.ndim)), own), result, params)
    else:
        record(made, in_memory_order(values, axes, own=own), result, params)


def _flags(made: CallList, halves: Array) -> Array:
    """Return which elements of 16 bits are no zero, read as integers: without their sign."""
    magnitudes, flags = made.take(halves.shape, _I16), made.take(halves.shape, _BOOL)
    made.add(np.left_shift, halves.view(_I16), np.asarray(1, _I16), magnitudes)
    made.add(np.not_equal, magnitudes, np.asarray(0, _I16), flags)
    return flags


def _result(field: Field, out: Array) -> Array:
    """Return `out`, whose axes are the kept ones in order, with its axes as the field has them."""
    kept = [number for axis, number in enumerate(field.order) if axis not in field.axes]
    return out.transpose([sorted(kept).index(number) for number in kept])


def _reduce(made: CallList, ufunc: Any, field: Field, dtype: Any, target: Array) -> None:
    made.add(ufunc.reduce, field.values, field.axes, dtype, target, False)


def _floats(field: Field) -> np.dtype[Any]:
    return field.values.dtype if field.values.dtype.kind == "f" else _F64


def _adding(ufunc: Any) -> Recorder:
    """Return the recorder of sum or prod."""
    serial_ns = SERIAL_NS if ufunc is np.multiply else 0.0

    def record(made: CallList, field: Field, out: Array, params: Params) -> None:
        field = made.lay(field, loop_ns=LOOP_NS + serial_ns * field.depth)
        dtype = wide(field.values.dtype)
        out = _result(field, out)
        target = made.target(out, dtype)
        _reduce(made, ufunc, field, dtype, target)
        made.deliver(target, out)

    return record


def _mean(made: CallList, field: Field, out: Array, params: Params) -> None:
    field = made.lay(field)
    out = _result(field, out)
    target = made.target(out, _F64)
    _reduce(made, np.add, field, _F64, target)
    made.add(np.divide, target, np.asarray(float(field.depth)), target)
    made.deliver(target, out)


def _extreme(ufunc: Any) -> Recorder:
    """Return the recorder of max or min: NaN before all, -0 below +0.

    Bits as integers tell zeros apart: where the greatest (least) element is a zero, the greatest
    (least) integer has its sign; where it is another number, the integer's sign is its sign.
    """

    def record(made: CallList, field: Field, out: Array, params: Params) -> None:
        dtype = field.values.dtype
        if dtype.kind != "f":
            field = made.lay(field)
            _reduce(made, ufunc, field, None, _result(field, out))
            return
        field = made.lay(field, loop_ns=EXTREME_LOOP_NS)
        out = _result(field, out)
        integer = np.dtype(np.int32 if dtype == _F32 else np.int64)
        found, signs = made.take(field.kept, dtype), made.take(field.kept, integer)
        _reduce(made, ufunc, field, None, found)
        _reduce(made, ufunc, field._replace(values=field.values.view(integer)), None, signs)
        target = out if out.dtype == dtype else found
        made.add(np.copysign, found, signs.view(dtype), target)
        made.deliver(target, out)

    return record


def _logical(ufunc: Any) -> Recorder:
    """Return the recorder of any or all; NaN counts as true."""

    def record(made: CallList, field: Field, out: Array, params: Params) -> None:
        values = field.values
        if values.dtype != _BOOL:
            flags = made.take(values.shape, _BOOL)
            made.add(np.not_equal, values, np.zeros((), values.dtype), flags)
            field = field._replace(values=flags, own=True)
        field = made.lay(field)
        _reduce(made, ufunc, field, None, _result(field, out))

    return record


def _moment(root: bool) -> Recorder:
    """Return the recorder of var or std: two passes in f64."""

    def record(made: CallList, field: Field, out: Array, params: Any) -> None:
        field = made.lay(field, _F64)
        out = _result(field, out)
        mean = made.take(field.along, _F64)
        made.add(np.add.reduce, field.values, field.axes, _F64, mean, True)
        made.add(np.divide, mean, np.asarray(float(field.depth)), mean)
        apart = made.room(field)
        made.add(np.subtract, field.values, mean, apart)
        made.add(np.multiply, apart, apart, apart)
        target = made.target(out, _F64)
        _reduce(made, np.add, field._replace(values=apart), _F64, target)
        divisor = max(field.depth - float(value_of(params.correction)), 0.0)
        made.add(np.divide, target, np.asarray(divisor), target)
        if root:
            made.add(np.sqrt, target, target)
        made.deliver(target, out)

    return record


def _norm(made: CallList, field: Field, out: Array, params: Any) -> None:
    order = float(value_of(params.order))
    if math.isinf(order):
        field = made.lay(field, _floats(field), loop_ns=EXTREME_LOOP_NS)
        out = _result(field, out)
        room, target = made.room(field), made.target(out, field.values.dtype)
        made.add(np.absolute, field.values, room)
        ufunc = np.maximum if order > 0 else np.minimum
        _reduce(made, ufunc, field._replace(values=room), None, target)
        made.deliver(target, out)
        return
    field = made.lay(field, _F64)
    out = _result(field, out)
    values, room, target = field.values, made.room(field), made.target(out, _F64)
    if order == 0:
        made.add(np.not_equal, values, np.zeros(()), room)
    elif order == 2:
        made.add(np.multiply, values, values, room)
    else:
        made.add(np.absolute, values, room)
        if order != 1:
            made.add(np.power, room, np.asarray(order), room)
    _reduce(made, np.add, field._replace(values=room), _F64, target)
    if order == 2:
        made.add(np.sqrt, target, target)
    elif order not in (0, 1):
        made.add(np.power, target, np.asarray(1 / order), target)
    made.deliver(target, out)


def _logsumexp(made: CallList, field: Field, out: Array, params: Params) -> None:
    """Record shift + log sum exp(x - shift); the shift is the greatest element, made finite.

    An infinite x is then as infinite beside its shift, and a NaN, which no shift needs to be,
    comes through the sum.
    """
    dtype = _floats(field)
    field = made.lay(field, dtype, loop_ns=EXTREME_LOOP_NS)
    out = _result(field, out)
    largest = np.asarray(np.finfo(dtype).max, dtype)
    top, powers = made.take(field.along, dtype), made.room(field)
    made.add(np.maximum.reduce, field.values, field.axes, None, top, True, -largest)
    made.add(np.fmin, top, largest, top)
    made.add(np.subtract, field.values, top, powers)
    made.add(np.exp, powers, powers)
    target = made.target(out, _F64)
    _reduce(made, np.add, field._replace(values=powers), _F64, target)
    made.add(np.log, target, target)
    shift = top.reshape(field.kept)
    if dtype != _F64:
        shift = made.take(field.kept, _F64)
        made.add(np.copyto, shift, top.reshape(field.kept))
    made.add(np.add, target, shift, target)
    made.deliver(target, out)


def _argument(name: str) -> Recorder:
    """Return the recorder of argmin or argmax: NumPy's own gives the first NaN, else extreme."""

    def record(made: CallList, field: Field, out: Array, params: Params) -> None:
        values, axes = field.values, field.axes
        if len(axes) > 1:  # indices count the reduced axes in order
            kept = tuple(axis for axis in range(values.ndim) if axis not in axes)
            turned = values.transpose(kept + axes)
            values = made.take(turned.shape, values.dtype)
            made.add(np.copyto, values, turned)
            values, axes = values.reshape(*field.kept, field.depth), (len(kept),)
        made.add(getattr(np.ndarray, name), values, axes[0], out)

    return record


_ARGUMENTS: Final[Mapping[str, Recorder]] = MappingProxyType(
    {"argmin": _argument("argmin"), "argmax": _argument("argmax")}
)

_RECORDERS: Final[Mapping[str, Recorder]] = MappingProxyType(
    {
        "sum": _adding(np.add),
        "prod": _adding(np.multiply),
        "mean": _mean,
        "min": _extreme(np.minimum),
        "max": _extreme(np.maximum),
        "any": _logical(np.logical_or),
        "all": _logical(np.logical_and),
        "var": _moment(root=False),
        "std": _moment(root=True),
        "norm": _norm,
        "logsumexp": _logsumexp,
    }
)
