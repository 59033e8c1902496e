"""Host buffers: aligned arrays, windows on existing memory, reuse of output buffers."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from softcuda.errors import ArgumentError, PoolExhausted

__all__ = ["ALIGNMENT", "BufferCache", "OutputBuffer", "aligned_empty", "strided"]

Array = np.ndarray[Any, Any]
NumpyDType = np.dtype[Any]

ALIGNMENT: Final = 256  # bytes; what the CUDA driver guarantees for its own allocations
HUGE_PAGE: Final = 2 << 20  # bytes of a transparent huge page on x86-64 and most of arm64
HUGE_FROM: Final = 32 << 20  # bytes; below, a whole page of slack would be over 6 percent
MAX_RANK: Final = 64

COUNTS_ARE_EXACT: Final = hasattr(sys, "getrefcount") and not sysconfig.get_config_var(
    "Py_GIL_DISABLED"
)

_ndarray: Final = np.ndarray
_count: Final[Any] = getattr(sys, "getrefcount", None)


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
    memory, start = _aligned_memory(dims, dtype)
    return _ndarray(dims, dtype, memory, start)


def _aligned_memory(dims: tuple[int, ...], dtype: NumpyDType) -> tuple[Array, int]:
    """Return a byte array that owns its memory, and where aligned data begins in it [bytes]."""
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
            f"{dtype}: {error}; free arrays that are no longer needed, or make the tensor smaller"
        ) from error
    return memory, -memory.ctypes.data % alignment


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
    low = high = offset_elems * itemsize
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
            return _ndarray(dims, dtype, array, offset_elems * itemsize, steps)
        found = _window_of_owner(array, (offset_elems * itemsize, low, high), dims, steps)
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
    first, end = _span(owner)
    if low + shift < first or high + shift + array.itemsize > end:
        first, end = _buffer_span(owner)
        if low + shift < first or high + shift + array.itemsize > end:
            return None
    elif owner.flags.forc and owner.flags.writeable == array.flags.writeable:
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


class OutputBuffer:
    """Host memory that is written again only when nobody but its holder refers to it.

    NumPy makes the owner of the memory the `base` of every view, so one reference count tells
    whether any array, memoryview, DLPack capsule or tensor still needs the values. A bare
    address (`.ctypes.data`) does not count.

    Attributes:
        memory: the flat byte array that owns the memory.
        start: where the aligned data begins in it [bytes].
        dims: extents of the arrays made of it.
        dtype: their NumPy dtype.
    """

    __slots__ = ("dims", "dtype", "idle", "memory", "start")

    def __init__(self, dims: tuple[int, ...], dtype: NumpyDType) -> None:
        self.dims = dims
        self.dtype = dtype
        self.memory, self.start = _aligned_memory(dims, dtype)
        self.idle = -1
        self.settle()

    def settle(self) -> None:
        """Take the references that exist now for the holder's own, those of bound steps say.

        From here on `is_free` is true as long as there is no further one.
        """
        if COUNTS_ARE_EXACT:
            self.idle = _count(self.memory)

    @property
    def is_free(self) -> bool:
        """True when only the holder refers to the memory; never on a free-threaded Python."""
        return COUNTS_ARE_EXACT and bool(_count(self.memory) == self.idle)

    def view(self) -> Array:
        """Return a new row-major array [dims] on the memory; while it lives, `is_free` is false."""
        return _ndarray(self.dims, self.dtype, self.memory, self.start)

    def __repr__(self) -> str:
        state = "free" if self.is_free else "in use"
        return f"OutputBuffer({self.dims}, {self.dtype}, {self.memory.nbytes} bytes, {state})"


class BufferCache:
    """Output buffers by extents and dtype, handed out again once nobody else refers to them.

    Not locked: the caller serialises `take` and `release`.
    """

    __slots__ = ("_kept", "per_shape")

    def __init__(self, per_shape: int = 3) -> None:
        """Make an empty cache.

        Args:
            per_shape: most buffers kept for one pair of extents and dtype.

        Raises:
            ArgumentError: `per_shape` is below 1.
        """
        if per_shape < 1:
            raise ArgumentError(f"BufferCache: per_shape is {per_shape}; allowed is at least 1")
        self.per_shape = per_shape
        self._kept: dict[tuple[tuple[int, ...], NumpyDType], list[OutputBuffer]] = {}

    def take(self, dims: tuple[int, ...], dtype: NumpyDType) -> Array:
        """Return an uninitialised array that nobody else refers to.

        Args:
            dims: extents.
            dtype: NumPy dtype.

        Returns:
            [dims], dtype, C-contiguous, 256-byte aligned: on a kept buffer where one is free,
            else on a fresh one, which then takes the place of the one kept longest.

        Raises:
            ArgumentError: an extent is negative, or the rank is over 64.
            PoolExhausted: the host has not that much memory.
        """
        kept = self._kept.get((dims, dtype))
        if kept is not None:
            for buffer in kept:
                if _count(buffer.memory) == buffer.idle:
                    return _ndarray(dims, dtype, buffer.memory, buffer.start)
        return self._fresh(dims, dtype)

    def _fresh(self, dims: tuple[int, ...], dtype: NumpyDType) -> Array:
        if not COUNTS_ARE_EXACT:
            return aligned_empty(dims, dtype)
        buffer = OutputBuffer(dims, dtype)
        kept = self._kept.setdefault((dims, dtype), [])
        if len(kept) >= self.per_shape:
            del kept[0]
        kept.append(buffer)
        return buffer.view()

    @property
    def buffer_count(self) -> int:
        """Number of buffers kept, free or in use."""
        return sum(map(len, self._kept.values()))

    def release(self) -> int:
        """Drop every buffer that nobody else refers to; return how many bytes that freed."""
        freed = 0
        for key, kept in list(self._kept.items()):
            left = [buffer for buffer in kept if not buffer.is_free]
            freed += sum(buffer.memory.nbytes for buffer in kept if buffer.is_free)
            if left:
                self._kept[key] = left
            else:
                del self._kept[key]
        return freed

    def __repr__(self) -> str:
        held = sum(b.memory.nbytes for kept in self._kept.values() for b in kept)
        return f"BufferCache({self.buffer_count} buffers, {held} bytes)"
