"""Copies and fills, at once or in the order of a stream.

Addresses are integers; who owns them keeps them alive until the work is done. A copy of nothing
calls nothing. Source: CUDA Driver API, "Memory Management".
"""

from __future__ import annotations

from ctypes import byref
from typing import Final, NamedTuple

from softcuda.driver.context import Context
from softcuda.driver.enums import CUmemorytype
from softcuda.driver.stream import Stream
from softcuda.driver.types import CUDA_MEMCPY2D, CUDA_MEMCPY3D
from softcuda.errors import ArgumentError

__all__ = [
    "CopyEnd",
    "check_fill",
    "copy_2d",
    "copy_2d_async",
    "copy_on_device",
    "copy_on_device_async",
    "copy_to_device",
    "copy_to_device_async",
    "copy_to_host",
    "copy_to_host_async",
    "copy_to_peer_async",
    "fill",
    "fill_async",
    "set_copy",
]

_FILLS: Final = {1: "cuMemsetD8", 2: "cuMemsetD16", 4: "cuMemsetD32"}


class CopyEnd(NamedTuple):
    """Where a copy begins or ends.

    Attributes:
        ptr: its address.
        is_host: whether that is host memory.
        pitch_bytes: bytes from one row to the next; 0 for rows without gaps.
    """

    ptr: int
    is_host: bool = False
    pitch_bytes: int = 0


def copy_to_device(context: Context, dst: int, src: int, nbytes: int) -> None:
    """Copy from host to device; returns when `src` may be changed.

    Args:
        context: of the device.
        dst: device address.
        src: host address, pinned or not.
        nbytes: how much [bytes].
    """
    if nbytes:
        with context.current():
            context.driver.cuMemcpyHtoD_v2(dst, src, nbytes)


def copy_to_device_async(
    context: Context, dst: int, src: int, nbytes: int, *, stream: Stream
) -> None:
    """Copy from host to device in the order of a stream.

    Args:
        context: of the device.
        dst: device address.
        src: host address; pinned memory must stay as it is until the copy is done, other memory
            is taken before the call returns.
        nbytes: how much [bytes].
        stream: the queue.
    """
    if nbytes:
        with context.current():
            context.driver.cuMemcpyHtoDAsync_v2(dst, src, nbytes, stream.handle)


def copy_to_host(context: Context, dst: int, src: int, nbytes: int) -> None:
    """Copy from device to host; returns when all is there.

    Args:
        context: of the device.
        dst: host address, pinned or not.
        src: device address.
        nbytes: how much [bytes].
    """
    if nbytes:
        with context.current():
            context.driver.cuMemcpyDtoH_v2(dst, src, nbytes)


def copy_to_host_async(
    context: Context, dst: int, src: int, nbytes: int, *, stream: Stream
) -> None:
    """Copy from device to host in the order of a stream.

    Args:
        context: of the device.
        dst: host address; only pinned memory is copied to without waiting.
        src: device address.
        nbytes: how much [bytes].
        stream: the queue.
    """
    if nbytes:
        with context.current():
            context.driver.cuMemcpyDtoHAsync_v2(dst, src, nbytes, stream.handle)


def copy_on_device(context: Context, dst: int, src: int, nbytes: int) -> None:
    """Copy within a device; other streams may not see it done when the call returns.

    Args:
        context: of the device.
        dst: device address; the ranges do not overlap.
        src: device address.
        nbytes: how much [bytes].
    """
    if nbytes:
        with context.current():
            context.driver.cuMemcpyDtoD_v2(dst, src, nbytes)


def copy_on_device_async(
    context: Context, dst: int, src: int, nbytes: int, *, stream: Stream
) -> None:
    """Copy within a device in the order of a stream.

    Args:
        context: of the device.
        dst: device address; the ranges do not overlap.
        src: device address.
        nbytes: how much [bytes].
        stream: the queue.
    """
    if nbytes:
        with context.current():
            context.driver.cuMemcpyDtoDAsync_v2(dst, src, nbytes, stream.handle)


def copy_to_peer_async(
    dst_context: Context, dst: int, src_context: Context, src: int, nbytes: int, *, stream: Stream
) -> None:
    """Copy from one device to another, directly where they have peer access.

    Args:
        dst_context: of the device that receives.
        dst: address on it.
        src_context: of the device that gives.
        src: address on it.
        nbytes: how much [bytes].
        stream: the queue, of either device.
    """
    if nbytes:
        with stream.context.current():
            stream.context.driver.cuMemcpyPeerAsync(
                dst, dst_context.primary.handle, src, src_context.primary.handle, nbytes,
                stream.handle,
            )  # fmt: skip


