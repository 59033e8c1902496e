"""Gradient rules of reductions and scans.

Elements that tie for the smallest or largest share equally; prod is exact at zeros, since its rule
divides by nothing; std and norm have slope 0 where they are 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.autograd.expressions import (
    broadcasted,
    called,
    cast_to,
    conjugated,
    kept_where,
    made_by,
    number_like,
    padded,
    permuted,
    reduced,
    reshaped,
    scaled,
    sliced,
    zero_where,
)
from softcuda.autograd.rule import Rule, Use, of
from softcuda.dtype import compute_dtype
from softcuda.graph.node import Node
from softcuda.graph.params import Concat, value_of
from softcuda.graph.shapes import numel, reduced_dims

__all__ = ["REDUCTION_RULES", "kept"]

_mul, _sub, _div = map(made_by, ("mul", "sub", "div"))
_exp, _abs, _sign, _pow = map(made_by, ("exp", "abs", "sign", "pow"))
_eq, _or, _isnan = map(made_by, ("eq", "logical_or", "isnan"))


def kept(use: Use, x: Node) -> Node:
    """Return g or y of a reduction with the reduced axes back, of extent 1."""
    return reshaped(x, reduced_dims(use.x.dims, use.params.axes, True))


def _count(use: Use) -> int:
    dims = use.x.dims
    return numel(tuple(dims[axis] for axis in use.params.axes))


def _sum(u: Use) -> Node:
    return broadcasted(kept(u, u.g), u.x.dims)


def _mean(u: Use) -> Node:
    g = cast_to(u.g, compute_dtype(u.g.dtype))  # f16 holds no count above 65504
    share = cast_to(_div(g, number_like(g, max(_count(u), 1))), u.g.dtype)
    return broadcasted(kept(u, share), u.x.dims)


def _shared(u: Use, x: Node, g: Node) -> Node:
    """Return g shared equally by the elements of x that are y; by the NaN where y is one."""
    chosen = _or(_eq(x, kept(u, u.y)), _isnan(x))
    return kept_where(chosen, _div(g, reduced("sum", chosen, u.params.axes)))


def _extreme(u: Use) -> Node:
    return _shared(u, u.x, kept(u, u.g))


def _centred(u: Use) -> Node:
    return _sub(u.x, reduced("mean", u.x, u.params.axes))


def _divisor(u: Use) -> float:
    return max(_count(u) - float(value_of(u.params.correction)), 0.0)


def _var(u: Use) -> Node:
    twice = scaled(_centred(u), 2)
    return _mul(kept(u, u.g), _div(twice, number_like(twice, _divisor(u))))


def _std(u: Use) -> Node:
    centred, y = _centred(u), kept(u, u.y)
    slope = _div(centred, scaled(y, _divisor(u)))
    return zero_where(_eq(y, number_like(y, 0)), _mul(kept(u, u.g), slope))


def _norm(u: Use) -> Node | None:
    """Return g * sign(x) * (|x| / y)^(order - 1); 0 where y, or for orders below 1 x, is 0."""
    order = float(value_of(u.params.order))
    if order == 0:
        return None
    g, y, x = kept(u, u.g), kept(u, u.y), u.x
    if math.isinf(order):
        return _shared(u, _abs(x), _mul(g, _sign(x)))
    if order == 1:
        return _mul(g, _sign(x))
    zero = _eq(y, number_like(y, 0))
    if order == 2:
        return zero_where(zero, _mul(g, _div(x, y)))
    if order < 1:
        zero = _or(zero, _eq(x, number_like(x, 0)))
    ratio = _div(_abs(x), y)
    slope = _pow(ratio, number_like(ratio, order - 1))
    return zero_where(zero, _mul(g, _mul(_sign(x), slope)))


def _logsumexp(u: Use) -> Node:
    """Return g * e^(x - y); 0 where all x are -inf."""
    y = kept(u, u.y)
    nothing = _eq(y, number_like(y, -math.inf))
    return _mul(kept(u, u.g), _exp(_sub(u.x, zero_where(nothing, y))))


def _cumsum(u: Use) -> Node:
    axis = u.params.axis
    return _flipped(called("cumsum", _flipped(u.g, axis), params=u.params), axis)


def _flipped(x: Node, axis: int) -> Node:
    extent = x.dims[axis]
    return sliced(x, axis, extent - 1, extent, -1) if extent > 1 else x


def _prod(u: Use) -> Node:
    """Return g times the product of the other elements.

    The product is a tree of pairs, and g goes down the tree: each of a pair gets what reached
    their product, times the other one.
    """
    axes, dims = u.params.axes, u.x.dims
    count = _count(u)
    g = kept(u, u.g)
    if count <= 1:
        return broadcasted(g, dims)
    order = (*(axis for axis in range(len(dims)) if axis not in axes), *axes)
    turned = permuted(u.x, order)
    rest = turned.dims[: len(dims) - len(axes)]
    last = len(rest)
    levels = [reshaped(turned, (*rest, count))]
    pairs = []
    while levels[-1].dims[last] > 1:
        pair = _halves(levels[-1], last)
        pairs.append(pair)
        levels.append(_mul(*pair))
    down = reshaped(permuted(g, order), (*rest, 1))
    for level, (left, right) in zip(levels[-2::-1], pairs[::-1], strict=True):
        both = (_mul(down, conjugated(right)), _mul(down, conjugated(left)))
        merged = called("stack", *both, params=Concat(last + 1))
        down = reshaped(merged, (*rest, 2 * left.dims[last]))
        if down.dims != level.dims:
            down = sliced(down, last, 0, level.dims[last])
    inverse = tuple(order.index(axis) for axis in range(len(dims)))
    return permuted(reshaped(down, turned.dims), inverse)


def _halves(x: Node, axis: int) -> tuple[Node, Node]:
    """Return the elements at even and at odd places, a 1 added where their number is odd."""
    count = x.dims[axis]
    if count % 2:
        none = (0,) * axis
        x = padded(x, (*none, 0), (*none, 1), 1.0)
    half = (count + 1) // 2
    return sliced(x, axis, 0, half, 2), sliced(x, axis, 1, half, 2)


REDUCTION_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "sum": of(_sum, is_linear=True),
        "mean": of(_mean, is_linear=True),
        "cumsum": of(_cumsum, is_linear=True),
        "min": of(_extreme, masks=True),
        "max": of(_extreme, masks=True),
        "prod": of(_prod),
        "var": of(_var),
        "std": of(_std),
        "norm": of(_norm),
        "logsumexp": of(_logsumexp),
    }
)
