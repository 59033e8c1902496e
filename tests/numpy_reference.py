"""What every op means, in NumPy: float64 for floats, int64 for integers, one node at a time.

Written from the rules (DESIGN section 6), not from the backends: nothing here calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy_indexing import gather, take
from scipy import special

from softcuda.dtype import DType, bool_, i32
from softcuda.graph.params import value_of

Array = np.ndarray[Any, Any]


def rounded(value: Array, dtype: DType) -> Array:
    """Return values as `dtype` holds them, in float64, int64 or bool."""
    if dtype is bool_:
        return np.asarray(value).astype(bool)
    if dtype is i32:
        return np.asarray(value).astype(np.int32).astype(np.int64)
    if dtype.is_integer:
        return np.asarray(value).astype(np.int64)
    return np.asarray(value, np.float64).astype(dtype.numpy).astype(np.float64)


def converted(value: Array, dtype: DType) -> Array:
    """Return values converted: truncated, saturated, NaN as 0, one rounding."""
    value = np.asarray(value)
    if dtype is bool_:
        return value != 0
    if value.dtype.kind == "f" and dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        flat = [_truncated(float(x), int(limits.min), int(limits.max)) for x in value.reshape(-1)]
        return np.array(flat, np.int64).reshape(value.shape)
    if value.dtype.kind in "bi" and dtype.is_float:
        return value.astype(dtype.numpy).astype(np.float64)
    return rounded(value, dtype)


def _truncated(x: float, low: int, high: int) -> int:
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return high if x > 0 else low
    return min(max(math.trunc(x), low), high)


def _floor_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.floor_divide(a, b)
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.remainder(a, b)
    return np.where(b == 0, 0, np.remainder(a, np.where(b == 0, 1, b)))


def _floats(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _test(function: Callable[[Array], Array], otherwise: bool) -> Callable[[Array], Array]:
    return lambda x: function(x) if x.dtype.kind == "f" else np.full(x.shape, otherwise)


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": lambda x: x if x.dtype.kind == "b" else np.abs(x),
    "sign": lambda x: x if x.dtype.kind == "b" else np.sign(x),
    "square": lambda x: x * x,
    "relu": lambda x: np.where(x > 0, x, np.where(x == x, np.zeros_like(x), x)),
    "conj": lambda x: x,
    "real": lambda x: x,
    "imag": np.zeros_like,
    "copy": lambda x: x,
    "floor": _floats(np.floor),
    "ceil": _floats(np.ceil),
    "round": _floats(np.rint),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": special.expit,
    "gelu": lambda x: np.maximum(x, -1e5) * special.ndtr(x),
    "silu": lambda x: np.maximum(x, -1e5) * special.expit(x),
    "mish": lambda x: np.maximum(x, -1e5) * np.tanh(np.logaddexp(x, 0)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
    "erf": special.erf,
    "reciprocal": lambda x: 1 / x,
    "isnan": _test(np.isnan, False),
    "isinf": _test(np.isinf, False),
    "isfinite": _test(np.isfinite, True),
    "logical_not": np.logical_not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "atan2": np.arctan2,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "where": np.where,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "multiply_add": lambda a, b, c: a * b + c,
}


def _norm(x: Array, params: Any) -> Array:
    order = value_of(params.order)
    axes, keepdims, size = params.axes, params.keepdims, np.abs(x.astype(np.float64))
    if math.isinf(order):
        if order > 0:
            return np.max(size, axis=axes, keepdims=keepdims, initial=0.0)
        if 0 in [x.shape[axis] for axis in axes]:
            return np.zeros(np.sum(size, axis=axes, keepdims=keepdims).shape)
        return np.min(size, axis=axes, keepdims=keepdims, initial=np.inf)
    if order == 0:
        return np.sum(size != 0, axis=axes, keepdims=keepdims).astype(np.float64)
    return np.sum(size**order, axis=axes, keepdims=keepdims) ** (1 / order)


def _moment(x: Array, params: Any) -> Array:
    x = x.astype(np.float64)
    count = math.prod(x.shape[axis] for axis in params.axes)
    centred = x - np.sum(x, axis=params.axes, keepdims=True) / np.float64(count)
    total = np.sum(centred * centred, axis=params.axes, keepdims=params.keepdims)
    return total / max(np.float64(count) - value_of(params.correction), np.float64(0))


def _arg(x: Array, params: Any, largest: bool) -> Array:
    rank = x.ndim
    kept = [axis for axis in range(rank) if axis not in params.axes]
    count = math.prod(x.shape[axis] for axis in params.axes)
    moved = x.transpose(*kept, *params.axes).reshape([x.shape[a] for a in kept] + [count])
    found = np.argmax(moved, axis=-1) if largest else np.argmin(moved, axis=-1)
    return np.expand_dims(found, params.axes) if params.keepdims else np.asarray(found)


def _plain(function: Callable[..., Array]) -> Callable[[Array, Any], Array]:
    return lambda x, p: function(x, axis=p.axes, keepdims=p.keepdims)


REDUCTIONS: dict[str, Callable[[Array, Any], Array]] = {
    "sum": lambda x, p: np.sum(x.astype(_wide(x)), axis=p.axes, keepdims=p.keepdims),
    "prod": lambda x, p: np.prod(x.astype(_wide(x)), axis=p.axes, keepdims=p.keepdims),
    "min": _plain(np.min),
    "max": _plain(np.max),
    "mean": lambda x, p: _mean(x.astype(np.float64), p),
    "var": _moment,
    "std": lambda x, p: np.sqrt(_moment(x, p)),
    "norm": _norm,
    "logsumexp": lambda x, p: (
        special.logsumexp(x.astype(np.float64), axis=p.axes, keepdims=p.keepdims)
        if x.size and p.axes
        else np.log(np.sum(np.exp(x.astype(np.float64)), axis=p.axes, keepdims=p.keepdims))
    ),
    "any": lambda x, p: np.any(x != 0, axis=p.axes, keepdims=p.keepdims),
    "all": lambda x, p: np.all(x != 0, axis=p.axes, keepdims=p.keepdims),
    "argmin": lambda x, p: _arg(x, p, False),
    "argmax": lambda x, p: _arg(x, p, True),
}


def _wide(x: Array) -> Any:
    return np.float64 if x.dtype.kind == "f" else np.int64


def _mean(x: Array, params: Any) -> Array:
    count = math.prod(x.shape[axis] for axis in params.axes)
    total = np.sum(x, axis=params.axes, keepdims=params.keepdims)
    return np.asarray(np.divide(total, count))


def _pad(inputs: Sequence[Array], p: Any) -> Array:
    widths = list(zip(p.before, p.after, strict=True))
    return inputs[0] if not widths else np.pad(inputs[0], widths, constant_values=value_of(p.value))


def _slice(inputs: Sequence[Array], p: Any) -> Array:
    grids = [
        start + step * np.arange(size)
        for start, step, size in zip(p.starts, p.steps, p.sizes, strict=True)
    ]
    return inputs[0][np.ix_(*grids)] if grids else inputs[0]


def _einsum(inputs: Sequence[Array], p: Any) -> Array:
    extents: dict[int, int] = {}
    for array, labels in zip(inputs, (p.a, p.b), strict=True):
        for label, extent in zip(labels, array.shape, strict=True):
            known = extents.get(label, 1)
            extents[label] = extent if known == 1 else known
    full = [
        np.broadcast_to(array, [extents[label] for label in labels])
        for array, labels in zip(inputs, (p.a, p.b), strict=True)
    ]
    return np.einsum(full[0], list(p.a), full[1], list(p.b), list(p.out))


# Ops that put elements elsewhere (views too): their errors move along with their values.
MOVED: dict[str, Callable[[Sequence[Array], Any], Array]] = {
    "concat": lambda xs, p: np.concatenate(xs, p.axis),
    "stack": lambda xs, p: np.stack(xs, p.axis),
    "pad": _pad,
    "tril": lambda xs, p: np.tril(xs[0], p.k),
    "triu": lambda xs, p: np.triu(xs[0], p.k),
    "take": take,
    "gather": gather,
    "reshape": lambda xs, p: xs[0].reshape(p.dims),
    "permute": lambda xs, p: xs[0].transpose(p.axes),
    "broadcast_to": lambda xs, p: np.broadcast_to(xs[0], p.dims),
    "slice": _slice,
    "diagonal": lambda xs, p: np.diagonal(xs[0], p.offset, p.axis1, p.axis2),
}

CREATED: dict[str, Callable[[Any], Array]] = {
    "full": lambda p: np.full(p.dims, value_of(p.value)),
    "arange": lambda p: value_of(p.start) + value_of(p.step) * np.arange(p.length),
    "linspace": lambda p: np.linspace(
        value_of(p.start), value_of(p.stop), p.length, endpoint=p.endpoint
    ),
    "eye": lambda p: np.eye(p.rows, p.columns, p.k),
}


def softmax(x: Array, params: Any) -> Array:
    """Return exp(x - max) / sum(exp(x - max)) along the axis."""
    if not x.size:
        return x
    powers = np.exp(x - np.max(x, axis=params.axis, keepdims=True))
    return powers / np.sum(powers, axis=params.axis, keepdims=True)


def log_softmax(x: Array, params: Any) -> Array:
    """Return the logarithm of softmax, without taking the exponential of what is large."""
    if not x.size:
        return x
    shifted = x - np.max(x, axis=params.axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=params.axis, keepdims=True))


def layer_norm(inputs: Sequence[Array], params: Any) -> Array:
    """Return (x - mean) / sqrt(var + eps) * weight + bias over the last axes."""
    x, *beside = inputs
    axes = tuple(range(x.ndim - params.axes_count, x.ndim))
    count = math.prod(x.shape[axis] for axis in axes)
    centred = x - np.sum(x, axis=axes, keepdims=True) / np.float64(count)
    variance = np.sum(centred * centred, axis=axes, keepdims=True) / np.float64(count)
    result = centred / np.sqrt(variance + value_of(params.eps))
    if params.has_weight:
        result = result * beside.pop(0)
    return result + beside.pop(0) if params.has_bias else result


def contraction(inputs: Sequence[Array], params: Any) -> Array:
    """Return sum A[a] * B[b] over the labels that are not in out."""
    return _einsum(inputs, params)
