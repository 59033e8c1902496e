"""What the elementwise ops mean: f64 formulas of one's own, Python's integers for integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from softcuda.dtype import DType

Array = np.ndarray[Any, Any]


def _vector(function: Callable[..., float]) -> Callable[..., Array]:
    return np.vectorize(function, otypes=[np.float64])


def _sigmoid(x: float) -> float:
    if math.isnan(x):
        return x
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def _gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def _softplus(x: float) -> float:
    if math.isnan(x):
        return x
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _max(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b == 0:
        return min(a, b, key=lambda v: math.copysign(1, v) < 0)
    return max(a, b)


def _min(a: float, b: float) -> float:
    return -_max(-a, -b)


FLOATS: dict[str, Callable[..., Any]] = {
    "neg": lambda x: -x,
    "abs": np.abs,
    "sign": np.sign,
    "square": lambda x: x * x,
    "relu": _vector(lambda x: _max(x, 0.0)),
    "conj": lambda x: x,
    "real": lambda x: x,
    "imag": np.zeros_like,
    "copy": lambda x: x,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
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
    "sigmoid": _vector(_sigmoid),
    "gelu": _vector(_gelu),
    "silu": _vector(lambda x: x * _sigmoid(x)),
    "mish": _vector(lambda x: x * math.tanh(_softplus(x))),
    "softplus": _vector(_softplus),
    "softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
    "erf": _vector(math.erf),
    "reciprocal": lambda x: 1 / x,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "minimum": _vector(_min),
    "maximum": _vector(_max),
    "atan2": np.arctan2,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "logical_not": lambda x: x == 0,
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
    "where": np.where,
    "clip": _vector(lambda x, low, high: _min(_max(x, low), high)),
    "multiply_add": lambda a, b, c: a * b + c,
}

INTEGERS: dict[str, Callable[..., Any]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0),
    **dict.fromkeys(("conj", "real", "copy", "floor", "ceil", "round"), lambda x: x),
    "imag": lambda x: 0,
    **dict.fromkeys(("isnan", "isinf"), lambda x: False),
    "isfinite": lambda x: True,
    "floor_divide": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "minimum": min,
    "maximum": max,
    "where": lambda c, a, b: a if c else b,
    "clip": lambda x, low, high: min(max(x, low), high),
}


def wrapped(value: int, dtype: DType) -> int:
    """Return an integer as two's complement of the dtype's width holds it."""
    if dtype.is_bool:
        return int(bool(value))
    bits = 8 * dtype.itemsize
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def whole_numbers(name: str, inputs: list[Array], dtype: DType) -> Array:
    """Return an op over integer or bool arrays by Python's integers, wrapped."""
    function = INTEGERS.get(name) or FLOATS[name]
    parts = np.broadcast_arrays(*inputs)
    result = np.empty(parts[0].shape, dtype.numpy)
    for place in np.ndindex(result.shape):
        result[place] = wrapped(int(function(*(int(p[place]) for p in parts))), dtype)
    return result
