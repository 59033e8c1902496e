"""softmax, log_softmax and layer_norm in blocks of rows, on all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain import threads_for
from softcuda.backends.host.chain_space import pieces
from softcuda.backends.host.composites import (
    layer_norm_into,
    log_softmax_into,
    softmax_into,
)
from softcuda.backends.host.workers import SHARED, Workers
from softcuda.backends.steps import Micro
from softcuda.graph.params import Dims

__all__ = ["ROW_OPS", "bind_rows"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

ROW_OPS: Final[Mapping[str, Callable[..., None]]] = MappingProxyType(
    {
        "softmax": softmax_into,
        "log_softmax": log_softmax_into,
        "layer_norm": layer_norm_into,
    }
)

BLOCK_ELEMS = 131072  # the functions walk a block in tiles of their own
ELEMENT_NS = 2.0


def bind_rows(
    micro: Micro,
    inputs: Sequence[Array],
    out: Array,
    *,
    block_elems: int = BLOCK_ELEMS,
    threads: int | None = None,
    workers: Workers = SHARED,
) -> list[Call]:
    """Return the calls of a composite that treats every row by itself.

    Args:
        micro: softmax, log_softmax or layer_norm.
        inputs: the operand, any strides; for layer_norm weight and bias after it, where given.
        out: array of the operand's extents, any strides.
        block_elems: elements of a block of rows.
        threads: threads that share the blocks; None lets the function decide.
        workers: the team that they belong to.
    """
    if out.size == 0:
        return []
    function = ROW_OPS[micro.op.name]
    params: Any = micro.params
    if micro.op.name == "layer_norm":
        free = [axis < out.ndim - params.axes_count for axis in range(out.ndim)]
    else:
        free = [axis != params.axis for axis in range(out.ndim)]
    tile = _row_tile(out.shape, free, block_elems)
    if tile == out.shape:
        return [(function, (*inputs, out, params))]
    counts = [-(-d // t) for d, t in zip(out.shape, tile, strict=True)]
    source, rest = inputs[0], inputs[1:]
    items = math.prod(counts)
    cost = ELEMENT_NS * out.size

    def compute(worker: int, item: int) -> None:
        box: list[slice] = []
        for extent, count in zip(reversed(tile), reversed(counts), strict=True):
            item, place = divmod(item, count)
            box.append(slice(place * extent, (place + 1) * extent))
        at = tuple(reversed(box))
        function(source[at], *rest, out[at], params)

    def run_blocks() -> None:
        workers.run(compute, items, threads_for(cost, items) if threads is None else threads)

    return [(run_blocks, ())]


def _row_tile(dims: Dims, free: Sequence[bool], elems: int) -> Dims:
    """Return extents of blocks: whole along the rows, about `elems` elements together."""
    tile = [1 if f else d for d, f in zip(dims, free, strict=True)]
    room = max(elems // math.prod(tile), 1)
    for axis in range(len(dims) - 1, -1, -1):
        if free[axis]:
            tile[axis] = pieces(dims[axis], room)
            room = max(room // tile[axis], 1)
    return tuple(tile)
