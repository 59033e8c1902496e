"""Devices: what the executor holds of each CUDA device of the process."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

import numpy as np

from softcuda.backends.reports import STATUS_WORDS, reported
from softcuda.driver.context import Context
from softcuda.driver.copies import CopyEnd, copy_2d_async, copy_on_device_async
from softcuda.driver.device import Device, available, driver_version
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.driver.stream import Stream
from softcuda.errors import DeviceOutOfMemory, ForkedProcessError, NoDeviceError, SoftCudaError
from softcuda.executor.ledger import Ledger
from softcuda.executor.outputs import Slot
from softcuda.executor.rows import halves, is_loose, rows_of, span_bytes
from softcuda.executor.staging import Staging
from softcuda.forks import renew_in_child
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.loader import Loader
from softcuda.pool.buffers import aligned_empty
from softcuda.pool.device import DeviceArray
from softcuda.profile.model import DeviceFacts
from softcuda.target import Target, arch_of

__all__ = ["DeviceSession", "cuda_facts", "cuda_target", "session", "usable_session"]

Array = np.ndarray[Any, Any]

_PART_BYTES: Final = 16 << 20  # of the host, in which a strided array is fetched part by part


class DeviceSession:
    """One device: its context, one stream in which all work is ordered, arenas, staging, kernels.

    Attributes:
        context: the primary context.
        stream: all work of the executor goes through it.
        ledger: allocates the device's memory.
        arenas: memory for intermediates.
        loader: the kernels.
        status: address of the words in which kernels report errors.
        staging: the pinned buffers; who uses them holds the lock.
        lock: of the staging, and of a launch that reads a pinned slot.
    """

    def __init__(self, ordinal: int = 0) -> None:
        device = Device(ordinal)
        self.ordinal = ordinal
        self.context = Context(device)
        self.stream = Stream(self.context)
        self.loader = Loader(self.context)
        self.ledger = Ledger(self.context)
        self.arenas = self.ledger.arenas
        self.staging = Staging(self.context, self.stream)
        self.lock = threading.RLock()
        self._status = PinnedMemory(self.context, 8 * STATUS_WORDS)
        self._status_words = self._status.array().view(np.int64)
        self._status_words[...] = 0
        self.status = self._status.ptr
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child, where the driver refuses every call."""
        self.lock = threading.RLock()

    def upload(self, array: Array, dst: int) -> None:
        """Copy a host array to an address of the device, in the order of the stream."""
        with self.lock:
            self.staging.upload(array, dst)

    def download(self, src: int, array: Array) -> None:
        """Copy from the device into a contiguous host array; returns when it is there.

        Raises:
            DeviceLost: the device failed.
            IndexOutOfRange, IntegerPowerError: a kernel met a bad value.
        """
        with self.lock:
            self.staging.download(src, array)
            self._check_status()

    def fetch(self, array: DeviceArray) -> Array:
        """Return the values of a device array on the host; waits for the device."""
        host = aligned_empty(array.shape, array.dtype)
        if array.is_contiguous:
            self.download(array.ptr, host)
        else:
            self._fetch_strided(array, host)
        return host

    def _fetch_strided(self, array: DeviceArray, host: Array) -> None:
        """Fetch a strided array: by what it spans where that is little, as rows, or in parts."""
        low, span = span_bytes(array)
        if span <= _PART_BYTES or not is_loose(array):
            raw = aligned_empty((span,), np.dtype(np.uint8))
            self.download(array.ptr + low, raw)
            np.copyto(host, np.ndarray(array.shape, array.dtype, raw, -low, array.strides))
            return
        packed = self.packed(array)
        if packed is not None:
            dense = host if host.flags.c_contiguous else aligned_empty(host.shape, host.dtype)
            self.download(packed.ptr, dense)
            if dense is not host:
                np.copyto(host, dense)
            return
        axis, half = halves(array)
        before = (slice(None),) * axis
        for ptr, part in (
            (array.ptr, host[(*before, slice(half))]),
            (array.ptr + half * array.strides[axis], host[(*before, slice(half, None))]),
        ):
            window = DeviceArray(
                ptr, part.shape, array.strides, array.dtype, self.ordinal, array, self.fetch
            )
            self._fetch_strided(window, part)

    def packed(self, array: DeviceArray) -> DeviceMemory | None:
        """Return the elements of an array, dense in memory of their own, in the stream's order.

        None where the array is not rows at equal distances, or there is no memory for it.
        """
        rows = rows_of(array)
        if rows is None:
            return None
        try:
            memory = self.ledger.memory(array.nbytes)
        except DeviceOutOfMemory:
            return None
        source = CopyEnd(array.ptr, pitch_bytes=rows.pitch_bytes)
        copy_2d_async(
            self.context,
            CopyEnd(memory.ptr),
            source,
            rows.width_bytes,
            rows.height,
            stream=self.stream,
        )
        return memory

    def copy(self, src: int, dst: int, nbytes: int) -> None:
        """Copy on the device, in the order of the stream."""
        copy_on_device_async(self.context, dst, src, nbytes, stream=self.stream)

    def synchronize(self) -> None:
        """Wait for everything the device was given.

        Raises:
            DeviceLost: the device failed.
            IndexOutOfRange, IntegerPowerError: a kernel met a bad value.
        """
        self.stream.synchronize()
        self._check_status()

    def _check_status(self) -> None:
        if self._status_words[0]:
            error = reported(self._status_words)
            self._status_words[...] = 0
            raise error

    def pinned(self, nbytes: int) -> Array:
        """Return pinned memory of the host as bytes; copies of it take no detour."""
        return PinnedMemory(self.context, nbytes).array()

    def slot(self, dims: Dims, dtype: np.dtype[Any]) -> Slot:
        """Return a fresh output buffer on the device."""
        memory = self.ledger.memory(numel(dims) * dtype.itemsize, is_output=True)
        array = self.array(memory.ptr, dims, dtype, memory)
        return Slot(memory, array, memory.nbytes)

    def array(self, ptr: int, dims: Dims, dtype: np.dtype[Any], owner: object) -> DeviceArray:
        """Return a dense array at an address."""
        strides = tuple(s * dtype.itemsize for s in contiguous_strides(dims))
        return DeviceArray(ptr, dims, strides, dtype, self.ordinal, owner, self.fetch)


