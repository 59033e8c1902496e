"""softmax, log_softmax and layer_norm in blocks of rows, on all cores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain import threads_for
from softcuda.backends.host.chain_calls import SMALL_ELEMS, CallList, stand_in
from softcuda.backends.host.chain_small_rows import record_rows
from softcuda.backends.host.chain_space import pieces
from softcuda.backends.host.chain_sums import fold_axis, sum_axes
from softcuda.backends.host.composites import (
    layer_norm_into,
    log_softmax_into,
    softmax_into,
)
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.workers import SHARED, Workers
from softcuda.backends.steps import Micro, Operand
from softcuda.dtype import compute_dtype
from softcuda.graph.params import Dims

__all__ = ["ROW_OPS", "bind_rows", "rows_scratch_bytes"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

ROW_OPS: Final = frozenset(("softmax", "log_softmax", "layer_norm"))

_IN_PIECES: Final[Mapping[str, Any]] = MappingProxyType(
    {"softmax": softmax_into, "log_softmax": log_softmax_into}
)

BLOCK_ELEMS = 98304
NARROWEST = 512  # columns of a block whose rows do not lie along the last axis
LARGEST_BLOCK = 1 << 22  # elements; longer rows are walked in pieces, by one thread
ELEMENT_NS = 2.0


def bind_rows(
    micro: Micro,
    inputs: Sequence[Array],
    out: Array,
    scratch: Array | None = None,
    *,
    block_elems: int | None = None,
    threads: int | None = None,
    workers: Workers = SHARED,
) -> list[Call]:
    """Return the calls of a composite that treats every row by itself.

    Args:
        micro: softmax, log_softmax or layer_norm.
        inputs: the operand, any strides; for layer_norm weight and bias after it, where given.
        out: array of the operand's extents, any strides.
        scratch: bytes as rows_scratch_bytes asks, or None.
        block_elems: elements of a block of rows; None lets the function decide.
        threads: threads that share the blocks; None lets the function decide.
        workers: the team that they belong to.

    Returns:
        For few elements bare calls on ready views; else one call that runs the blocks.
    """
    if out.size == 0:
        return []
    if block_elems is None and out.size <= SMALL_ELEMS:
        made = CallList(scratch)
        record_rows(made, micro, inputs, out)
        return made.calls
    block_elems = block_elems or BLOCK_ELEMS
    params: Any = micro.params
    function: Any
    arguments: tuple[Any, ...] = ()
    if micro.op.name == "layer_norm":
        first = out.ndim - params.axes_count
        tile = _row_tile(out.shape, [axis < first for axis in range(out.ndim)], block_elems)
        function = layer_norm_into
        arguments = tuple(inputs[1:])
    else:
        tile = _row_tile(out.shape, [axis != params.axis for axis in range(out.ndim)], block_elems)
        function = _Exponentials(micro, math.prod(tile), workers)
        if math.prod(tile) > LARGEST_BLOCK:
            function = _IN_PIECES[micro.op.name]
    if tile == out.shape:
        return [(function, (inputs[0], *arguments, out, params))]
    counts = [-(-d // t) for d, t in zip(out.shape, tile, strict=True)]
    source = inputs[0]
    items = math.prod(counts)
    cost = ELEMENT_NS * out.size

    def compute(worker: int, item: int) -> None:
        box: list[slice] = []
        for extent, count in zip(reversed(tile), reversed(counts), strict=True):
            item, place = divmod(item, count)
            box.append(slice(place * extent, (place + 1) * extent))
        at = tuple(reversed(box))
        function(source[at], *arguments, out[at], params)

    def run_blocks() -> None:
        workers.run(compute, items, threads_for(cost, items) if threads is None else threads)

    return [(run_blocks, ())]


def rows_scratch_bytes(micro: Micro, inputs: Sequence[Operand]) -> int:
    """Return the scratch that a composite of few elements needs [bytes]; 0 for a larger one."""
    if not 0 < math.prod(micro.dims) <= SMALL_ELEMS:
        return 0
    made = CallList()
    out = np.empty(micro.dims, micro.dtype.numpy)
    record_rows(made, micro, [stand_in(operand) for operand in inputs], out)
    return made.used_bytes


def _row_tile(dims: Dims, free: Sequence[bool], elems: int) -> Dims:
    """Return extents of blocks: whole along the rows, about `elems` elements together."""
    tile = [1 if f else d for d, f in zip(dims, free, strict=True)]
    room = max(elems // math.prod(tile), 1)
    if free[-1] and elems == BLOCK_ELEMS:
        room = max(room, min(NARROWEST, LARGEST_BLOCK // math.prod(tile)))
    for axis in range(len(dims) - 1, -1, -1):
        if free[axis]:
            tile[axis] = pieces(dims[axis], room)
            room = max(room // tile[axis], 1)
    return tuple(tile)


class _Exponentials:
    """softmax and log_softmax of a block of rows, in f32 (f64 where the result is f64)."""

    def __init__(self, micro: Micro, elems: int, workers: Workers) -> None:
        self.logarithm = micro.op.name == "log_softmax"
        self.dtype = compute_dtype(micro.dtype).numpy
        self.elems = elems
        self.workers = workers

    def __call__(self, source: Array, out: Array, params: Any, /) -> None:
        """Write exp(x - max x) / sum exp(x - max x) along params.axis, or its logarithm."""
        axis: int = params.axis
        step = -(-self.elems * self.dtype.itemsize // 64) * 64
        scratch = self.workers.scratch(2 * step if self.logarithm else step)
        work = self._window(scratch, 0, out.shape)
        powers = self._window(scratch, step, out.shape) if self.logarithm else work
        x = source
        if source.dtype != self.dtype or min(source.strides) < 0:
            convert(source, work)
            x = work
        top = np.expand_dims(fold_axis(np.maximum, x, (axis,), None), axis)
        np.subtract(x, top, work)
        np.exp(work, powers)
        combine: Any = np.subtract if self.logarithm else np.divide
        total = np.expand_dims(sum_axes(powers, (axis,)), axis)
        if self.logarithm:
            total = np.log(total)
        scale = total.astype(self.dtype)
        if out.dtype == self.dtype:
            combine(work, scale, out)
        else:
            combine(work, scale, work)
            convert(work, out)

    def _window(self, scratch: Array, start: int, dims: Dims) -> Array:
        nbytes = math.prod(dims) * self.dtype.itemsize
        return scratch[start : start + nbytes].view(self.dtype).reshape(dims)
