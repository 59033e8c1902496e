"""Elementwise ops on NumPy arrays: op token -> function(*inputs, out).

Inputs are in the op's compute dtype (bool, i32, i64, f32, f64) and may broadcast and have any
strides; `out` has the dtype of the result and may be the very array of an input. Plain ufuncs
where NumPy's meaning is softcuda's; a wrapper where it is not. The wrappers make temporaries of
out's size, so they are meant for cache-sized blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.dtype import DType
from softcuda.errors import IntegerPowerError

__all__ = ["ELEMENTWISE", "function_for"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

# Below these exp(-x) overflows: the largest x with exp(x) finite, rounded towards zero.
_EXP_LIMIT: Final[dict[int, float]] = {4: 88.0, 8: 709.0}


def _copy(x: Array, out: Array) -> None:
    np.copyto(out, x)


def _all_true(x: Array, out: Array) -> None:
    out.fill(True)


def _all_false(x: Array, out: Array) -> None:
    out.fill(False)


def _for_floats(floats: Function, others: Function) -> Function:
    """Return a function that treats bools and integers in a way of their own."""

    def dispatch(x: Array, out: Array) -> None:
        (floats if x.dtype.kind == "f" else others)(x, out)

    return dispatch


def _for_numbers(numbers: Function, bools: Function) -> Function:
    """Return a function that treats bools in a way of their own."""

    def dispatch(x: Array, out: Array) -> None:
        (bools if x.dtype.kind == "b" else numbers)(x, out)

    return dispatch


def _relu(x: Array, out: Array) -> None:
    if x.dtype.kind == "b":
        np.copyto(out, x)
        return
    np.maximum(x, 0, out=out)
    if out.dtype.kind == "f":
        np.add(out, 0.0, out)  # -0 becomes +0 whichever operand a tie gave


def _is_plain(bound: Array) -> bool:
    """Return whether `bound` is one number that can tie with no zero of other sign."""
    return bound.size == 1 and bool(bound.item() != 0)


def _pick(ufunc: Function, zeros: Function, a: Array, b: Array, out: Array) -> None:
    """Write ufunc(a, b), ties of +0 and -0 as `zeros` says: NumPy leaves them open."""
    if out.dtype.kind != "f" or _is_plain(b) or _is_plain(a):
        ufunc(a, b, out=out)
        return
    ties = np.equal(a, b, np.empty(out.shape, np.bool_))
    if not ties.any() or not np.logical_and(ties, np.equal(a, 0), ties).any():
        ufunc(a, b, out=out)
        return
    fixed = zeros(np.broadcast_to(a, out.shape)[ties], np.broadcast_to(b, out.shape)[ties])
    ufunc(a, b, out=out)
    out[ties] = fixed


def _maximum(a: Array, b: Array, out: Array) -> None:
    _pick(np.maximum, np.add, a, b, out)


def _minimum(a: Array, b: Array, out: Array) -> None:
    _pick(np.minimum, lambda x, y: -(-x - y), a, b, out)


def _clip(x: Array, low: Array, high: Array, out: Array) -> None:
    if not np.may_share_memory(out, high):
        _maximum(x, low, out)
        _minimum(out, high, out)
        return
    raised = np.empty(out.shape, out.dtype)
    _maximum(x, low, raised)
    _minimum(raised, high, out)


def _multiply_add(a: Array, b: Array, c: Array, out: Array) -> None:
    product = np.empty(out.shape, out.dtype) if np.may_share_memory(out, c) else out
    np.multiply(a, b, product)
    np.add(product, c, out)


def _where(condition: Array, a: Array, b: Array, out: Array) -> None:
    # b ^ ((a ^ b) & mask) on the bits: NumPy's own selection branches at every element.
    whole = np.dtype(f"i{out.dtype.itemsize}")
    mask = np.empty(condition.shape, whole)
    np.copyto(mask, condition)  # 1 for every byte but 0
    np.negative(mask, mask)
    bits = out.view(whole)
    chosen = np.empty(out.shape, whole) if np.may_share_memory(out, b) else bits
    other = b.view(whole)
    np.bitwise_xor(a.view(whole), other, chosen)
    np.bitwise_and(chosen, mask, chosen)
    np.bitwise_xor(chosen, other, bits)


def _rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out)
    np.divide(1, out, out)


def _small(x: Array) -> bool:
    """Return whether an element (or a NaN) lies where exp(-x) may overflow."""
    return x.size > 0 and not x.min() >= -_EXP_LIMIT[x.dtype.itemsize]


def _sigmoid(x: Array, out: Array) -> None:
    # 1 / (1 + exp(-x)); where exp(-x) overflows the value is exp(x) to the last bit.
    tail = _small(x)
    far = np.less(x, -_EXP_LIMIT[x.dtype.itemsize]) if tail else None
    values = np.exp(x) if tail else None
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, 1, out)
    np.divide(1, out, out)
    if far is not None and values is not None:
        np.copyto(out, values, where=far)


def _silu(x: Array, out: Array) -> None:
    # x / (1 + exp(-x)); where exp(-x) overflows it is x * exp(x / 2)^2 to the last bits.
    far = values = None
    if _small(x):
        far = np.less(x, -_EXP_LIMIT[x.dtype.itemsize])
        root = np.exp(np.multiply(x, 0.5))
        values = root * x * root
    scale = np.negative(x, np.empty(x.shape, x.dtype))
    np.exp(scale, scale)
    np.add(scale, 1, scale)
    np.divide(x, scale, out)
    if far is not None and values is not None:
        np.copyto(out, values, where=far)


def _softplus(x: Array, out: Array) -> None:
    # log(exp(x) + exp(0)) = max(x, 0) + log1p(exp(-|x|)), as logaddexp but on whole blocks.
    rest = np.absolute(x, np.empty(x.shape, x.dtype))
    np.negative(rest, rest)
    np.exp(rest, rest)
    np.log1p(rest, rest)
    np.maximum(x, 0, out=out)
    np.add(out, rest, out)


def _erf(x: Array, out: Array) -> None:
    from scipy.special import erf  # noqa: PLC0415 - scipy is loaded when first needed

    erf(x, out)


def _gelu(x: Array, out: Array) -> None:
    # x * Phi(x), Phi the normal distribution function.
    from scipy.special import ndtr  # noqa: PLC0415 - scipy is loaded when first needed

    np.multiply(x, ndtr(x), out)


def _pow(a: Array, b: Array, out: Array) -> None:
    if out.dtype.kind != "f" and b.size and int(b.min()) < 0:
        raise IntegerPowerError(
            f"pow: an integer is raised to the power {int(b.min())}; allowed are exponents >= 0; "
            "cast the base to a float first"
        )
    np.power(a, b, out)


_WRAPPED: Final[dict[str, Function]] = {
    "copy": _copy,
    "conj": _copy,
    "abs": _for_numbers(np.absolute, _copy),
    "sign": _for_numbers(np.sign, _copy),
    "floor": _for_floats(np.floor, _copy),
    "ceil": _for_floats(np.ceil, _copy),
    "round": _for_floats(np.rint, _copy),
    "isnan": _for_floats(np.isnan, _all_false),
    "isinf": _for_floats(np.isinf, _all_false),
    "isfinite": _for_floats(np.isfinite, _all_true),
    "relu": _relu,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softplus": _softplus,
    "erf": _erf,
    "gelu": _gelu,
    "maximum": _maximum,
    "minimum": _minimum,
    "clip": _clip,
    "multiply_add": _multiply_add,
    "where": _where,
    "pow": _pow,
}

_UFUNCS: Final[dict[str, Function]] = {
    "neg": np.negative,
    "square": np.square,
    "sqrt": np.sqrt,
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
    "reciprocal": np.reciprocal,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "atan2": np.arctan2,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_not": np.logical_not,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

ELEMENTWISE: Final[Mapping[str, Function]] = MappingProxyType({**_UFUNCS, **_WRAPPED})

_FLOAT_UFUNCS: Final[dict[str, Function]] = {
    "abs": np.absolute,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "conj": np.conjugate,
    "pow": np.power,
}


def function_for(name: str, dtype: DType) -> Function:
    """Return the shortest function of an op for operands of one compute dtype.

    Args:
        name: token of an elementwise op other than cast.
        dtype: the compute dtype of its operands: bool, i32, i64, f32 or f64.

    Returns:
        A ufunc (which makes no temporary) where one has softcuda's meaning, else ELEMENTWISE's.
    """
    if dtype.is_float:
        return _FLOAT_UFUNCS.get(name) or ELEMENTWISE[name]
    if dtype.is_integer and name in ("abs", "sign", "conj"):
        return _FLOAT_UFUNCS[name]
    return ELEMENTWISE[name]