class _Sessions:
    """The sessions of the process, one a device, made on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_ordinal: dict[int, DeviceSession] = {}
        self._pid = 0
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.Lock()

    def get(self, ordinal: int) -> DeviceSession:
        known = self._by_ordinal.get(ordinal)
        if known is not None and self._pid == os.getpid():
            return known
        with self._lock:
            if known is not None:
                raise ForkedProcessError(
                    "CUDA was used before this process was forked and cannot be used in the child; "
                    "start processes with spawn: multiprocessing.get_context('spawn')"
                )
            self._pid = os.getpid()
            return self._by_ordinal.setdefault(ordinal, DeviceSession(ordinal))


_SESSIONS: Final = _Sessions()


def session(ordinal: int = 0) -> DeviceSession:
    """Return the session of a device, made on first use.

    Raises:
        DriverNotFound, NoDeviceError: there is no driver, or no such device.
        ForkedProcessError: CUDA was used before this process was forked.
    """
    return _SESSIONS.get(ordinal)


def usable_session(what: str, instead: str) -> DeviceSession:
    """Return the session of device 0, for a call that a user made.

    Args:
        what: the call, first word of the error.
        instead: what to do where there is none.

    Raises:
        DriverNotFound, NoDeviceError: there is no driver, or no device.
        ForkedProcessError: CUDA was used before this process was forked.
    """
    try:
        return session()
    except NoDeviceError as error:
        raise type(error)(f"{what}: no CUDA device can be used here: {error}; {instead}") from error


def cuda_facts(ordinal: int = 0) -> DeviceFacts:
    """Return the facts of a device that profiles are told apart by.

    Raises:
        NoDeviceError: there is no such device.
    """
    device = Device(ordinal)
    return DeviceFacts(
        "cuda",
        name=device.name,
        compute_capability="{}.{}".format(*device.capability),
        vram_mb=str(device.total_bytes >> 20),
        driver=driver_version(device.driver),
    )


def cuda_target(ordinal: int = 0) -> Target | str:
    """Return the device as a compile target, or the reason why it cannot be used."""
    usable = available()
    if not usable:
        return usable.reason
    try:
        device = Device(ordinal)
        major, minor = device.capability
    except SoftCudaError as error:
        return str(error)
    return Target(
        "cuda",
        arch_of(major, minor),
        device.multiprocessors,
        device.smem_bytes >> 10,
        device.l2_bytes >> 20,
    )
