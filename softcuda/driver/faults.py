"""What is known of a device in this process: the work it was given, and its first fault.

Source: CUDA Driver API, "Data types used by CUDA driver", CUresult: after a fault inside a kernel
the context is in an inconsistent state and every further call returns the same error.
"""

from __future__ import annotations

from softcuda.driver.results import result_of
from softcuda.errors import DeviceLost

__all__ = ["DeviceState"]


class DeviceState:
    """One device: its primary context, the steps it may still be busy with, its first fault.

    Attributes:
        ordinal: the device.
        context: handle of its primary context; 0 until it is retained.
        pending: for each stream handle, the first step submitted since the stream was last known
            to be done, oldest first.
        fault: what destroyed the context, in words; None while it works.
        code: the CUresult of that.
        suspect: the first step that may have caused it; None where nothing was submitted.
        is_forked: whether this process was forked from the one that used it, and cannot.
    """

    __slots__ = ("code", "context", "fault", "is_forked", "ordinal", "pending", "suspect")

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.context = 0
        self.pending: dict[int, str] = {}
        self.fault: str | None = None
        self.code = 0
        self.suspect: str | None = None
        self.is_forked = False

    def __repr__(self) -> str:
        return f"DeviceState({self.ordinal}, {'lost' if self.fault else 'working'})"

    def submit(self, stream: int, step: str) -> None:
        """Note a step that a stream was given."""
        self.pending.setdefault(stream, step)

    def settle(self, stream: int | None = None) -> None:
        """Note that a stream, or with None the whole device, did all it was given."""
        if stream is None:
            self.pending.clear()
        else:
            self.pending.pop(stream, None)

    def lose(self, fault: str, code: int) -> None:
        """Note the fault that destroyed the context; the first one stands."""
        if self.fault is None:
            self.suspect = next(iter(self.pending.values()), None)
            self.code = code
            self.fault = fault

    def error(self) -> DeviceLost:
        """Return the error that every use of the lost device raises."""
        if self.suspect is None:
            cause = "no step was waiting to be done"
        else:
            cause = (
                f"the first step that may have caused it is {self.suspect}; reported here, may "
                "come from an earlier launch; set SOFTCUDA_SYNC=1 to find it"
            )
        return DeviceLost(
            f"{self.fault}; device {self.ordinal} is lost; {cause}; CPU work goes on, start "
            "another process to use the device again",
            self.code,
            result_of(self.code).name,
        )
