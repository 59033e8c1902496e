"""Gradient rules of elementwise ops.

Where nothing else is said, a rule is g times the textbook derivative, conjugated where that is
complex, as in PyTorch. Ties of minimum, maximum and clip share equally, abs has slope 0 at 0, and
where masks its branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from softcuda.autograd.expressions import (
    cast_to,
    conjugated,
    constant_value,
    kept_where,
    made_by,
    number_like,
    real_of,
    scaled,
    select,
    zero_where,
)
from softcuda.autograd.rule import Rule, Use, flat, of
from softcuda.graph.node import Node

__all__ = ["ELEMENTWISE_RULES"]

_add, _sub, _mul, _div, _neg = map(made_by, ("add", "sub", "mul", "div", "neg"))
_square, _rsqrt, _abs, _sign = map(made_by, ("square", "rsqrt", "abs", "sign"))
_exp, _log, _sin, _cos = map(made_by, ("exp", "log", "sin", "cos"))
_sinh, _cosh, _tanh, _erf = map(made_by, ("sinh", "cosh", "tanh", "erf"))
_sigmoid, _softplus, _pow = map(made_by, ("sigmoid", "softplus", "pow"))
_floor_divide, _maximum = map(made_by, ("floor_divide", "maximum"))
_eq, _lt, _le, _gt, _ge = map(made_by, ("eq", "lt", "le", "gt", "ge"))
_and = made_by("logical_and")


def _plus(x: Node, value: float) -> Node:
    return _add(x, number_like(x, value))


def _one_less(x: Node) -> Node:
    return _sub(number_like(x, 1), x)


def _through(slope: Callable[[Node, Node], Node]) -> Rule:
    """Return the row of y = f(x) with dx = g * conj(slope(x, y))."""
    return of(lambda u: _mul(u.g, conjugated(slope(u.x, u.y))))


def _over(slope: Callable[[Node, Node], Node]) -> Rule:
    """Return the row of y = f(x) with dx = g / conj(slope(x, y))."""
    return of(lambda u: _div(u.g, conjugated(slope(u.x, u.y))))


def _one_less_square(x: Node) -> Node:
    """Return 1 - x^2 without cancellation near x^2 = 1."""
    return _mul(_one_less(x), _plus(x, 1))


def _gelu_slope(x: Node, y: Node) -> Node:
    """Return P(X <= x) + x * density(x) of the standard normal distribution."""
    below = scaled(_plus(_erf(scaled(x, math.sqrt(0.5))), 1), 0.5)
    density = scaled(_exp(scaled(_square(x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return _add(below, _mul(x, density))


def _silu_slope(x: Node, y: Node) -> Node:
    s = _sigmoid(x)
    return _mul(s, _plus(_mul(x, _one_less(s)), 1))


def _mish_slope(x: Node, y: Node) -> Node:
    t = _tanh(_softplus(x))
    return _add(t, _mul(_mul(x, _one_less_square(t)), _sigmoid(x)))


def _nearer(g: Node, x: Node, other: Node, loses: Callable[..., Node]) -> Node:
    """Return what x gets of g: nothing where it loses against the other, half in a tie.

    Beside a NaN nobody loses: both get g.
    """
    return zero_where(loses(x, other), select(_eq(x, other), scaled(g, 0.5), g))


def _least(use: Use) -> Node:
    return _nearer(use.g, use.x, use.other, _gt)


def _largest(use: Use) -> Node:
    return _nearer(use.g, use.x, use.other, _lt)


def _clip_x(u: Use) -> Node:
    inner = _nearer(u.g, _maximum(u.a, u.b), u.c, _gt)
    return _nearer(inner, u.a, u.b, _lt)


def _clip_low(u: Use) -> Node:
    inner = _nearer(u.g, _maximum(u.a, u.b), u.c, _gt)
    return _nearer(inner, u.b, u.a, _lt)


def _clip_high(u: Use) -> Node:
    return _nearer(u.g, u.c, _maximum(u.a, u.b), _gt)


def _pow_base(u: Use) -> Node | None:
    """Return g * b * a^(b - 1); 0 where b is 0, whatever a is."""
    exponent = constant_value(u.b)
    if exponent is None:
        lower = _sub(u.b, number_like(u.b, 1))
        slope = zero_where(_eq(u.b, number_like(u.b, 0)), _mul(u.b, _pow(u.a, lower)))
        return _mul(u.g, conjugated(slope))
    if exponent == 0:
        return None
    if exponent == 1:
        return u.g
    base = cast_to(u.a, u.node.dtype) if u.node.dtype.is_complex else u.a
    power = base if exponent == 2 else _pow(base, number_like(base, exponent - 1))
    return _mul(u.g, conjugated(scaled(power, exponent)))


def _pow_exponent(u: Use) -> Node:
    """Return g * y * ln a; 0 where 0 is raised to a power of a real part >= 0."""
    real = real_of(u.b)
    zero = _and(_eq(u.a, number_like(u.a, 0)), _ge(real, number_like(real, 0)))
    base = cast_to(u.a, u.node.dtype) if u.node.dtype.is_complex else u.a
    return _mul(u.g, conjugated(zero_where(zero, _mul(u.y, _log(base)))))


def _sign_slope(u: Use) -> Node | None:
    """Return what turns the angle of a complex x: (g - y Re(conj(y) g)) / |x|, 0 where x is 0."""
    if not u.x.dtype.is_complex:
        return None  # flat but for steps
    along = _mul(u.y, real_of(_mul(conjugated(u.y), u.g)))
    return zero_where(_eq(u.x, number_like(u.x, 0)), _div(_sub(u.g, along), _abs(u.x)))


def _imag(u: Use) -> Node | None:
    """Return i * g; a real x has no imaginary part to change."""
    return scaled(cast_to(u.g, u.x.dtype), 1j) if u.x.dtype.is_complex else None


def _times_other(u: Use) -> Node:
    return _mul(u.g, conjugated(u.other))


def _turned(u: Use, part: Node) -> Node:
    """Return g * part / (a^2 + b^2); 0 at the origin, which has no angle."""
    squares = _add(_square(u.a), _square(u.b))
    origin = _eq(squares, number_like(squares, 0))
    return zero_where(origin, _div(_mul(u.g, part), squares))


_LINEAR: Final[dict[str, Rule]] = {
    "neg": of(lambda u: _neg(u.g), is_linear=True),
    "conj": of(lambda u: conjugated(u.g), is_linear=True),
    "real": of(lambda u: cast_to(u.g, u.x.dtype), is_linear=True),
    "imag": of(_imag, is_linear=True),
    "copy": of(lambda u: u.g, is_linear=True),
    "cast": of(lambda u: u.g, is_linear=True),
    "add": of(lambda u: u.g, lambda u: u.g, is_linear=True),
    "sub": of(lambda u: u.g, lambda u: _neg(u.g), is_linear=True),
    "where": of(
        None,
        lambda u: kept_where(u.a, u.g),
        lambda u: zero_where(u.a, u.g),
        is_linear=True,
        masks=True,
    ),
    # The result tells the sign as the operand does, and is kept anyhow where a product reads it.
    # A NaN passes the gradient on: what made it gets one.
    "relu": of(
        lambda u: zero_where(_le(u.y, number_like(u.y, 0)), u.g), is_linear=True, masks=True
    ),
    "minimum": of(_least, _least, is_linear=True, masks=True),
    "maximum": of(_largest, _largest, is_linear=True, masks=True),
    "clip": of(_clip_x, _clip_low, _clip_high, is_linear=True, masks=True),
    "sign": of(_sign_slope),
    **{name: of(flat) for name in ("floor", "ceil", "round")},
    "floor_divide": of(flat, flat),
}

_SLOPES: Final[dict[str, Rule]] = {
    "abs": of(lambda u: _mul(u.g, _sign(u.x))),
    "square": _through(lambda x, y: scaled(x, 2)),
    "sqrt": _over(lambda x, y: scaled(y, 2)),
    "rsqrt": _through(lambda x, y: scaled(_mul(_square(y), y), -0.5)),
    "reciprocal": of(lambda u: _neg(_mul(u.g, conjugated(_square(u.y))))),
    "exp": _through(lambda x, y: y),
    "exp2": _through(lambda x, y: scaled(y, math.log(2))),
    "expm1": _through(lambda x, y: _exp(x)),
    "log": _over(lambda x, y: x),
    "log2": _over(lambda x, y: scaled(x, math.log(2))),
    "log1p": _over(lambda x, y: _plus(x, 1)),
    "sin": _through(lambda x, y: _cos(x)),
    "cos": of(lambda u: _neg(_mul(u.g, conjugated(_sin(u.x))))),
    "tan": _through(lambda x, y: _plus(_square(y), 1)),
    "asin": _through(lambda x, y: _rsqrt(_one_less_square(x))),
    "acos": of(lambda u: _neg(_mul(u.g, _rsqrt(_one_less_square(u.x))))),
    "atan": _over(lambda x, y: _plus(_square(x), 1)),
    "sinh": _through(lambda x, y: _cosh(x)),
    "cosh": _through(lambda x, y: _sinh(x)),
    "tanh": _through(lambda x, y: _one_less_square(y)),
    "asinh": _through(lambda x, y: _rsqrt(_plus(_square(x), 1))),
    "acosh": _through(lambda x, y: _rsqrt(_neg(_one_less_square(x)))),
    "atanh": _over(lambda x, y: _one_less_square(x)),
    "sigmoid": _through(lambda x, y: _mul(y, _one_less(y))),
    "gelu": _through(_gelu_slope),
    "silu": _through(_silu_slope),
    "mish": _through(_mish_slope),
    "softplus": _through(lambda x, y: _sigmoid(x)),
    "softsign": _over(lambda x, y: _square(_plus(_abs(x), 1))),
    "erf": _through(lambda x, y: scaled(_exp(_neg(_square(x))), 2 / math.sqrt(math.pi))),
}

_PRODUCTS: Final[dict[str, Rule]] = {
    "mul": of(_times_other, _times_other),
    "div": of(
        lambda u: _div(u.g, conjugated(u.b)),
        lambda u: _neg(_div(_mul(u.g, conjugated(u.y)), conjugated(u.b))),
    ),
    "multiply_add": of(
        lambda u: _mul(u.g, conjugated(u.b)),
        lambda u: _mul(u.g, conjugated(u.a)),
        lambda u: u.g,
    ),
    "remainder": of(lambda u: u.g, lambda u: _neg(_mul(u.g, _floor_divide(u.a, u.b)))),
    "pow": of(_pow_base, _pow_exponent),
    "atan2": of(
        lambda u: _turned(u, u.b),
        lambda u: _neg(_turned(u, u.a)),
    ),
}

ELEMENTWISE_RULES: Final[Mapping[str, Rule]] = MappingProxyType({**_LINEAR, **_SLOPES, **_PRODUCTS})
