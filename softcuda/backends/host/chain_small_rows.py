"""softmax, log_softmax and layer_norm of a few elements: a flat list of bare ufunc calls.

They are computed in f32 (f64 where the result is f64) and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain_calls import (
    EXTREME_LOOP_NS,
    LOOP_NS,
    CallList,
    Field,
    in_memory_order,
)
from softcuda.backends.host.chain_space import fuse_axes
from softcuda.backends.host.chain_sums import DEEPEST
from softcuda.backends.steps import Micro
from softcuda.dtype import compute_dtype
from softcuda.graph.params import value_of

__all__ = ["record_rows"]

Array = np.ndarray[Any, Any]

_F64: Final = np.dtype(np.float64)


def record_rows(made: CallList, micro: Micro, inputs: Sequence[Array], out: Array) -> None:
    """Record the calls that write a composite to `out`.

    Args:
        made: takes the calls.
        micro: softmax, log_softmax or layer_norm.
        inputs: the operand, any strides, no extent 0; for layer_norm weight and bias after it,
            where given.
        out: array of the operand's extents, any strides.
    """
    params: Any = micro.params
    norm = micro.op.name == "layer_norm"
    axes = range(out.ndim - params.axes_count, out.ndim) if norm else (params.axis,)
    space = fuse_axes(out.shape, (out, *inputs), [axis in axes for axis in range(out.ndim)])
    out, source, *factors = space.arrays
    values = np.broadcast_to(source, space.dims)
    reduced = tuple(axis for axis, label in enumerate(space.labels) if label)
    if not reduced:  # rows of one element
        values, out = values[..., None], out[..., None]
        factors = [factor[..., None] for factor in factors]
        reduced = (out.ndim - 1,)
    dtype = compute_dtype(micro.dtype).numpy
    field = in_memory_order(values, reduced, own=False)
    loop_ns = 2 * LOOP_NS if norm else EXTREME_LOOP_NS
    casts = (values.dtype != dtype) + (out.dtype != dtype)  # which are slow on strides
    field = made.lay(field, dtype, loop_ns=loop_ns, turns=2 + 2 * casts)
    out = out.transpose(field.order)
    if norm:
        factors = [factor.transpose(field.order) for factor in factors]
        _layer_norm(made, field, factors, out, params)
    else:
        _exponentials(made, field, out, logarithm=micro.op.name == "log_softmax")


def _sum_rows(made: CallList, values: Array, axes: tuple[int, ...], total: Array) -> None:
    """Record the sums of positive values of at most 1: pairwise, not deep, or in f64."""
    extents = [values.shape[axis] for axis in axes]
    pairwise = axes == (values.ndim - 1,) or max(extents) <= DEEPEST
    if values.dtype == _F64 or pairwise:
        made.add(np.add.reduce, values, axes, None, total, True)
        return
    exact = made.take(total.shape, _F64)
    made.add(np.add.reduce, values, axes, _F64, exact, True)
    made.add(np.copyto, total, exact, "unsafe")


def _exponentials(made: CallList, field: Field, out: Array, *, logarithm: bool) -> None:
    """Record exp(x - max x) / sum exp(x - max x) along the field's axes, or its logarithm."""
    dtype = field.values.dtype
    top, total = made.take(field.along, dtype), made.take(field.along, dtype)
    apart = made.room(field)
    powers = made.take(apart.shape, dtype) if logarithm else apart
    made.add(np.maximum.reduce, field.values, field.axes, None, top, True)
    made.add(np.subtract, field.values, top, apart)
    made.add(np.exp, apart, powers)
    _sum_rows(made, powers, field.axes, total)
    if logarithm:
        made.add(np.log, total, total)
    target = out if out.dtype == dtype else apart
    made.add(np.subtract if logarithm else np.divide, apart, total, target)
    made.deliver(target, out)


def _layer_norm(
    made: CallList, field: Field, factors: Sequence[Array], out: Array, params: Any
) -> None:
    """Record (x - mean) / sqrt(var + eps) * weight + bias; sums are kept in f64."""
    dtype, count = field.values.dtype, np.asarray(float(field.depth))
    total, small = made.take(field.along, _F64), made.take(field.along, dtype)
    apart, squares = made.room(field), made.take(field.values.shape, dtype)
    made.add(np.add.reduce, field.values, field.axes, _F64, total, True)
    made.add(np.divide, total, count, total)
    made.add(np.copyto, small, total, "unsafe")
    made.add(np.subtract, field.values, small, apart)
    made.add(np.multiply, apart, apart, squares)
    made.add(np.add.reduce, squares, field.axes, _F64, total, True)
    made.add(np.divide, total, count, total)
    made.add(np.add, total, np.asarray(float(value_of(params.eps))), total)
    made.add(np.sqrt, total, total)
    made.add(np.divide, np.asarray(1.0), total, total)
    made.add(np.copyto, small, total, "unsafe")
    steps: list[tuple[Any, Array]] = [(np.multiply, small)]
    for factor, given in zip(_loaded(made, factors, dtype), _functions(params), strict=True):
        steps.append((given, factor))
    target = out if out.dtype == dtype else apart
    for number, (function, factor) in enumerate(steps):
        made.add(function, apart, factor, target if number == len(steps) - 1 else apart)
    made.deliver(target, out)


def _functions(params: Any) -> list[Any]:
    """Return what the factors that params has do, in order."""
    return [np.multiply] * bool(params.has_weight) + [np.add] * bool(params.has_bias)


def _loaded(made: CallList, factors: Sequence[Array], dtype: np.dtype[Any]) -> list[Array]:
    """Return weight and bias in `dtype`, read anew in every run."""
    loaded = []
    for factor in factors:
        if factor.dtype != dtype:
            copy = made.take(factor.shape, dtype)
            made.add(np.copyto, copy, factor, "unsafe")
            loaded.append(copy)
        else:
            loaded.append(factor)
    return loaded
