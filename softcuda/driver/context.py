"""The primary context of a device, which every CUDA library of the process shares.

No other context is ever made. A call makes the primary context current only for its own duration,
and only where another one is current: the context current before a call is current after it.
Source: CUDA Driver API, "Primary Context Management", "Context Management".
"""

from __future__ import annotations

import os
import warnings
import weakref
from contextlib import AbstractContextManager, nullcontext
from ctypes import byref, c_size_t, c_void_p
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from softcuda.driver.device import Device
from softcuda.driver.faults import DeviceState
from softcuda.driver.library import Driver
from softcuda.driver.results import DEINITIALIZED
from softcuda.errors import (
    ClosedError,
    DeviceLost,
    DriverError,
    ForkedProcessError,
    SoftCudaError,
    SoftCudaWarning,
)
from softcuda.interrupts import Uninterrupted
from softcuda.knobs import synchronous_launches

__all__ = ["Context", "CurrentContext", "MemoryInfo", "PrimaryContext", "warn_unreleased"]

_NOTHING: Final = nullcontext()


class MemoryInfo(NamedTuple):
    """Memory of a device [bytes]: free for this process, and all there is."""

    free_bytes: int
    total_bytes: int


class _Pushed:
    """Makes a context current for a while, and the one before it after that."""

    __slots__ = ("_driver", "_pop", "_push")

    def __init__(self, driver: Driver, handle: int) -> None:
        self._driver = driver
        self._push = partial(driver.unchecked("cuCtxPushCurrent_v2"), c_void_p(handle))
        popped = c_void_p()  # never read, so that all threads may write it
        self._pop = partial(driver.unchecked("cuCtxPopCurrent_v2"), byref(popped))

    def __enter__(self) -> None:
        code = self._push()
        if code:
            raise self._driver.failure("cuCtxPushCurrent_v2", code)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        code = self._pop()
        if code:
            failure = self._driver.failure("cuCtxPopCurrent_v2", code)
            if error is None or not isinstance(failure, DriverError):
                raise failure


class PrimaryContext:
    """A reference to a device's primary context, given back when its last holder is gone.

    Whatever lives in the context holds it, so that nothing outlives it, in whatever order things
    are closed.

    Attributes:
        handle: the CUcontext.
        pid: the process that retained it.
    """

    __slots__ = ("__weakref__", "_pushed", "device", "driver", "handle", "pid", "state")

    def __init__(self, device: Device) -> None:
        """Retain the primary context of a device, making it if need be.

        Raises:
            DeviceLost: a fault destroyed it before.
            DriverError: it cannot be made, for want of memory for instance.
        """
        driver = device.driver
        state = driver.state(device.ordinal)
        if state.fault is not None:
            raise state.error()
        handle = c_void_p()
        driver.cuDevicePrimaryCtxRetain(byref(handle), device.handle)
        self.device = device
        self.driver: Driver = driver
        self.state: DeviceState = state
        self.handle: int = handle.value or 0
        self._pushed = _Pushed(driver, self.handle)
        self.pid = os.getpid()
        state.context = self.handle
        weakref.finalize(self, _give_back, device, state, self.pid).atexit = False

    def is_current(self) -> bool:
        """Return whether this context is current in the calling thread, and works.

        Raises:
            ForkedProcessError: this process was forked from the one that retained it.
        """
        driver = self.driver
        place = driver.current.place
        driver.cuCtxGetCurrent(place.address)
        return place.context.value == self.handle and self.state.fault is None

    def current(self) -> AbstractContextManager[object]:
        """Return a guard inside which this context is current.

        Raises:
            DeviceLost: a fault destroyed the context.
            ForkedProcessError: this process was forked from the one that retained it.
        """
        return _NOTHING if self.is_current() else self.pushed()

    def pushed(self) -> AbstractContextManager[object]:
        """Return a guard inside which this context is current, for where it is not.

        Raises:
            DeviceLost: a fault destroyed the context.
        """
        if self.state.fault is not None:
            raise self.state.error()
        return self._pushed

    def is_silent(self) -> bool:
        """Return whether nothing can be released any more: device lost, or a forked child."""
        return self.state.fault is not None or self.pid != os.getpid()


