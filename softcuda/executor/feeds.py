"""Feeds: what a caller gives for a leaf, checked and brought into the leaf's declared layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softcuda.backends.host.conversion import plain_bools
from softcuda.dtype import DType, check_number, dtype_of_array
from softcuda.errors import FeedError, SoftCudaError
from softcuda.executor.on_demand import shared_array, upload
from softcuda.graph.lines import Line
from softcuda.graph.node import Node, on_host
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.interop.protocols import array_of_host, lives_on_cuda

if TYPE_CHECKING:
    from softcuda.pool.device import DeviceArray

__all__ = ["conform", "restrided"]

Array = np.ndarray[Any, Any]


class _Window(NamedTuple):
    """A view of a dense base that begins `start` elements into it."""

    base: Array
    start: int
    view: Array


def conform(value: Any, line: Line, label: str) -> Array | DeviceArray:
    """Return a feed as an array of the leaf's shape, dtype and strides, on the leaf's device.

    The array itself where it fits already, else a copy. Numbers and lists take the leaf's dtype
    when their kind allows it; arrays and tensors must have it. An array of the host is copied to
    a leaf's device, and fetched from a device for a leaf of the host.

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
    fits = all(
        have == want * size or extent <= 1
        for extent, have, want in zip(line.dims, array.strides, declared, strict=True)
    )
    if line.params.device == "cuda":
        return array if fits and not isinstance(array, np.ndarray) else _sent(array, line, label)
    host: Array = on_host(array)
    if fits and host is array:
        return host
    return _window(host, declared, label).view


def _sent(array: Array | DeviceArray, line: Line, label: str) -> DeviceArray:
    """Return a copy on the device with the strides that the leaf was declared with."""
    window = _window(on_host(array), line.params.strides, label)
    sent = upload(window.base, passing=True)
    size = sent.itemsize
    sent.ptr += window.start * size
    sent.shape = line.dims
    sent.strides = tuple(stride * size for stride in line.params.strides)
    return sent


def _array_of(value: Any, dtype: DType, label: str) -> Array | DeviceArray:
    if isinstance(value, Node):
        if value.data is None:
            raise FeedError(
                f"run: the feed of {label} is a tensor without a value; evaluate it first, or "
                "compile it into this graph"
            )
        return _of_dtype(value.data, dtype, label)
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise FeedError(
            f"run: the feed of {label} is a masked array of shape {list(value.shape)} and would "
            "lose its mask; use its .filled(...) first"
        )
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array_interface__"):
        return _of_dtype(np.asarray(value), dtype, label)
    try:
        if lives_on_cuda(value):
            return _of_dtype(shared_array("run", value), dtype, label)
        if hasattr(value, "__dlpack__"):
            return _of_dtype(array_of_host("run", value), dtype, label)
    except FeedError:
        raise
    except (SoftCudaError, ValueError, TypeError) as error:
        raise FeedError(f"run: the feed of {label} cannot be read: {error}") from error
    try:
        loose = np.asarray(value)
        for number in loose.reshape(-1).tolist():
            check_number(number, dtype)
        with np.errstate(all="ignore"):  # a number that is too large for its dtype is infinite
            return loose.astype(dtype.numpy)
    except (SoftCudaError, ValueError, TypeError) as error:
        raise FeedError(
            f"run: the feed of {label} cannot become {dtype}: {error}; give an array of {dtype}"
        ) from None


def _of_dtype(array: Array | DeviceArray, dtype: DType, label: str) -> Array | DeviceArray:
    try:
        stored = dtype_of_array(array.dtype)
    except SoftCudaError as error:
        raise FeedError(f"run: the feed of {label}: {error}") from None
    if stored is not dtype:
        raise FeedError(
            f"run: the feed of {label} has dtype {array.dtype}; allowed is {dtype}; "
            f"convert it with .astype('{dtype.numpy}')"
        )
    if not isinstance(array, np.ndarray):
        return array
    return plain_bools(array) if array.dtype == dtype.numpy else array.astype(dtype.numpy)


def restrided(array: Array, line: Line) -> Array:
    """Return a leaf's own value with the strides that it was declared with.

    Pickling makes arrays dense. The array itself where it fits, else a copy, in which elements
    that shared memory share it again.

    Args:
        array: [dims of the line], any strides.
        line: the leaf.
    """
    dims, size = line.dims, array.itemsize
    strides = [stride * size for stride in line.params.strides]
    if not array.size or all(
        extent <= 1 or have == want
        for extent, have, want in zip(dims, array.strides, strides, strict=True)
    ):
        return array
    reach = [s * (d - 1) for d, s in zip(dims, line.params.strides, strict=True)]
    base = np.empty(sum(map(abs, reach)) + 1, array.dtype)
    start = -sum(r for r in reach if r < 0)
    window: Array = np.lib.stride_tricks.as_strided(base[start:], dims, strides)
    window[...] = array
    return window


def _window(array: Array, strides: Dims, label: str) -> _Window:
    """Return `array`, or a copy of it, with these strides [elements]."""
    dims = array.shape
    if strides == contiguous_strides(dims):
        dense = np.ascontiguousarray(array).reshape(dims)
        return _Window(dense, 0, dense)
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
    return _Window(base, start, window)
