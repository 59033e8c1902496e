"""A reduction over labels as lines; of nothing it gives the identity of its function."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Final

import numpy as np

from softcuda.dtype import DType
from softcuda.graph.params import Dims, Full, Norm, Reduce, literal
from softcuda.named.operators import ReductionOp
from softcuda.named.sketch import Sketch, Value

__all__ = ["reduced"]

_ORDERS: Final = MappingProxyType({ReductionOp.Norm1: "1.0", ReductionOp.Norm2: "2.0"})
_POSITIONS: Final = (ReductionOp.ArgMin, ReductionOp.ArgMax)
_EXTREMES: Final = (ReductionOp.Min, ReductionOp.Max)

# What drops no label and still changes every element.
_CHANGES: Final = (ReductionOp.Any, ReductionOp.All, *_ORDERS)


def reduced(sketch: Sketch, value: Value, kept: tuple[int, ...], op: ReductionOp) -> Value:
    """Append the reduction of a value over the labels that are not kept; return it.

    Args:
        sketch: where its lines are appended.
        value: a label that repeats walks the diagonal.
        kept: labels that stay; they keep their order.
        op: what joins elements.

    Raises:
        ShapeError: positions in an empty set of elements.
    """
    order = tuple(dict.fromkeys(value.labels))
    value = sketch.distinct(value)
    if op in _POSITIONS:  # they count in the order of the operand, which the diagonal changes
        value = sketch.ordered(value, order)
    line, labels = value
    dims = sketch.dims(line)
    axes = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    left = tuple(label for label in labels if label in kept)
    rest = tuple(dims[axis] for axis, label in enumerate(labels) if label in kept)
    if op in _POSITIONS:
        flat = sketch.ordered(value, (*left, *(labels[axis] for axis in axes))).line
        flat = sketch.reshaped(flat, (*rest, math.prod(dims[axis] for axis in axes)))
        return Value(sketch.add(op.value, flat, params=Reduce((len(rest),), False)), left)
    if not axes and op not in _CHANGES:
        return value
    if op in _EXTREMES and any(dims[axis] == 0 for axis in axes):
        return Value(_filled(sketch, rest, sketch.dtype(line), op), left)
    if op in _ORDERS:
        return Value(sketch.add("norm", line, params=Norm(axes, False, _ORDERS[op])), left)
    return Value(sketch.add(op.value, line, params=Reduce(axes, False)), left)


def _filled(sketch: Sketch, dims: Dims, dtype: DType, op: ReductionOp) -> int:
    """Return the identity of Min or Max: the largest or smallest value of the dtype."""
    is_min = op is ReductionOp.Min
    largest: bool | int | float = is_min
    if dtype.is_float:
        largest = math.inf if is_min else -math.inf
    elif dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        largest = int(limits.max if is_min else limits.min)
    return sketch.add("full", params=Full(dims, dtype, literal(largest)))
