"""Host buffers: aligned arrays, and windows on existing memory."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from softcuda.errors import ArgumentError, PoolExhausted

__all__ = ["ALIGNMENT", "aligned_empty", "aligned_memory", "dense_copy", "separate", "strided"]

Array = np.ndarray[Any, Any]
NumpyDType = np.dtype[Any]

ALIGNMENT: Final = 256  # bytes; what the CUDA driver guarantees for its own allocations
HUGE_PAGE: Final = 2 << 20  # bytes of a transparent huge page on x86-64 and most of arm64
HUGE_FROM: Final = 32 << 20  # bytes; below, a whole page of slack would be over 6 percent
MAX_RANK: Final = 64

_ndarray: Final = np.ndarray


def aligned_empty(dims: tuple[int, ...], dtype: NumpyDType) -> Array:
    """Return an uninitialised row-major array whose data is 256-byte aligned.

    From 32 MiB on, the data begins at a multiple of 2 MiB, so that huge pages cover it whole.

    Args:
        dims: extents.
        dtype: NumPy dtype, also `ml_dtypes.bfloat16`.

    Returns:
        [dims], dtype, C-contiguous; its `base` is the flat byte array that owns the memory.

    Raises:
        ArgumentError: an extent is negative, or the rank is over 64.
        PoolExhausted: the host has not that much memory.
    """
    memory, start = aligned_memory(dims, dtype)
    return _ndarray(dims, dtype, memory, start)


def dense_copy(array: Array, dtype: NumpyDType | None = None) -> Array:
    """Return a row-major copy of an array, aligned as `aligned_empty` aligns.

    Args:
        array: any strides.
        dtype: NumPy dtype of the copy, which NumPy converts to; None for that of the array.

    Raises:
        PoolExhausted: the host has not that much memory.
    """
    made = aligned_empty(array.shape, dtype or array.dtype)
    np.copyto(made, array, casting="unsafe")
    return made


def aligned_memory(dims: tuple[int, ...], dtype: NumpyDType) -> tuple[Array, int]:
    """Return a byte array that owns its memory, and where aligned data begins in it [bytes].

    Raises:
        ArgumentError, PoolExhausted: as `aligned_empty`.
    """
    if len(dims) > MAX_RANK or any(extent < 0 for extent in dims):
        raise ArgumentError(
            f"a buffer of dims {dims} cannot be made; allowed are up to {MAX_RANK} extents of at "
            "least 0"
        )
    nbytes = prod(dims) * dtype.itemsize
    alignment = HUGE_PAGE if nbytes >= HUGE_FROM else ALIGNMENT
    try:
        memory: Array = np.empty(nbytes + alignment, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise PoolExhausted(
            f"host memory exhausted: asked {nbytes} bytes for an array of dims {dims} and dtype "
            f"{dtype}; free arrays that are no longer needed, or make the tensor smaller"
        ) from error
    return memory, -memory.ctypes.data % alignment


def separate(array: Array) -> Array:
    """Return an array on the memory of `array` whose views refer to it, never past it.

    NumPy gives a view of a view the `base` that owns the memory, so nothing tells whether views
    of a given array are left. Every view of the result keeps the result alive: its reference
    count says whether anything made of it is still in use.

    Args:
        array: C-contiguous, with elements or without.

    Raises:
        ArgumentError: `array` is not C-contiguous.
    """
    if not array.flags.c_contiguous:
        raise ArgumentError(
            f"separate: an array of dims {array.shape} and strides {array.strides} [bytes] is not "
            "C-contiguous; allowed are C-contiguous arrays"
        )
    # Neither an ndarray nor a memoryview, through which NumPy would look for the owner.
    buffer: Any = pickle.PickleBuffer(_as_buffer(array.reshape(-1).view(np.uint8)))
    return _ndarray(array.shape, array.dtype, buffer)


def _as_buffer(array: Any) -> Any:  # mypy takes ndarray for no buffer before Python 3.12
    return array


def strided(array: Array, offset_elems: int, dims: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a window on the memory of `array`, without a copy.

    W[i, j, ...] = the element offset_elems + i*strides[0] + j*strides[1] + ... elements away
    from the first logical element of `array`.

    Args:
        array: any ndarray, with any strides; it stays alive as long as the window.
        offset_elems: first element of the window [elements].
        dims: extents of the window, up to 64 of them.
        strides: strides of the window [elements], of any sign.

    Returns:
        [dims], the dtype of `array`, read-only where `array` is.

    Raises:
        ArgumentError: the window leaves the memory that `array` is itself a view of, an extent
            is negative, or there are not as many strides as extents.
    """
    dtype = array.dtype
    itemsize = dtype.itemsize
    if len(dims) != len(strides):
        raise _refusal(array, offset_elems, dims, strides, "dims and strides differ in length")
    start = low = high = offset_elems * itemsize
    empty = False
    steps = []
    for extent, stride in zip(dims, strides, strict=True):
        step = stride * itemsize
        if extent > 1:
            if step < 0:
                low += step * (extent - 1)
            else:
                high += step * (extent - 1)
        elif extent < 1:
            if extent < 0:
                raise _refusal(array, offset_elems, dims, strides, "an extent is negative")
            empty = True
        steps.append(step)
    try:
        if empty:
            return _empty_window(array, dims)
        if low >= 0 and array.flags.forc and high + itemsize <= array.nbytes:
            return _ndarray(dims, dtype, array, start, steps)
        found = _window_of_owner(array, (start, low, high), dims, steps)
    except (ValueError, OverflowError) as error:
        raise _refusal(array, offset_elems, dims, strides, str(error)) from error
    if found is None:
        raise _refusal(array, offset_elems, dims, strides, "it leaves the memory of the array")
    return found


