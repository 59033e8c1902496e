"""The words in which gradient rules are written: functions that make nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from softcuda.dtype import DType
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.params import (
    Cast,
    Dims,
    Full,
    Pad,
    Params,
    Permute,
    Reduce,
    Shape,
    Slice,
    literal,
    value_of,
)

__all__ = [
    "broadcasted",
    "called",
    "cast_to",
    "conjugated",
    "constant_value",
    "fitted",
    "kept_where",
    "made_by",
    "number_like",
    "padded",
    "permuted",
    "real_of",
    "reduced",
    "reshaped",
    "scaled",
    "select",
    "sliced",
    "zero_where",
    "zeros",
]

_MUL: Final = OPS["mul"]
_CONJ: Final = OPS["conj"]
_REAL: Final = OPS["real"]
_WHERE: Final = OPS["where"]
_SUM: Final = OPS["sum"]
_CAST: Final = OPS["cast"]
_RESHAPE: Final = OPS["reshape"]
_PERMUTE: Final = OPS["permute"]
_BROADCAST: Final = OPS["broadcast_to"]
_SLICE: Final = OPS["slice"]
_PAD: Final = OPS["pad"]
_FULL: Final = OPS["full"]
_CONSTANT: Final = OPS["constant"]


def made_by(token: str) -> Callable[..., Node]:
    """Return the function that makes a node of an op without params over its operands."""
    op = OPS[token]

    def make(*operands: Node) -> Node:
        return operands[0].apply(op, operands)

    return make


def called(token: str, *operands: Node, params: Params) -> Node:
    """Return the node of an op over its operands."""
    return operands[0].apply(OPS[token], operands, params)


def number_like(x: Node, value: complex) -> Node:
    """Return a number of the dtype of x, truncated where that is an integer."""
    kind: Any = complex if x.dtype.is_complex else float if x.dtype.is_float else int
    return x.number(kind(value), x.dtype)


def conjugated(x: Node) -> Node:
    """Return the complex conjugate of x: x itself where it is real."""
    return x.apply(_CONJ, (x,)) if x.dtype.is_complex else x


def real_of(x: Node) -> Node:
    """Return the real part of x: x itself where it is real."""
    return x.apply(_REAL, (x,)) if x.dtype.is_complex else x


def scaled(x: Node, factor: complex) -> Node:
    """Return x * factor."""
    return x.apply(_MUL, (x, number_like(x, factor)))


def select(condition: Node, a: Node, b: Node) -> Node:
    """Return where(condition, a, b)."""
    return condition.apply(_WHERE, (condition, a, b))


def kept_where(condition: Node, x: Node) -> Node:
    """Return x where the condition holds, else 0."""
    return condition.apply(_WHERE, (condition, x, number_like(x, 0)))


def zero_where(condition: Node, x: Node) -> Node:
    """Return 0 where the condition holds, else x."""
    return condition.apply(_WHERE, (condition, number_like(x, 0), x))


def constant_value(x: Node) -> Any:
    """Return the value of a number of the graph; None for every other node."""
    return value_of(x.params.value) if x.op is _CONSTANT else None


def cast_to(x: Node, dtype: DType) -> Node:
    """Return x in a dtype: itself where it has it."""
    if x.dtype is dtype:
        return x
    value = constant_value(x)
    if value is not None and x.dtype.is_float and dtype.is_float:
        return x.number(float(value), dtype)
    return x.apply(_CAST, (x,), Cast(dtype))


def reshaped(x: Node, dims: Dims) -> Node:
    """Return x with other extents of as many elements."""
    return x if x.dims == dims else x.apply(_RESHAPE, (x,), Shape(dims))


def permuted(x: Node, axes: Dims) -> Node:
    """Return x with its axes in another order."""
    return x if axes == tuple(range(len(axes))) else x.apply(_PERMUTE, (x,), Permute(axes))


def broadcasted(x: Node, dims: Dims) -> Node:
    """Return x repeated to other extents."""
    return x if x.dims == dims else x.apply(_BROADCAST, (x,), Shape(dims))


def sliced(x: Node, axis: int, start: int, size: int, step: int = 1) -> Node:
    """Return x[start + i * step] along an axis, i below size."""
    dims = x.dims
    starts = (0,) * axis + (start,) + (0,) * (len(dims) - axis - 1)
    steps = (1,) * axis + (step,) + (1,) * (len(dims) - axis - 1)
    sizes = (*dims[:axis], size, *dims[axis + 1 :])
    return x.apply(_SLICE, (x,), Slice(starts, steps, sizes))


def padded(x: Node, before: Dims, after: Dims, value: float = 0.0) -> Node:
    """Return x with elements of one value added before and after each axis."""
    if not any(before) and not any(after):
        return x
    return x.apply(_PAD, (x,), Pad(before, after, literal(float(value))))


def reduced(token: str, x: Node, axes: Dims) -> Node:
    """Return the reduction of x over axes, which stay with extent 1."""
    return x.apply(OPS[token], (x,), Reduce(axes, True))


def zeros(like: Node, dims: Dims, dtype: DType) -> Node:
    """Return zeros, a node of the class of `like`."""
    return like.apply(_FULL, (), Full(dims, dtype, literal(0.0)))


def fitted(x: Node, dims: Dims, dtype: DType) -> Node:
    """Return x summed over the axes along which `dims` was broadcast to its extents, in a dtype.

    Of a conversion that an op made of its operand, and of a broadcast, this is the gradient; a
    real operand that met a complex one gets the real part.
    """
    if not dtype.is_complex:
        x = real_of(x)
    if x.dims != dims:
        shift = len(x.dims) - len(dims)
        axes = tuple(
            axis
            for axis, extent in enumerate(x.dims)
            if axis < shift or dims[axis - shift] != extent
        )
        x = x.apply(_SUM, (x,), Reduce(axes, False))
        x = reshaped(x, dims)
    return cast_to(x, dtype)
