"""Gradient rules of composites."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.autograd.expressions import made_by, number_like, reduced
from softcuda.autograd.rule import Rule, Use, of
from softcuda.graph.node import Node
from softcuda.graph.params import value_of

__all__ = ["COMPOSITE_RULES"]

_add, _sub, _mul, _exp = map(made_by, ("add", "sub", "mul", "exp"))
_square, _sqrt, _div = map(made_by, ("square", "sqrt", "div"))


def _softmax(u: Use) -> Node:
    """Return y * (g - sum of g * y)."""
    g, y = u.g, u.y
    return _mul(y, _sub(g, reduced("sum", _mul(g, y), (u.params.axis,))))


def _log_softmax(u: Use) -> Node:
    """Return g - e^y * (sum of g)."""
    g, y = u.g, u.y
    return _sub(g, _mul(_exp(y), reduced("sum", g, (u.params.axis,))))


class _Normalised:
    """The parts of a layer_norm: x less its mean, over its deviation."""

    def __init__(self, u: Use) -> None:
        rank = len(u.node.dims)
        self.axes = tuple(range(rank - u.params.axes_count, rank))
        centred = _sub(u.a, self.mean(u.a))
        variance = self.mean(_square(centred))
        eps = number_like(variance, float(value_of(u.params.eps)))
        self.deviation = _sqrt(_add(variance, eps))
        self.value = _div(centred, self.deviation)

    def mean(self, x: Node) -> Node:
        """Return the mean over the normalised axes."""
        return reduced("mean", x, self.axes)


def _layer_norm_x(u: Use) -> Node:
    """Return (h - mean(h) - n * mean(h * n)) / deviation, h = g * weight, n the normalised x."""
    normalised = _Normalised(u)
    n = normalised.value
    h = _mul(u.g, u.b) if u.params.has_weight else u.g
    across = _mul(n, normalised.mean(_mul(h, n)))
    return _div(_sub(_sub(h, normalised.mean(h)), across), normalised.deviation)


def _layer_norm_beside(u: Use) -> Node:
    """Return g * n for the weight, g for the bias; the caller sums over the leading axes."""
    if u.params.has_weight and u.number == 1:
        return _mul(u.g, _Normalised(u).value)
    return u.g


COMPOSITE_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "softmax": of(_softmax),
        "log_softmax": of(_log_softmax),
        "layer_norm": of(_layer_norm_x, _layer_norm_beside),
    }
)
