"""Windows: the arrays that the operands of a step name, on the memory of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.backends.steps import Operand
from softcuda.pool.buffers import strided

__all__ = ["arena_window", "window_on"]

Array = np.ndarray[Any, Any]


def window_on(base: Array, operand: Operand) -> Array:
    """Return the window of an operand on its value's array: the array itself where it is whole."""
    size = base.itemsize
    whole = operand.offset == 0 and base.shape == operand.dims
    if whole and all(
        have == stride * size or extent == 0 or (extent == 1 and have >= 0)
        for extent, have, stride in zip(base.shape, base.strides, operand.strides, strict=True)
    ):
        return base
    return strided(base, operand.offset, operand.dims, operand.strides)


def arena_window(memory: Array | None, at: int, operand: Operand) -> Array:
    """Return the window of an operand on the arena's bytes, its value beginning at byte `at`.

    `memory` is None where the program needs no arena, which leaves empty values alone.
    """
    dtype = operand.dtype.numpy
    if memory is None or 0 in operand.dims:
        return np.empty(operand.dims, dtype)
    size = dtype.itemsize
    return np.ndarray(
        operand.dims,
        dtype,
        buffer=memory,
        offset=at + operand.offset * size,
        strides=[stride * size for stride in operand.strides],
    )
