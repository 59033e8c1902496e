"""Measuring copies between the host and a device, each direction and kind of memory alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from softcuda.executor.on_demand import upload
from softcuda.tools.cells import Ledger
from softcuda.tools.device_bench import DeviceBench
from softcuda.tools.turns import Timed, take_turns

__all__ = ["COPIED", "measure_copies"]

Array = np.ndarray[Any, Any]

COPIED: Final = tuple(1 << power for power in (10, 13, 16, 18, 20, 22, 24, 26, 28))  # bytes
_ALLOWANCE_S: Final = 0.15


def measure_copies(
    device: DeviceBench, ledger: Ledger, clock: Callable[[], int] = time.perf_counter_ns
) -> None:
    """Write down what copies of several sizes take, as softcuda makes them; one wait a copy.

    Args:
        device: where to and from.
        ledger: is written to.
        clock: nanoseconds.
    """
    on = device.on
    largest = COPIED[-1]
    host = {"pageable": np.ones(largest, np.uint8), "pinned": on.pinned(largest)}
    host["pinned"][...] = 1
    there = upload(host["pageable"])

    def send(array: Array) -> None:
        on.upload(array, there.ptr)
        on.synchronize()

    for nbytes in COPIED:
        calls = {}
        for memory, array in host.items():
            part = array[:nbytes]
            calls[f"h2d {memory}"] = Timed(partial(send, part))
            calls[f"d2h {memory}"] = Timed(partial(on.download, there.ptr, part))
        for timed in calls.values():
            timed.run()
        for name, times in take_turns(calls, _ALLOWANCE_S, clock).items():
            direction, memory = name.split()
            ledger.copies.setdefault((direction, memory), {})[nbytes] = times
