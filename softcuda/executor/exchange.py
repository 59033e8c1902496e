"""Device memory moved between other libraries, the host and tensors, and lent to the first."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.driver.stream import Event, Stream
from softcuda.errors import ExchangeError
from softcuda.executor.devices import session, usable_session
from softcuda.executor.rows import is_loose, span_bytes
from softcuda.graph.shapes import contiguous_strides
from softcuda.interop.blocks import Block
from softcuda.interop.capsules import encapsulated
from softcuda.interop.cuda_interface import interface_of
from softcuda.interop.structs import DeviceType
from softcuda.pool.device import DeviceArray

__all__ = ["copy_of", "describe", "encapsulate", "landed", "overwrite", "send"]

Array = np.ndarray[Any, Any]

_LEGACY_STREAM: Final = 1
_NO_WAITING: Final = -1


def send(array: Array, *, is_volatile: bool = False, what: str = "run") -> DeviceArray:
    """Return a dense copy of a host array on the device; the array is free afterwards.

    Args:
        array: any strides.
        is_volatile: whether its values will change.
        what: who asks, first word of the errors.

    Raises:
        NoDeviceError: CUDA cannot be used here.
    """
    on = usable_session(what, "leave the array on the cpu")
    memory = on.ledger.memory(array.nbytes)
    if array.nbytes:
        on.upload(array, memory.ptr)
    made = on.array(memory.ptr, array.shape, array.dtype, memory)
    made.is_volatile = is_volatile
    return made


def landed(array: Array, landing: DeviceArray | None) -> DeviceArray:
    """Return a copy of a host array on the device, with its strides; the array is free afterwards.

    Args:
        array: any strides that give every element a place of its own.
        landing: what an earlier call returned for an array of this shape and these strides; it
            is written again, in the order of the session's stream.
    """
    if array.flags.c_contiguous:
        if landing is None:
            return send(array)
        session().upload(array, landing.ptr)
        return landing
    strides = [s // array.itemsize for s in array.strides]
    reach = [s * (d - 1) for d, s in zip(array.shape, strides, strict=True)]
    start = -sum(r for r in reach if r < 0)
    first = tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in strides)
    count = sum(map(abs, reach)) + 1 if array.size else 0
    lowest = array[first] if array.ndim else array
    span = np.lib.stride_tricks.as_strided(lowest, (count,), (array.itemsize,))
    if landing is None:
        made = send(span)
        on, ptr, owner = session(), made.ptr + start * made.itemsize, made.owner
        ordinal, fetch = on.ordinal, on.fetch
        return DeviceArray(ptr, array.shape, array.strides, made.dtype, ordinal, owner, fetch)
    if count:
        session().upload(span, landing.ptr - start * landing.itemsize)
    return landing


def copy_of(array: DeviceArray, *, is_volatile: bool = False) -> DeviceArray:
    """Return a copy of a device array; once this returns the array may be changed.

    It is made on the device, with the same strides where the array fills most of its span, else
    dense where the array is rows at equal distances; what is neither goes by the host.
    """
    on = session(array.ordinal)
    ptr, strides = 0, array.strides
    if is_loose(array):
        packed = on.packed(array)
        if packed is None:
            return send(on.fetch(array), is_volatile=is_volatile)
        memory, ptr = packed, packed.ptr
        strides = on.array(0, array.shape, array.dtype, None).strides
    else:
        low, span = span_bytes(array)
        memory = on.ledger.memory(span)
        ptr = memory.ptr - low
        on.copy(array.ptr + low, memory.ptr, span)
    on.stream.synchronize()
    return DeviceArray(
        ptr,
        array.shape,
        strides,
        array.dtype,
        array.ordinal,
        memory,
        on.fetch,
        is_volatile=is_volatile,
    )


def overwrite(target: DeviceArray, value: Array | DeviceArray) -> None:
    """Write values of the same shape and dtype into a dense device array.

    Earlier work of the session still reads the old ones. `value` may be changed afterwards.
    """
    on = session(target.ordinal)
    if not target.nbytes:
        return
    if isinstance(value, DeviceArray):
        if value.is_contiguous:
            if value.ptr != target.ptr:
                on.copy(value.ptr, target.ptr, target.nbytes)
                on.stream.synchronize()
            return
        value = on.fetch(value)
    on.upload(value, target.ptr)


def encapsulate(
    array: DeviceArray, stream: Any, *, versioned: bool, read_only: bool, copied: bool
) -> object:
    """Return a DLPack capsule of a device array.

    Args:
        array: the array, which lives as long as the capsule or what a consumer made of it.
        stream: what is made to wait for the array's values: None or 1 for the legacy default
            stream, 2 for the thread's own, a handle, or -1 for nothing.
        versioned: whether it is of DLPack 1.
        read_only: whether a versioned one says that the array must not be written.
        copied: whether the array is a copy made for the consumer alone.

    Raises:
        ExchangeError: stream 0, which is ambiguous, or no number.
    """
    handle = _LEGACY_STREAM if stream is None else stream
    if (
        isinstance(handle, bool)
        or not isinstance(handle, int)
        or not handle
        or handle < _NO_WAITING
    ):
        raise ExchangeError(
            f"__dlpack__: the stream is {stream!r}; allowed are None and 1 (the legacy default "
            "stream), 2 (the thread's own), the handle of a stream, and -1 (no waiting)"
        )
    on = session(array.ordinal)
    if handle not in (_NO_WAITING, on.stream.handle):
        done = on.stream.record(Event(on.context))
        Stream.borrowed(on.context, handle).wait(done)
    block = _block_of(array, read_only and versioned)
    return encapsulated(block, versioned=versioned, copied=copied)


def describe(array: DeviceArray) -> dict[str, Any]:
    """Return the CUDA array interface of a device array; its values are ready in its stream.

    Raises:
        AttributeError: bfloat16 elements, which the interface cannot name.
    """
    return interface_of(_block_of(array, False), session(array.ordinal).stream.handle)


def _block_of(array: DeviceArray, is_read_only: bool) -> Block:
    array.is_exported = True
    size = array.itemsize
    row_major = contiguous_strides(array.shape)
    strides = tuple(
        dense if extent <= 1 or not array.size else stride // size
        for extent, stride, dense in zip(array.shape, array.strides, row_major, strict=True)
    )
    kind = DeviceType.CUDA
    return Block(
        array.ptr, array.shape, strides, array.dtype, kind, array.ordinal, is_read_only, array
    )
