"""Feeds: what a caller gives for a leaf, checked and brought into the leaf's declared layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcuda.backends.host.conversion import plain_bools
from softcuda.dtype import DType, dtype_of_array
from softcuda.errors import FeedError, SoftCudaError
from softcuda.executor.on_demand import shared_array
from softcuda.graph.lines import Line
from softcuda.graph.node import Node, on_host
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.interop.protocols import array_of_host, lives_on_cuda
from softcuda.numbers import check_number
from softcuda.pool.buffers import aligned_empty, dense_copy

if TYPE_CHECKING:
    from softcuda.pool.device import DeviceArray

__all__ = ["Declared", "conform", "declared", "restrided"]

Array = np.ndarray[Any, Any]

_ARRAY: Final = np.ndarray


@dataclass(frozen=True, slots=True)
class Declared:
    """What a leaf was declared as, which its feeds must be.

    Attributes:
        label: what messages call it.
        dims: extents.
        dtype: softcuda's.
        stored: NumPy's.
        strides: [elements].
        strides_bytes: [bytes].
        is_on_device: whether a CUDA device owns it.
    """

    label: str
    dims: Dims
    dtype: DType
    stored: np.dtype[Any]
    strides: Dims
    strides_bytes: Dims
    is_on_device: bool


def declared(line: Line, label: str) -> Declared:
    """Return what a leaf was declared as."""
    stored = line.dtype.numpy
    strides = line.params.strides
    strides_bytes = tuple(stride * stored.itemsize for stride in strides)
    on_device = line.params.device == "cuda"
    return Declared(label, line.dims, line.dtype, stored, strides, strides_bytes, on_device)


def conform(value: Any, leaf: Declared) -> Array | DeviceArray:
    """Return a feed as an array of the leaf's shape, dtype and strides.

    The array itself where it fits already, else a copy. Numbers and lists take the leaf's dtype
    when their kind allows it; arrays and tensors must have it. An array of a device is fetched
    for a leaf of the host; one of the host is returned as such, a run brings it to the device.

    Raises:
        FeedError: not evaluated, or of another shape or dtype.
    """
    if isinstance(value, Node):
        data = value.data
        if (
            data is not None
            and data.dtype is leaf.stored
            and data.shape == leaf.dims
            and data.strides == leaf.strides_bytes
            and (data.__class__ is _ARRAY) is not leaf.is_on_device
        ):
            return data  # type: ignore[no-any-return]
    array = _array_of(value, leaf.dtype, leaf.label)
    if array.shape != leaf.dims:
        raise FeedError(
            f"run: the feed of {leaf.label} has shape {list(array.shape)}; allowed is "
            f"{list(leaf.dims)}, the shape it was declared with; compile again for another shape"
        )
    fits = array.strides == leaf.strides_bytes or all(
        have == want or extent <= 1
        for extent, have, want in zip(leaf.dims, array.strides, leaf.strides_bytes, strict=True)
    )
    if leaf.is_on_device and fits:
        return array
    host: Array = on_host(array)
    if fits and host is array:
        return host
    return _window(host, leaf.strides, leaf.label)


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
    if array.dtype is not dtype.numpy:
        _check_dtype(array, dtype, label)
    if not isinstance(array, np.ndarray):
        return array
    return plain_bools(array) if array.dtype == dtype.numpy else dense_copy(array, dtype.numpy)


def _check_dtype(array: Array | DeviceArray, dtype: DType, label: str) -> None:
    """Refuse elements of another dtype; another order of their bytes is none."""
    try:
        stored = dtype_of_array(array.dtype)
    except SoftCudaError as error:
        raise FeedError(f"run: the feed of {label}: {error}") from None
    if stored is not dtype:
        raise FeedError(
            f"run: the feed of {label} has dtype {array.dtype}; allowed is {dtype}; "
            f"convert it with .astype('{dtype.numpy}')"
        )


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
    base = aligned_empty((sum(map(abs, reach)) + 1,), array.dtype)
    start = -sum(r for r in reach if r < 0)
    window: Array = np.lib.stride_tricks.as_strided(base[start:], dims, strides)
    window[...] = array
    return window


def _window(array: Array, strides: Dims, label: str) -> Array:
    """Return `array`, or a copy of it, with these strides [elements]."""
    dims = array.shape
    if strides == contiguous_strides(dims):
        return array if array.flags.c_contiguous else dense_copy(array)
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
    base = aligned_empty((step,), array.dtype)
    start = -sum(s * (d - 1) for d, s in zip(dims, strides, strict=True) if s < 0)
    window: Array = np.lib.stride_tricks.as_strided(
        base[start:], dims, [s * array.itemsize for s in strides]
    )
    window[...] = array
    return window
