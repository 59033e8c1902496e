"""Memory of a device and pinned memory of the host, owned.

Source: CUDA Driver API, "Memory Management", "Stream Ordered Memory Allocator".
"""

from __future__ import annotations

from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.driver.context import Context, PrimaryContext
from softcuda.driver.enums import CUmemorytype, CUpointer_attribute
from softcuda.driver.library import DRIVER, Driver
from softcuda.driver.owner import Owner, Resource
from softcuda.driver.results import INVALID_VALUE
from softcuda.driver.stream import Stream
from softcuda.errors import ArgumentError, DeviceOutOfMemory, DriverError, SoftCudaError
from softcuda.sizes import bytes_text

__all__ = [
    "Allocation",
    "DeviceMemory",
    "PinnedMemory",
    "PointerInfo",
    "allocation_of",
    "pointer_info",
]


def _check_size(what: str, nbytes: int) -> None:
    if nbytes < 0:
        raise ArgumentError(f"{what} of {nbytes} bytes; allowed is at least 0")


def _free(driver: Driver, ptr: int) -> None:
    driver.cuMemFree_v2(ptr)


def _free_host(driver: Driver, ptr: int) -> None:
    driver.cuMemFreeHost(ptr)


def _nothing(driver: Driver, ptr: int) -> None:
    """Free a block of no bytes."""


class _StreamFree:
    """Frees memory in the order of a stream while the stream is open, else at once."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __call__(self, driver: Driver, ptr: int) -> None:
        if self._stream.is_closed:
            driver.cuMemFree_v2(ptr)
        else:
            driver.cuMemFreeAsync(ptr, self._stream.handle)


def _explain(context: Context, error: DeviceOutOfMemory, nbytes: int) -> DeviceOutOfMemory:
    """Return the error with what was asked and what is free."""
    place = f"asked {bytes_text(nbytes)} on device {context.device.ordinal}"
    try:
        free = f", {bytes_text(context.memory_info().free_bytes)} free"
    except SoftCudaError:
        free = ""
    return DeviceOutOfMemory(f"{error}; {place}{free}", error.code, error.name)


class DeviceMemory(Owner):
    """A block of device memory, at least 256-byte aligned.

    Attributes:
        nbytes: its size [bytes].
    """

    __slots__ = ("nbytes",)

    def __init__(self, context: Context, nbytes: int, *, stream: Stream | None = None) -> None:
        """Allocate memory, uninitialised.

        Args:
            context: where.
            nbytes: size [bytes]; 0 allocates nothing and has address 0.
            stream: allocate and free in the order of this stream; None: at once, which waits
                for the device when the memory is freed.

        Raises:
            DeviceOutOfMemory: the device has not that much; says what was asked and is free.
            ArgumentError: `nbytes` is negative.
        """
        _check_size("DeviceMemory", nbytes)
        primary, driver = context.primary, context.driver
        ptr = c_uint64()
        release = _nothing if nbytes == 0 else _free if stream is None else _StreamFree(stream)
        if nbytes:
            try:
                with primary.current():
                    if stream is None:
                        driver.cuMemAlloc_v2(byref(ptr), nbytes)
                    else:
                        driver.cuMemAllocAsync(byref(ptr), nbytes, stream.handle)
            except DeviceOutOfMemory as error:
                raise _explain(context, error, nbytes) from None
        what = f"{bytes_text(nbytes)} of device {context.device.ordinal} at {ptr.value:#x}"
        super().__init__(context, Resource(primary, ptr.value, release, what))
        self.nbytes = nbytes

    @property
    def ptr(self) -> int:
        """The device address; 0 for no bytes."""
        return self.handle

    def _about(self) -> str:
        return f"{self.nbytes} bytes at {super()._about()}"


class _PinnedBlock(Resource):
    """Pinned memory as NumPy sees it; every array made of it holds it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, primary: PrimaryContext, ptr: int, nbytes: int, what: str) -> None:
        super().__init__(primary, ptr, _free_host if nbytes else _nothing, what)
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (ptr, False),
        }


