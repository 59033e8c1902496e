"""Streams and events.

Source: CUDA Driver API, "Stream Management", "Event Management".
"""

from __future__ import annotations

from ctypes import byref, c_float, c_int, c_void_p
from typing import NamedTuple, Self

from softcuda.driver.context import Context
from softcuda.driver.enums import CUevent_flags, CUstream_flags
from softcuda.driver.library import Driver
from softcuda.driver.owner import Owner, Resource
from softcuda.driver.results import SUCCESS

__all__ = ["Event", "PriorityRange", "Stream", "priority_range"]


class PriorityRange(NamedTuple):
    """Numbers of the least and the greatest stream priority; a smaller number goes first."""

    least: int
    greatest: int


def priority_range(context: Context) -> PriorityRange:
    """Return the stream priorities that a device knows; (0, 0) where it knows none."""
    least, greatest = c_int(), c_int()
    with context.current():
        context.driver.cuCtxGetStreamPriorityRange(byref(least), byref(greatest))
    return PriorityRange(least.value, greatest.value)


def _destroy_stream(driver: Driver, handle: int) -> None:
    driver.cuStreamDestroy_v2(handle)


def _destroy_event(driver: Driver, handle: int) -> None:
    driver.cuEventDestroy_v2(handle)


def _leave(driver: Driver, handle: int) -> None:
    """Leave a borrowed handle to its owner."""


class Stream(Owner):
    """A queue of device work, done in order.

    Attributes:
        is_borrowed: whether another library owns the handle.
        pointer: the handle as a prepared ctypes argument.
    """

    __slots__ = ("is_borrowed", "pointer")

    def __init__(self, context: Context, *, priority: int = 0) -> None:
        """Make a stream that does not wait for the legacy default stream.

        Args:
            context: where.
            priority: a smaller number goes first; out of `priority_range` it is clamped.
        """
        handle = c_void_p()
        primary = context.primary
        with primary.current():
            context.driver.cuStreamCreateWithPriority(
                byref(handle), int(CUstream_flags.NON_BLOCKING), priority
            )
        what = f"a stream of device {context.device.ordinal}"
        super().__init__(context, Resource(primary, handle.value or 0, _destroy_stream, what))
        self.is_borrowed = False
        self.pointer = handle

    @classmethod
    def borrowed(cls, context: Context, handle: int) -> Self:
        """Return a stream that another library owns, which must outlive the returned object.

        Args:
            context: the context that the stream belongs to.
            handle: a CUstream; 0 or 1 is the legacy default stream, 2 the thread's own.
        """
        stream = cls.__new__(cls)
        Owner.__init__(stream, context, Resource(context.primary, handle, _leave, "a stream"))
        stream.is_borrowed = True
        stream.pointer = c_void_p(handle)
        return stream

    @property
    def priority(self) -> int:
        """The priority that the driver gave the stream."""
        value = c_int()
        with self.context.current():
            self.context.driver.cuStreamGetPriority(self.handle, byref(value))
        return value.value

    @property
    def is_capturing(self) -> bool:
        """Whether work given to the stream is being recorded into a driver graph."""
        status = c_int()
        with self.context.current():
            self.context.driver.cuStreamIsCapturing(self.handle, byref(status))
        return status.value != 0

    def synchronize(self) -> None:
        """Wait until the stream has done all it was given.

        Raises:
            DeviceLost: a fault showed; names the first step that may have caused it.
        """
        handle = self.handle
        with self.context.current():
            self.context.driver.cuStreamSynchronize(handle)
        self.context.state.settle(handle)

    def is_done(self) -> bool:
        """Return whether the stream has done all it was given, without waiting."""
        handle = self.handle
        with self.context.current():
            done = self.context.driver.cuStreamQuery(handle) == SUCCESS
        if done:
            self.context.state.settle(handle)
        return done

    def wait(self, event: Event) -> None:
        """Make later work of this stream wait for what an event recorded; returns at once."""
        with self.context.current():
            self.context.driver.cuStreamWaitEvent(self.handle, event.handle, 0)

    def record(self, event: Event) -> Event:
        """Return `event`, which from now on stands for all that the stream was given so far."""
        with self.context.current():
            self.context.driver.cuEventRecord(event.handle, self.handle)
        return event


class Event(Owner):
    """A point in a stream, to wait for or to measure from."""

    __slots__ = ()

    def __init__(self, context: Context, *, timing: bool = False, blocking: bool = False) -> None:
        """Make an event.

        Args:
            context: where.
            timing: whether it takes the time; one that does not is cheaper.
            blocking: whether `synchronize` sleeps instead of spinning.
        """
        flags = CUevent_flags.DEFAULT if timing else CUevent_flags.DISABLE_TIMING
        if blocking:
            flags |= CUevent_flags.BLOCKING_SYNC
        handle = c_void_p()
        primary = context.primary
        with primary.current():
            context.driver.cuEventCreate(byref(handle), int(flags))
        what = f"an event of device {context.device.ordinal}"
        super().__init__(context, Resource(primary, handle.value or 0, _destroy_event, what))

    def synchronize(self) -> None:
        """Wait until the work before the event is done; at once where nothing was recorded.

        Raises:
            DeviceLost: a fault showed; names the first step that may have caused it.
        """
        with self.context.current():
            self.context.driver.cuEventSynchronize(self.handle)

    def is_done(self) -> bool:
        """Return whether the work before the event is done, without waiting."""
        with self.context.current():
            return self.context.driver.cuEventQuery(self.handle) == SUCCESS

    def elapsed_ms(self, start: Event) -> float:
        """Return the time from `start` to this event [milliseconds].

        Both take the time (`timing=True`) and are done; the resolution is about 0.5 us.

        Raises:
            DriverError: an event takes no time, was not recorded, or is not done yet.
        """
        elapsed = c_float()
        with self.context.current():
            self.context.driver.cuEventElapsedTime(byref(elapsed), start.handle, self.handle)
        return elapsed.value