class CurrentContext:
    """Tells whether a primary context is current, as `PrimaryContext.is_current`, in less time.

    The answer is written to one place: whoever asks holds a lock that no other thread has.
    """

    __slots__ = ("_ask", "_handle", "_place", "_primary", "_state")

    def __init__(self, primary: PrimaryContext) -> None:
        """Prepare the question."""
        self._primary = primary
        self._handle = primary.handle
        self._state = primary.state
        self._place = c_void_p()
        self._ask = partial(primary.driver.unchecked("cuCtxGetCurrent"), byref(self._place))

    def is_here(self) -> bool:
        """Return whether the context is current in the calling thread, and works.

        Raises:
            ForkedProcessError: this process was forked from the one that retained it.
        """
        state = self._state
        if state.is_forked:
            self._primary.driver.initialize()  # which raises
        code = self._ask()
        if code:
            raise self._primary.driver.failure("cuCtxGetCurrent", code)
        return self._place.value == self._handle and state.fault is None

    def pushed(self) -> AbstractContextManager[object]:
        """Return a guard inside which the context is current, as `PrimaryContext.pushed`."""
        return self._primary.pushed()


def _give_back(device: Device, state: DeviceState, pid: int) -> None:
    if state.fault is not None or pid != os.getpid():
        return
    with Uninterrupted(is_finalizer=True):
        try:
            device.driver.cuDevicePrimaryCtxRelease_v2(device.handle)
        except SoftCudaError as error:
            warn_unreleased(f"the primary context of device {device.ordinal}", error)


def warn_unreleased(what: str, error: SoftCudaError) -> None:
    """Warn that something could not be released, unless nothing can be any more."""
    if isinstance(error, (DeviceLost, ForkedProcessError)):
        return
    if isinstance(error, DriverError) and error.code == DEINITIALIZED:
        return
    warnings.warn(f"{what} was not released: {error}", SoftCudaWarning, stacklevel=2)


class Context:
    """The primary context of a device, retained until closed and no longer needed.

    Attributes:
        device: the device.
        driver: the driver.
        is_synchronous: whether every launch waits for the device (SOFTCUDA_SYNC=1).
    """

    __slots__ = ("__weakref__", "_primary", "device", "driver", "is_synchronous")

    def __init__(self, device: Device) -> None:
        """Retain the primary context of a device.

        Raises:
            DeviceLost: a fault destroyed it before.
            DriverError: it cannot be made, for want of memory for instance.
        """
        self.is_synchronous = synchronous_launches()
        self.device = device
        self.driver = device.driver
        self._primary: PrimaryContext | None = PrimaryContext(device)

    def __repr__(self) -> str:
        if self._primary is None:
            state = "closed"
        else:
            state = "lost" if self._primary.state.fault else "open"
        return f"Context(device {self.device.ordinal}, {state})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._primary is None

    @property
    def primary(self) -> PrimaryContext:
        """The reference to the primary context; raises ClosedError after close().

        Whatever lives in the context holds it.
        """
        if self._primary is None:
            raise ClosedError(f"{self!r} was used after close(); make another Context")
        return self._primary

    @property
    def state(self) -> DeviceState:
        """What is known of the device: work it was given, its first fault."""
        return self.primary.state

    def close(self) -> None:
        """Let go of the context; it is given back once nothing that lives in it is left."""
        self._primary = None

    def current(self) -> AbstractContextManager[object]:
        """Return a guard inside which this context is current.

        Example: `with context.current(): driver.cuCtxSynchronize()`.

        Raises:
            ClosedError: the context is closed.
            DeviceLost: a fault destroyed the context.
            ForkedProcessError: this process was forked from the one that retained it.
        """
        primary = self._primary
        if primary is None:
            raise ClosedError(f"{self!r} was used after close(); make another Context")
        return primary.current()

    def synchronize(self) -> None:
        """Wait until the device has done all it was given.

        Raises:
            DeviceLost: a fault showed; names the first step that may have caused it.
        """
        with self.current():
            self.driver.cuCtxSynchronize()
        self.state.settle()

    def memory_info(self) -> MemoryInfo:
        """Return the free and the total memory of the device [bytes]."""
        free, total = c_size_t(), c_size_t()
        with self.current():
            self.driver.cuMemGetInfo_v2(byref(free), byref(total))
        return MemoryInfo(free.value, total.value)