class PinnedMemory(Owner):
    """A block of page-locked host memory, which copies and kernels of every device can use.

    Attributes:
        nbytes: its size [bytes].
    """

    __slots__ = ("nbytes",)

    PORTABLE: Final = 1  # CU_MEMHOSTALLOC_PORTABLE: pinned for every context
    WRITE_COMBINED: Final = 4  # CU_MEMHOSTALLOC_WRITECOMBINED: fast to send, slow to read

    def __init__(self, context: Context, nbytes: int, *, write_combined: bool = False) -> None:
        """Allocate pinned memory, uninitialised.

        Args:
            context: the context that pins it; contexts of other devices may use it too.
            nbytes: size [bytes]; 0 allocates nothing.
            write_combined: for memory that the host only writes; reading it is slow.

        Raises:
            DeviceOutOfMemory: the host cannot pin that much.
            ArgumentError: `nbytes` is negative.
        """
        _check_size("PinnedMemory", nbytes)
        primary, driver = context.primary, context.driver
        ptr = c_void_p()
        flags = self.PORTABLE | (self.WRITE_COMBINED if write_combined else 0)
        if nbytes:
            try:
                with primary.current():
                    driver.cuMemHostAlloc(byref(ptr), nbytes, flags)
            except DeviceOutOfMemory as error:
                text = f"{error}; asked {bytes_text(nbytes)} of pinned host memory"
                raise DeviceOutOfMemory(text, error.code, error.name) from None
        address = ptr.value or 0
        what = f"{bytes_text(nbytes)} of pinned host memory at {address:#x}"
        super().__init__(context, _PinnedBlock(primary, address, nbytes, what))
        self.nbytes = nbytes

    @property
    def ptr(self) -> int:
        """The address, the same for host and devices; 0 for no bytes."""
        return self.handle

    def array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the memory as an array, which keeps it alive even after close().

        Returns:
            [nbytes], uint8, writable, without a copy.
        """
        if self.nbytes == 0:
            return np.empty(0, np.uint8)
        return np.asarray(self.resource)

    def _about(self) -> str:
        return f"{self.nbytes} bytes at {super()._about()}"


class PointerInfo(NamedTuple):
    """What the driver knows of an address: whether a device holds it, and which."""

    is_device: bool
    ordinal: int


class Allocation(NamedTuple):
    """An allocation of the driver: its first address and its bytes."""

    ptr: int
    nbytes: int


def allocation_of(ptr: int, driver: Driver = DRIVER) -> Allocation | None:
    """Return the allocation that an address lies in, or None where the driver tells of none.

    Of memory that is mapped piece by piece, as pools do, it tells the piece alone: None.

    Args:
        ptr: an address of device memory.
        driver: the driver to ask.
    """
    is_whole, start, nbytes = c_int(), c_uint64(), c_uint64()
    asked = (
        (is_whole, CUpointer_attribute.IS_LEGACY_CUDA_IPC_CAPABLE),
        (start, CUpointer_attribute.RANGE_START_ADDR),
        (nbytes, CUpointer_attribute.RANGE_SIZE),
    )
    try:
        for answer, attribute in asked:
            driver.cuPointerGetAttribute(byref(answer), int(attribute), ptr)
    except DriverError as error:
        if error.code != INVALID_VALUE:
            raise
        return None
    return Allocation(start.value, nbytes.value) if is_whole.value and nbytes.value else None


def pointer_info(ptr: int, driver: Driver = DRIVER) -> PointerInfo | None:
    """Return where an address of CUDA memory lies, or None where the driver does not know it.

    Args:
        ptr: an address, for instance of another library's tensor.
        driver: the driver to ask.
    """
    kind, ordinal = c_int(), c_int()
    try:
        driver.cuPointerGetAttribute(byref(kind), int(CUpointer_attribute.MEMORY_TYPE), ptr)
        driver.cuPointerGetAttribute(byref(ordinal), int(CUpointer_attribute.DEVICE_ORDINAL), ptr)
    except DriverError as error:
        if error.code != INVALID_VALUE:
            raise
        return None
    return PointerInfo(kind.value == CUmemorytype.DEVICE, ordinal.value)
