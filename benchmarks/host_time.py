"""Host time of calls that give work to a device: the call alone, the wait for it not counted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.timing import Samples

__all__ = ["CALLS", "host_loop", "rounds"]

ROUNDS, CALLS = 21, 60

Loop = Callable[[], float]


def rounds(loops: Mapping[str, Loop], calls: int) -> dict[str, Samples]:
    """Return the samples of loops that take turns in rotating order, warmed up.

    Args:
        loops: each gives the time of a call [seconds].
        calls: how many calls a sample stands for.
    """
    taken = {name: Samples(calls) for name in loops}
    order = list(loops)
    for loop in loops.values():
        loop()
    for done in range(ROUNDS):
        shift = done % len(order)
        for name in order[shift:] + order[:shift]:
            taken[name].seconds.append(loops[name]())
    return taken


def host_loop(
    call: Callable[[int], Any], wait: Callable[[], object], *, holds: bool = False
) -> Loop:
    """Return what gives the median time of a call alone [seconds]; the wait is not counted.

    Args:
        call: number of the call -> result.
        wait: waits for the device.
        holds: whether a result is kept until the next call is done, which then writes others.
    """

    def loop() -> float:
        found = []
        held = None
        for number in range(CALLS):
            begin = time.perf_counter()
            out = call(number)
            found.append(time.perf_counter() - begin)
            wait()
            held = out if holds else None
            out = None
        del held
        return statistics.median(found)

    return loop