class _Memory:
    """An address for NumPy to make an array of; keeps the owner of the memory alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Array, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _span(array: Array) -> tuple[int, int]:
    """Return first and last + 1 byte of an array, relative to its first logical element."""
    if array.size == 0:
        return 0, 0
    reaches = [s * (d - 1) for d, s in zip(array.shape, array.strides, strict=True)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + array.itemsize


def _empty_window(array: Array, dims: Sequence[int]) -> Array:
    window: Array = _ndarray(tuple(dims), array.dtype)
    window.flags.writeable = array.flags.writeable
    return window


def _window_of_owner(
    array: Array, place: tuple[int, int, int], dims: Sequence[int], steps: Sequence[int]
) -> Array | None:
    """Return a window on the memory that `array` is a view of, or None where it leaves it.

    `place` is the window's first element, first and last byte, relative to that of `array`;
    `steps` are strides in bytes.
    """
    owner = array
    while isinstance(owner.base, _ndarray):
        owner = owner.base
    address = _address(array)
    shift = address - _address(owner)
    start, low, high = place
    low, end = low + shift, high + shift + array.itemsize
    flat = owner.flags.forc
    allowed = (0, owner.nbytes) if flat else _span(owner)
    if not (allowed[0] <= low and end <= allowed[1]):
        allowed = _buffer_span(owner)
        if not (allowed[0] <= low and end <= allowed[1]):
            return None
    elif flat and owner.flags.writeable == array.flags.writeable:
        return _ndarray(dims, array.dtype, owner, start + shift, steps)
    interface = {
        "version": 3,
        "shape": tuple(dims),
        "strides": tuple(steps),
        "typestr": f"|V{array.itemsize}",
        "data": (address + start, not array.flags.writeable),
    }
    window: Array = np.asarray(_Memory(array, interface))
    return window.view(array.dtype)


def _buffer_span(owner: Array) -> tuple[int, int]:
    """Return the bytes of the buffer below an array that views bytes, an mmap or the like.

    They are relative to the array's first element; empty where the object shows no buffer.
    """
    if owner.base is None:
        return 0, 0
    try:
        below = np.frombuffer(owner.base, np.uint8)
    except (TypeError, ValueError, BufferError):
        return 0, 0
    first = _address(below) - _address(owner)
    return first, first + below.nbytes


def _refusal(
    array: Array, offset_elems: int, dims: Sequence[int], strides: Sequence[int], why: str
) -> ArgumentError:
    return ArgumentError(
        f"no window at offset {offset_elems} with dims {tuple(dims)} and strides {tuple(strides)} "
        f"[elements] on an array of dims {array.shape}, dtype {array.dtype} and strides "
        f"{array.strides} [bytes]: {why}; allowed are up to {MAX_RANK} extents of at least 0 "
        "whose elements all lie in the memory that the array is a view of"
    )
