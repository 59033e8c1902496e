"""Feeds: what a caller gives for a leaf, checked and brought into the leaf's declared layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.dtype import DType, check_number, dtype_of_array
from softcuda.errors import FeedError, SoftCudaError
from softcuda.graph.lines import Line
from softcuda.graph.node import Node, on_host
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides

__all__ = ["conform"]

Array = np.ndarray[Any, Any]


def conform(value: Any, line: Line, label: str) -> Array:
    """Return a feed as an array of the leaf's shape, dtype and strides.

    The array itself where it fits already, else a copy. Numbers and lists take the leaf's dtype
    when their kind allows it; arrays and tensors must have it.

    Raises:
        FeedError: not evaluated, or of another shape or dtype.
    """
    array = _array_of(value, line.dtype, label)
    if array.shape != line.dims:
        raise FeedError(
            f"run: the feed of {label} has shape {list(array.shape)}; allowed is "
            f"{list(line.dims)}, the shape it was declared with; compile again for another shape"
        )
    size = array.itemsize
    declared = line.params.strides
    if all(
        have == want * size or extent <= 1
        for extent, have, want in zip(line.dims, array.strides, declared, strict=True)
    ):
        return array
    return _copy_with_strides(array, declared, label)


def _array_of(value: Any, dtype: DType, label: str) -> Array:
    if isinstance(value, Node):
        if value.data is None:
            raise FeedError(
                f"run: the feed of {label} is a tensor without a value; evaluate it first, or "
                "compile it into this graph"
            )
        return _of_dtype(on_host(value.data), dtype, label)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array_interface__"):
        return _of_dtype(np.asarray(value), dtype, label)
    if hasattr(value, "__dlpack__"):
        return _of_dtype(np.from_dlpack(value), dtype, label)
    try:
        loose = np.asarray(value)
        for number in loose.reshape(-1).tolist():
            check_number(number, dtype)
        return loose.astype(dtype.numpy)
    except (SoftCudaError, ValueError, TypeError) as error:
        raise FeedError(
            f"run: the feed of {label} cannot become {dtype}: {error}; give an array of {dtype}"
        ) from None


def _of_dtype(array: Array, dtype: DType, label: str) -> Array:
    try:
        stored = dtype_of_array(array.dtype)
    except SoftCudaError as error:
        raise FeedError(f"run: the feed of {label}: {error}") from None
    if stored is not dtype:
        raise FeedError(
            f"run: the feed of {label} has dtype {array.dtype}; allowed is {dtype}; "
            f"convert it with .astype('{dtype.numpy}')"
        )
    return array if array.dtype == dtype.numpy else array.astype(dtype.numpy)


def _copy_with_strides(array: Array, strides: Dims, label: str) -> Array:
    """Return a copy of `array` with these strides [elements]."""
    dims = array.shape
    if strides == contiguous_strides(dims):
        return np.ascontiguousarray(array).reshape(dims)
    order = sorted(range(len(dims)), key=lambda axis: -abs(strides[axis]))
    step = 1
    for axis in reversed(order):
        if dims[axis] > 1 and abs(strides[axis]) < step:
            raise FeedError(
                f"run: {label} was given as a view whose elements share memory (strides "
                f"{list(strides)} of shape {list(dims)}), so it cannot be fed; make the leaf with "
                "softcuda.input instead"
            )
        step = max(step, abs(strides[axis]) * dims[axis])
    base = np.empty(step, array.dtype)
    start = -sum(s * (d - 1) for d, s in zip(dims, strides, strict=True) if s < 0)
    window = np.lib.stride_tricks.as_strided(
        base[start:], dims, [s * array.itemsize for s in strides]
    )
    window[...] = array
    return window