def set_copy(
    copy: CUDA_MEMCPY2D | CUDA_MEMCPY3D, dst: CopyEnd, src: CopyEnd, width_bytes: int, height: int
) -> None:
    """Write both ends of a copy of rows into the driver's struct for it.

    Raises:
        ArgumentError: rows of an end overlap.
    """
    for end in (dst, src):
        if end.pitch_bytes and end.pitch_bytes < width_bytes:
            raise ArgumentError(
                f"a copy of {height} rows of {width_bytes} bytes: {end} has rows closer than that; "
                "allowed is a pitch of at least the width, or 0 for rows without gaps"
            )
    copy.WidthInBytes, copy.Height = width_bytes, height
    copy.srcMemoryType = CUmemorytype.HOST if src.is_host else CUmemorytype.DEVICE
    copy.dstMemoryType = CUmemorytype.HOST if dst.is_host else CUmemorytype.DEVICE
    copy.srcPitch = src.pitch_bytes or width_bytes
    copy.dstPitch = dst.pitch_bytes or width_bytes
    copy.srcHost, copy.srcDevice = (src.ptr, 0) if src.is_host else (None, src.ptr)
    copy.dstHost, copy.dstDevice = (dst.ptr, 0) if dst.is_host else (None, dst.ptr)


def copy_2d(context: Context, dst: CopyEnd, src: CopyEnd, width_bytes: int, height: int) -> None:
    """Copy `height` rows of `width_bytes`, with gaps between them at either end.

    Raises:
        ArgumentError: rows of an end overlap.
    """
    rows = CUDA_MEMCPY2D()
    set_copy(rows, dst, src, width_bytes, height)
    if width_bytes and height:
        with context.current():
            context.driver.cuMemcpy2DUnaligned_v2(byref(rows))


def copy_2d_async(
    context: Context, dst: CopyEnd, src: CopyEnd, width_bytes: int, height: int, *, stream: Stream
) -> None:
    """Copy `height` rows of `width_bytes` in the order of a stream.

    Raises:
        ArgumentError: rows of an end overlap.
        DriverError: a pitch is over the device's MAX_PITCH.
    """
    rows = CUDA_MEMCPY2D()
    set_copy(rows, dst, src, width_bytes, height)
    if width_bytes and height:
        with context.current():
            context.driver.cuMemcpy2DAsync_v2(byref(rows), stream.handle)


def check_fill(ptr: int, value: int, itemsize: int) -> str:
    """Return the stem of the driver function that fills with items of a size.

    Raises:
        ArgumentError: the item is of another size, misaligned, or too small for the value.
    """
    name = _FILLS.get(itemsize)
    if name is None or ptr % itemsize or not 0 <= value < 1 << 8 * itemsize:
        raise ArgumentError(
            f"a fill of {ptr:#x} with {value} of {itemsize} bytes; allowed are items of 1, 2 or 4 "
            "bytes, an address that is a multiple of them, and a value that fits unsigned"
        )
    return name


def fill(context: Context, ptr: int, value: int, count: int, itemsize: int = 1) -> None:
    """Set `count` items at a device address to one value.

    Args:
        context: of the device.
        ptr: device address, a multiple of `itemsize`.
        value: the bits of an item, as an unsigned number.
        count: how many items.
        itemsize: bytes of an item: 1, 2 or 4.

    Raises:
        ArgumentError: the item is of another size, misaligned, or too small for the value.
    """
    name = check_fill(ptr, value, itemsize)
    if count:
        with context.current():
            getattr(context.driver, f"{name}_v2")(ptr, value, count)


def fill_async(
    context: Context, ptr: int, value: int, count: int, itemsize: int = 1, *, stream: Stream
) -> None:
    """Set `count` items at a device address to one value, in the order of a stream.

    Raises:
        ArgumentError: the item is of another size, misaligned, or too small for the value.
    """
    name = check_fill(ptr, value, itemsize)
    if count:
        with context.current():
            getattr(context.driver, f"{name}Async")(ptr, value, count, stream.handle)
