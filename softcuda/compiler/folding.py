"""Folding rules of `simplify`: only what is exact, bit for bit, for every input, NaN included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS
from softcuda.graph.params import Permute, Shape, value_of

__all__ = ["fold"]

Rule = Callable[[GraphBuilder, Line], "int | None"]


def fold(builder: GraphBuilder, line: Line) -> int | None:
    """Return the number of an equal earlier (or newly added) line, or None."""
    rule = _RULES.get(line.op.name)
    return None if rule is None else rule(builder, line)


def _number(builder: GraphBuilder, line: int) -> str | None:
    """Return the text of a constant line, or of the one that is broadcast, else None."""
    source = builder.lines[line]
    if source.op.name == "broadcast_to":
        source = builder.lines[source.inputs[0]]
    return source.params.value if source.op.name == "constant" else None


def _same(builder: GraphBuilder, line: Line, source: int) -> int | None:
    """Return `source` where it has the shape and dtype of the line."""
    kept = builder.lines[source]
    return source if kept.dims == line.dims and kept.dtype is line.dtype else None


def _is(text: str | None, value: float) -> bool:
    return text is not None and value_of(text) == value


def _mul(builder: GraphBuilder, line: Line) -> int | None:
    """Fold x * 1 to x; a complex x stays, since inf * 0 in one of its parts is NaN."""
    a, b = line.inputs
    if line.dtype.is_complex:
        return None
    if _is(_number(builder, b), 1):
        return _same(builder, line, a)
    if _is(_number(builder, a), 1):
        return _same(builder, line, b)
    return None


def _by_one(builder: GraphBuilder, line: Line) -> int | None:
    """Fold x / 1 and x ** 1 to x; a complex x stays, as in `_mul`."""
    one = not line.dtype.is_complex and _is(_number(builder, line.inputs[1]), 1)
    return _same(builder, line, line.inputs[0]) if one else None


def _add(builder: GraphBuilder, line: Line) -> int | None:
    """Fold x + (-0.0) to x; x + 0.0 stays (it turns -0.0 into 0.0), but for integers."""
    a, b = line.inputs
    for kept, other in ((a, b), (b, a)):
        text = _number(builder, other)
        if text == "-0.0" or (line.dtype.is_integer and text == "0"):
            return _same(builder, line, kept)
    return None


def _sub(builder: GraphBuilder, line: Line) -> int | None:
    """Fold x - 0.0 to x; x - (-0.0) stays (it turns -0.0 into 0.0)."""
    text = _number(builder, line.inputs[1])
    return _same(builder, line, line.inputs[0]) if text in ("0.0", "0") else None


def _twice(builder: GraphBuilder, line: Line) -> int | None:
    """Fold neg(neg(x)), logical_not(logical_not(x)) to x."""
    inner = builder.lines[line.inputs[0]]
    return _same(builder, line, inner.inputs[0]) if inner.op is line.op else None


def _again(builder: GraphBuilder, line: Line) -> int | None:
    """Fold an op that changes nothing the second time."""
    return line.inputs[0] if builder.lines[line.inputs[0]].op is line.op else None


def _unchanged(builder: GraphBuilder, line: Line) -> int | None:
    return _same(builder, line, line.inputs[0])


def _conj(builder: GraphBuilder, line: Line) -> int | None:
    """Fold conj(conj(x)) to x, and conj(x) of a real x."""
    return _twice(builder, line) if line.dtype.is_complex else _unchanged(builder, line)


def _permute(builder: GraphBuilder, line: Line) -> int | None:
    axes = line.params.axes
    if axes == tuple(range(len(axes))):
        return line.inputs[0]
    inner = builder.lines[line.inputs[0]]
    if inner.op is not line.op:
        return None
    joined = tuple(inner.params.axes[axis] for axis in axes)
    if joined == tuple(range(len(axes))):
        return inner.inputs[0]
    return builder.append(line._replace(inputs=inner.inputs, params=Permute(joined)))


def _reshape(builder: GraphBuilder, line: Line) -> int | None:
    inner = builder.lines[line.inputs[0]]
    if inner.dims == line.dims:
        return line.inputs[0]
    if inner.op is not line.op:
        return None
    source = builder.lines[inner.inputs[0]]
    if source.dims == line.dims:
        return inner.inputs[0]
    return builder.append(line._replace(inputs=inner.inputs, params=Shape(line.dims)))


def _slice(builder: GraphBuilder, line: Line) -> int | None:
    whole = all(step == 1 for step in line.params.steps)
    return _same(builder, line, line.inputs[0]) if whole else None


def _single(builder: GraphBuilder, line: Line) -> int | None:
    return _same(builder, line, line.inputs[0]) if len(line.inputs) == 1 else None


_RULES: Final[dict[str, Rule]] = {
    "mul": _mul,
    "div": _by_one,
    "add": _add,
    "sub": _sub,
    "pow": _by_one,
    "neg": _twice,
    "logical_not": _twice,
    "abs": _again,
    "relu": _again,
    "floor": _again,
    "ceil": _again,
    "round": _again,
    "sign": _again,
    "cast": _unchanged,
    "copy": _unchanged,
    "conj": _conj,
    "real": _unchanged,
    "permute": _permute,
    "reshape": _reshape,
    "broadcast_to": _unchanged,
    "slice": _slice,
    "concat": _single,
}

if not set(_RULES) <= set(OPS):
    raise KeyError(f"folding rules for unknown ops: {set(_RULES) - set(OPS)}")
