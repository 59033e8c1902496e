"""Device memory shared with other libraries, and moved between them, the host and tensors."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.driver.copies import CopyEnd, copy_2d_async
from softcuda.driver.memory import pointer_info
from softcuda.driver.stream import Event, Stream
from softcuda.dtype import dtype_of_array
from softcuda.errors import DTypeError, ExchangeError, SoftCudaError
from softcuda.executor.devices import DeviceSession, session
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.interop.blocks import Block, Held
from softcuda.interop.capsules import asked_for, encapsulated, place_of, taken
from softcuda.interop.cuda_interface import described, interface_of
from softcuda.interop.protocols import refuse_place
from softcuda.interop.structs import DeviceType
from softcuda.pool.device import DeviceArray

__all__ = ["copy_of", "describe", "encapsulate", "landed", "overwrite", "send", "share"]

Array = np.ndarray[Any, Any]

_LEGACY_STREAM: Final = 1
_NO_WAITING: Final = -1
_MAX_PITCH: Final = 1 << 31  # bytes; what the driver copies rows of
_LOOSE: Final = 2  # a copy takes the whole span of an array up to so many times its bytes


def share(what: str, value: Any) -> DeviceArray:
    """Return a CUDA array of another library as a device array that shares its memory.

    What its library still has to do for it is waited for, on the device. The array is given back
    when nobody holds the device array any more and the device has done what it was given.

    Args:
        what: who asks, first word of the errors.
        value: an object with DLPack, else with the CUDA array interface.

    Raises:
        ArgumentTypeError: it is on another device, or does not give its array.
        ExchangeError: it gives something that cannot be shared.
        DTypeError: its dtype is none that tensors have.
    """
    place = place_of(value)
    if place is not None and place.ordinal:
        raise refuse_place(what, value)
    on = session()
    settle = partial(_settle, on.stream)
    if place is not None:
        block = taken(what, asked_for(what, value, on.stream.handle), settle)
    else:
        block, stream = described(what, value)
        if numel(block.dims):
            _check_device(what, block, on)
        if stream is not None:
            _wait_for(on, stream)
        block = block._replace(owner=Held(settle, _let_go, value))
    return _as_device_array(what, block, on)


def _settle(stream: Stream) -> None:
    """Wait for what a stream was given before memory that it may read is given back."""
    with suppress(SoftCudaError):
        if not stream.is_done():
            stream.synchronize()


def _let_go(value: object) -> None:
    """Take the last reference to an object of another library."""


def _wait_for(on: DeviceSession, stream: int) -> None:
    """Make the work of the session wait for what a stream of another library was given."""
    theirs = Stream.borrowed(on.context, stream)
    on.stream.wait(theirs.record(Event(on.context)))


def _check_device(what: str, block: Block, on: DeviceSession) -> None:
    found = pointer_info(block.ptr, on.context.driver)
    if found is None or found.ordinal != on.ordinal:
        where = "no CUDA memory" if found is None else f"memory of CUDA device {found.ordinal}"
        raise ExchangeError(
            f"{what}: the address {block.ptr:#x} of the array of shape {list(block.dims)} is "
            f"{where}; allowed is memory of CUDA device {on.ordinal}; move the array there first"
        )


def _as_device_array(what: str, block: Block, on: DeviceSession) -> DeviceArray:
    dtype, size = block.dtype, block.dtype.itemsize
    if dtype_of_array(dtype).numpy != dtype:
        raise DTypeError(
            f"{what}: a CUDA array of dtype {dtype} cannot be a tensor without a conversion; "
            f"convert it to {dtype_of_array(dtype).numpy} first"
        )
    if block.ptr % size:
        raise ExchangeError(
            f"{what}: the address {block.ptr:#x} is no multiple of the {size} bytes of an element; "
            "copy the array first"
        )
    strides = tuple(stride * size for stride in block.strides)
    return DeviceArray(
        block.ptr, block.dims, strides, dtype, on.ordinal, block.owner, on.fetch, is_volatile=True
    )


def send(array: Array, *, is_volatile: bool = False) -> DeviceArray:
    """Return a dense copy of a host array on the device; the array is free afterwards.

    Args:
        array: any strides.
        is_volatile: whether its values will change.
    """
    on = session()
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
        made.ptr += start * made.itemsize
        made.shape, made.strides = array.shape, array.strides
        return made
    if count:
        session().upload(span, landing.ptr - start * landing.itemsize)
    return landing


def copy_of(array: DeviceArray, *, is_volatile: bool = False) -> DeviceArray:
    """Return a copy of a device array; once this returns the array may be changed.

    It is made on the device, with the same strides where the array fills most of its span, else
    dense where the array is rows at equal distances; what is neither goes by the host.
    """
    on = session(array.ordinal)
    reach = [s * (d - 1) for d, s in zip(array.shape, array.strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    span = sum(map(abs, reach)) + array.itemsize if array.size else 0
    ptr, strides = 0, array.strides
    if span > _LOOSE * array.nbytes:
        rows = _rows_of(array)
        if rows is None:
            return send(on.fetch(array), is_volatile=is_volatile)
        memory = on.ledger.memory(array.nbytes)
        ptr, strides = memory.ptr, on.array(0, array.shape, array.dtype, None).strides
        source = CopyEnd(array.ptr, pitch_bytes=rows.pitch_bytes)
        copy_2d_async(
            on.context, CopyEnd(ptr), source, rows.width_bytes, rows.height, stream=on.stream
        )
    else:
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


class _Rows(NamedTuple):
    """An array as rows of bytes at equal distances."""

    height: int
    width_bytes: int
    pitch_bytes: int


def _rows_of(array: DeviceArray) -> _Rows | None:
    """Return an array that is larger than its elements as rows, or None where it is none."""
    levels: list[tuple[int, int]] = [(array.itemsize, 1)]  # (extent, stride) [bytes], inner first
    for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        inner_extent, inner_stride = levels[-1]
        if extent == 1:
            continue
        if stride == inner_extent * inner_stride:
            levels[-1] = (inner_extent * extent, inner_stride)
        else:
            levels.append((extent, stride))
    if len(levels) != 2 or not levels[0][0] <= levels[1][1] < _MAX_PITCH:
        return None
    return _Rows(levels[1][0], levels[0][0], levels[1][1])


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
