"""Gradient rules of views and of what moves data: what was moved is moved back, and added up."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.autograd.expressions import (
    called,
    kept_where,
    padded,
    permuted,
    reshaped,
    sliced,
    zeros,
)
from softcuda.autograd.rule import Rule, Use, each, of
from softcuda.dtype import bool_
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.params import Dims, Eye, Slice

__all__ = ["MOVEMENT_RULES"]


def _permute(u: Use) -> Node:
    axes = u.params.axes
    return permuted(u.g, tuple(axes.index(axis) for axis in range(len(axes))))


def _slice(u: Use) -> Node:
    """Return g where the slice read, 0 elsewhere: turned forward, spread by steps, padded."""
    dims, params = u.x.dims, u.params
    if 0 in params.sizes:
        return zeros(u.g, dims, u.g.dtype)
    g = _forward(u.g, params)
    pairs = list(zip(params.steps, params.sizes, strict=True))
    g = _spread(g, tuple(abs(step) if size > 1 else 1 for step, size in pairs))
    before = tuple(
        start + min(0, (size - 1) * step)
        for start, (step, size) in zip(params.starts, pairs, strict=True)
    )
    after = tuple(d - b - s for d, b, s in zip(dims, before, g.dims, strict=True))
    return padded(g, before, after)


def _forward(g: Node, params: Slice) -> Node:
    """Return g with the axes that were read backwards turned round."""
    turned = tuple(step < 0 and size > 1 for step, size in zip(params.steps, g.dims, strict=True))
    if not any(turned):
        return g
    starts = tuple(size - 1 if turn else 0 for turn, size in zip(turned, g.dims, strict=True))
    steps = tuple(-1 if turn else 1 for turn in turned)
    return called("slice", g, params=Slice(starts, steps, g.dims))


def _spread(g: Node, steps: Dims) -> Node:
    """Return g with step - 1 zeros between the elements of each axis."""
    if all(step == 1 for step in steps):
        return g
    sizes = g.dims
    pairs = tuple(extent for size in sizes for extent in (size, 1))
    gaps = tuple(extent for step in steps for extent in (0, step - 1))
    wide = padded(reshaped(g, pairs), (0,) * len(gaps), gaps)
    spread = reshaped(wide, tuple(size * step for size, step in zip(sizes, steps, strict=True)))
    needed = tuple((size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True))
    none = (0,) * len(needed)
    return called("slice", spread, params=Slice(none, (1,) * len(needed), needed))


def _on_diagonal(g: Node, dims: Dims, axis1: int, axis2: int, offset: int = 0) -> Node:
    """Return a tensor with g on a diagonal and 0 elsewhere.

    Args:
        g: [extents of dims without the two axes, length of the diagonal].
        dims: extents of the result.
        axis1: axis of the rows.
        axis2: axis of the columns.
        offset: how far the diagonal is above the main one.
    """
    rows, columns = dims[axis1], dims[axis2]
    length, rest = g.dims[-1], g.dims[:-1]
    above = max(-offset, 0) if length else 0
    none = (0,) * len(rest)
    by_row = padded(g, (*none, above), (*none, rows - above - length))
    mask = g.apply(OPS["eye"], (), Eye(rows, columns, offset, bool_))
    plane = kept_where(mask, reshaped(by_row, (*rest, rows, 1)))
    others = [axis for axis in range(len(dims)) if axis not in (axis1, axis2)]
    order = (*others, axis1, axis2)
    return permuted(plane, tuple(order.index(axis) for axis in range(len(dims))))


def _diagonal(u: Use) -> Node:
    params = u.params
    return _on_diagonal(u.g, u.x.dims, params.axis1, params.axis2, params.offset)


def _concat(u: Use) -> Node:
    axis = u.params.axis
    start = sum(operand.dims[axis] for operand in u.inputs[: u.number])
    return sliced(u.g, axis, start, u.x.dims[axis])


def _stack(u: Use) -> Node:
    return reshaped(sliced(u.g, u.params.axis, u.number, 1), u.x.dims)


def _pad(u: Use) -> Node:
    dims = u.x.dims
    return called("slice", u.g, params=Slice(u.params.before, (1,) * len(dims), dims))


def _take(u: Use) -> Node:
    return called("index_add", zeros(u.g, u.a.dims, u.g.dtype), u.b, u.g, params=u.params)


def _gather(u: Use) -> Node:
    return called("scatter_add", zeros(u.g, u.a.dims, u.g.dtype), u.b, u.g, params=u.params)


MOVEMENT_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "reshape": of(lambda u: reshaped(u.g, u.x.dims), is_linear=True),
        "permute": of(_permute, is_linear=True),
        "broadcast_to": of(lambda u: u.g, is_linear=True),
        "slice": of(_slice, is_linear=True, masks=True),
        "diagonal": of(_diagonal, is_linear=True, masks=True),
        "concat": each(_concat, is_linear=True),
        "stack": each(_stack, is_linear=True),
        "pad": of(_pad, is_linear=True),
        "tril": of(lambda u: called("tril", u.g, params=u.params), is_linear=True, masks=True),
        "triu": of(lambda u: called("triu", u.g, params=u.params), is_linear=True, masks=True),
        "take": of(_take, None, is_linear=True, masks=True),
        "gather": of(_gather, None, is_linear=True, masks=True),
        "index_add": of(
            lambda u: u.g,
            None,
            lambda u: called("take", u.g, u.b, params=u.params),
            is_linear=True,
        ),
        "scatter_add": of(
            lambda u: u.g,
            None,
            lambda u: called("gather", u.g, u.b, params=u.params),
            is_linear=True,
        ),
        "transfer": of(lambda u: u.g, is_linear=True),
    }
)
