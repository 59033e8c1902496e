"""Elementwise ops on NumPy arrays: op token -> function(*inputs, out).

Inputs are in the op's compute dtype (bool, i32, i64, f32, f64, or complex) and may broadcast and
have any strides; `out` has the dtype of the result and may be the very array of an input. Plain
ufuncs where NumPy's meaning is softcuda's; a wrapper where it is not. The wrappers make
temporaries of out's size, so they are meant for cache-sized blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host.activations import ACTIVATIONS
from softcuda.backends.reports import power_error
from softcuda.dtype import DType

__all__ = ["ELEMENTWISE", "function_for"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


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


def _real(x: Array, out: Array) -> None:
    np.copyto(out, x.real)


def _imag(x: Array, out: Array) -> None:
    if x.dtype.kind == "c":
        np.copyto(out, x.imag)
    else:
        out.fill(0)


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
    if out.dtype.kind == "c":  # no integer has the bits of a complex128
        np.copyto(out, np.where(condition, a, b))
        return
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


def _pow(a: Array, b: Array, out: Array) -> None:
    if out.dtype.kind in "bi" and b.size and int(b.min()) < 0:
        raise power_error(int(b.min()))
    np.power(a, b, out)


_WRAPPED: Final[dict[str, Function]] = {
    "copy": _copy,
    "conj": _copy,
    "real": _real,
    "imag": _imag,
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
    **ACTIVATIONS,
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
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
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
        dtype: the compute dtype of its operands: bool, i32, i64, f32, f64 or a complex one.

    Returns:
        A ufunc (which makes no temporary) where one has softcuda's meaning, else ELEMENTWISE's.
    """
    if dtype.is_inexact:
        return _FLOAT_UFUNCS.get(name) or ELEMENTWISE[name]
    if dtype.is_integer and name in ("abs", "sign", "conj"):
        return _FLOAT_UFUNCS[name]
    return ELEMENTWISE[name]
