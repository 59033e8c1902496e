"""Smooth functions of one operand that NumPy has no ufunc for; inputs and out as in elementwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["ACTIVATIONS"]

Array = np.ndarray[Any, Any]

# Below these exp(-x) overflows: the largest x with exp(x) finite, rounded towards zero.
_EXP_LIMIT: Final[dict[int, float]] = {4: 88.0, 8: 709.0}


# The least x that is multiplied by what has long become 0: exp(x / 2)^2, or the normal
# distribution function. -inf times 0 would be NaN.
_NOTHING_BELOW: Final = -4096.0

# From here on x / (1 + |x|) is 1 or -1 to the last bit; it keeps inf from inf / inf.
_ONE_BEYOND: Final = 1e30


def _small(x: Array) -> bool:
    """Return whether an element (or a NaN) lies where exp(-x) may overflow."""
    return x.size > 0 and not x.min() >= -_EXP_LIMIT[x.dtype.itemsize]


class _Tail(NamedTuple):
    """Where exp(-x) may overflow, and x * exp(x / 2)^2."""

    far: Array
    values: Array


def _tail(x: Array) -> _Tail | None:
    """Return the tail of x, taken before x is written; None where it has none."""
    if not _small(x):
        return None
    low = np.maximum(x, _NOTHING_BELOW)
    root = np.exp(np.multiply(low, 0.5))
    return _Tail(np.less(x, -_EXP_LIMIT[x.dtype.itemsize]), root * low * root)


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
    tail = _tail(x)
    scale = np.negative(x, np.empty(x.shape, x.dtype))
    np.exp(scale, scale)
    np.add(scale, 1, scale)
    np.divide(x, scale, out)
    if tail is not None:
        np.copyto(out, tail.values, where=tail.far)


def _mish(x: Array, out: Array) -> None:
    # tanh(ln(1 + e)) = e (e + 2) / (e (e + 2) + 2) with e = exp(x), 1 to the last bit from
    # exp(40) on; where exp(x) is subnormal mish is x * exp(x / 2)^2 to the last bits.
    tail = _tail(x)
    ratio = np.minimum(x, 40, out=np.empty(x.shape, x.dtype))
    np.exp(ratio, ratio)
    np.multiply(ratio, np.add(ratio, 2), ratio)
    np.divide(ratio, np.add(ratio, 2), ratio)
    np.multiply(x, ratio, out)
    if tail is not None:
        np.copyto(out, tail.values, where=tail.far)


def _softsign(x: Array, out: Array) -> None:
    near = np.clip(x, -_ONE_BEYOND, _ONE_BEYOND, out=np.empty(x.shape, x.dtype))
    np.divide(near, np.add(np.absolute(near), 1), out)


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

    np.multiply(np.maximum(x, _NOTHING_BELOW), ndtr(x), out)


ACTIVATIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "sigmoid": _sigmoid,
        "silu": _silu,
        "mish": _mish,
        "softplus": _softplus,
        "softsign": _softsign,
        "erf": _erf,
        "gelu": _gelu,
    }
)
