"""Rows that are too few and too long for one block each.

A block has 256 threads with 4 elements each on their way, and a way takes about `_LATENCY_US`: rows
that no registers hold are read by a block at that rate, twice. Where a few blocks have all the work
the device is idle, and the ops that a composite is made of are sooner: their blocks share rows.
"""

from __future__ import annotations

from typing import Final

from softcuda.backends.cuda.reduce_shapes import MULTIPROCESSORS, REDUCE_THREADS, power_above
from softcuda.backends.cuda.row_tiles import held_tiles
from softcuda.graph.lines import Line
from softcuda.graph.shapes import numel
from softcuda.target import Target

__all__ = ["refusal_of_long_rows"]

_LATENCY_US: Final = 0.6
_LOADS: Final = 4  # elements of a thread on their way
_BLOCKS: Final = 8  # of 256 threads on a multiprocessor
_WIDEST: Final = 32  # columns of a block
_BYTES_EACH_US: Final = 4e6  # what a device reads and writes
_OWN: Final = 3  # passes over elements as they are stored: most, powers and results
_WIDE: Final = 3  # passes over powers, which have 4 bytes or more
_LAUNCHES_US: Final = 12.0  # of five kernels


def refusal_of_long_rows(line: Line, target: Target) -> str:
    """Return why a composite is better computed by its parts; "" where it is not.

    One kernel takes 2 * length / (elements on their way) * latency for every turn of its blocks;
    the parts 6 passes over all elements, and five launches.

    Args:
        line: a softmax, log_softmax or layer_norm.
        target: its multiprocessors.
    """
    dims, params = line.dims, line.params
    if 0 in dims:
        return ""
    if line.op.name == "layer_norm":
        split = len(dims) - int(params.axes_count)
        length, beside = numel(dims[split:]), 1
    else:
        axis = int(params.axis)
        length, beside = dims[axis], numel(dims[axis + 1 :])
    family = "layer_norm" if line.op.name == "layer_norm" else "softmax"
    tile = held_tiles(family, line.dtype)[-1]
    if beside == 1 and length <= tile.vectors * tile.team * 16 // line.dtype.itemsize:
        return ""
    rows = numel(dims) // length
    across = min(_WIDEST, power_above(beside)) if beside > 1 else 1
    blocks = -(-rows // across)
    turns = -(-blocks // (_BLOCKS * (target.multiprocessors or MULTIPROCESSORS)))
    whole_us = turns * 2 * length * across / (REDUCE_THREADS * _LOADS) * _LATENCY_US
    itemsize = line.dtype.itemsize
    passed = numel(dims) * (_OWN * itemsize + _WIDE * max(itemsize, 4))
    parts_us = passed / _BYTES_EACH_US + _LAUNCHES_US
    if whole_us <= parts_us:
        return ""
    return (
        f"{rows} {'row' if rows == 1 else 'rows'} of {length} elements would keep few blocks busy, "
        f"about {whole_us:.0f} us; its parts take about {parts_us:.0f} us"
    )
