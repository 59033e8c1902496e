"""Slots: memory of its own for the copy of a small leaf, of the leaf's extents and strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.graph.lines import Line
from softcuda.graph.shapes import numel
from softcuda.pool.buffers import aligned_empty

__all__ = ["slot_bytes", "slot_of"]

Array = np.ndarray[Any, Any]


def slot_bytes(line: Line) -> int:
    """Return what it takes to copy a leaf: its elements, or the span that they lie in [bytes].

    A leaf with gaps spans more than its elements, one that overlaps itself less.
    """
    return max(line.nbytes, _span_elems(line) * line.dtype.itemsize)


def _span_elems(line: Line) -> int:
    if not numel(line.dims):
        return 0
    pairs = zip(line.dims, line.params.strides, strict=True)
    reach: int = sum(abs(stride) * (extent - 1) for extent, stride in pairs)
    return 1 + reach


def slot_of(line: Line) -> Array:
    """Return memory for a leaf [its extents, its strides]."""
    size, strides = line.dtype.itemsize, line.params.strides
    reach = [stride * (extent - 1) for extent, stride in zip(line.dims, strides, strict=True)]
    start = -sum(r for r in reach if r < 0) if numel(line.dims) else 0
    block = aligned_empty((max(_span_elems(line), 1),), line.dtype.numpy)
    window: Array = np.lib.stride_tricks.as_strided(
        block[start:], line.dims, [stride * size for stride in strides]
    )
    return window
