"""Composites: how softmax, log_softmax and layer_norm are made of simpler ops.

16-bit operands are cast to f32 first and the result is cast back, so that an expanded composite
rounds once, like one that a backend computes whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from softcuda.dtype import DType, compute_dtype
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast, Constant, Reduce

__all__ = ["EXPANSIONS"]

Expansion = Callable[[GraphBuilder, Line], int]


def _cast(builder: GraphBuilder, source: int, dtype: DType) -> int:
    if builder.lines[source].dtype is dtype:
        return source
    return builder.add(OPS["cast"], (source,), Cast(dtype))


def _call(builder: GraphBuilder, op: str, *inputs: int) -> int:
    return builder.add(OPS[op], inputs)


def _reduce(builder: GraphBuilder, op: str, source: int, axes: tuple[int, ...]) -> int:
    return builder.add(OPS[op], (source,), Reduce(axes, True))


def _copied(builder: GraphBuilder, line: Line) -> int:
    """Return the operand as a line of its own: what a composite without elements is."""
    source = line.inputs[0]
    if builder.lines[source].dtype is line.dtype:
        return _call(builder, "copy", source)
    return _cast(builder, source, line.dtype)


def _shifted(builder: GraphBuilder, line: Line) -> tuple[int, tuple[int, ...]]:
    """Return x - max(x) along the axis, and the axis."""
    axes = (line.params.axis,)
    source = _cast(builder, line.inputs[0], compute_dtype(line.dtype))
    return _call(builder, "sub", source, _reduce(builder, "max", source, axes)), axes


def softmax(builder: GraphBuilder, line: Line) -> int:
    """Append exp(x - max) / sum(exp(x - max)); return its number."""
    if 0 in line.dims:  # there is no maximum of nothing
        return _copied(builder, line)
    shifted, axes = _shifted(builder, line)
    powers = _call(builder, "exp", shifted)
    result = _call(builder, "div", powers, _reduce(builder, "sum", powers, axes))
    return _cast(builder, result, line.dtype)


def log_softmax(builder: GraphBuilder, line: Line) -> int:
    """Append (x - max) - log(sum(exp(x - max))); return its number."""
    if 0 in line.dims:  # there is no maximum of nothing
        return _copied(builder, line)
    shifted, axes = _shifted(builder, line)
    total = _reduce(builder, "sum", _call(builder, "exp", shifted), axes)
    result = _call(builder, "sub", shifted, _call(builder, "log", total))
    return _cast(builder, result, line.dtype)


def layer_norm(builder: GraphBuilder, line: Line) -> int:
    """Append (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias; return its number."""
    params = line.params
    dtype = compute_dtype(line.dtype)
    source = _cast(builder, line.inputs[0], dtype)
    rank = len(line.dims)
    axes = tuple(range(rank - params.axes_count, rank))
    centred = _call(builder, "sub", source, _reduce(builder, "mean", source, axes))
    variance = _reduce(builder, "mean", _call(builder, "square", centred), axes)
    eps = builder.append(Line(OPS["constant"], (), (), dtype, Constant(params.eps, dtype)))
    deviation = _call(builder, "sqrt", _call(builder, "add", variance, eps))
    result = _call(builder, "div", centred, deviation)
    operands = list(line.inputs[1:])
    if params.has_weight:
        result = _call(builder, "mul", result, _cast(builder, operands.pop(0), dtype))
    if params.has_bias:
        result = _call(builder, "add", result, _cast(builder, operands.pop(0), dtype))
    return _cast(builder, result, line.dtype)


EXPANSIONS: Mapping[str, Expansion] = MappingProxyType(
    {"softmax": softmax, "log_softmax": log_softmax, "layer_norm": layer_norm}
)
