"""Times where none was taken, modelled as latency + work / rate; work is size^growth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from softcuda.tools.cells import Ledger, Scope, largest_size
from softcuda.tools.choose import Point
from softcuda.tools.costs import best_times

__all__ = ["Paces", "beyond", "paces_of"]

_SETTLED: Final = 2.0  # no size is looked at beyond one where the GPU is so far ahead

Paces = Mapping[tuple[str, str, int], float]


def paces_of(ledger: Ledger, scopes: Iterable[Scope]) -> Paces:
    """Return (device type, dtype, growth) -> microseconds a unit of work, as the median op has it.

    Of each op that is what its largest size takes beyond its smallest.
    """
    found: dict[tuple[str, str, int], list[float]] = {}
    for scope in scopes:
        for device, times in best_times(ledger, scope.op, scope.dtype).items():
            first, last = min(times), max(times)
            if first < last:
                work = last**scope.growth - first**scope.growth
                pace = max(times[last] - times[first], 0.0) / work
                found.setdefault((device, scope.dtype, scope.growth), []).append(pace)
    return {key: median(each) for key, each in found.items()}


class _Line(NamedTuple):
    """The last size of a backend, its time there, and what a unit of work more takes."""

    size: int
    time_us: float
    pace_us: float
    growth: int

    def at(self, size: int) -> float:
        return self.time_us + self.pace_us * float(size**self.growth - self.size**self.growth)


def beyond(
    points: Sequence[Point], scope: Scope, devices: Mapping[str, str], paces: Paces
) -> list[Point]:
    """Return points beyond the last size, at powers of two, whose times are modelled.

    Each backend that was measured at the last size goes on along the line through its last two; one
    of a single size along the pace of its device. They end where the GPU is twice as fast. There is
    none unless both devices were measured at the last size and have a pace.

    Args:
        points: what was measured, sizes ascending; at least one.
        scope: their op and dtype.
        devices: backend -> device type.
        paces: of devices.
    """
    last = points[-1]
    lines: dict[str, _Line] = {}
    for name, time_us in last.times.items():
        pace = _pace(points, name, scope.growth)
        if pace is None:
            pace = paces.get((devices[name], scope.dtype, scope.growth))
        if pace is not None:
            lines[name] = _Line(last.size, time_us, pace, scope.growth)
    if {devices[name] for name in lines} < {"cpu", "cuda"}:
        return []
    found: list[Point] = []
    size, times = last.size, last.times
    while not _is_settled(times, devices) and 2 * size <= largest_size(scope.op, "cuda"):
        size = 1 << size.bit_length()
        times = {name: line.at(size) for name, line in lines.items()}
        handicaps = {name: last.handicaps.get(name, 0.0) for name in times}
        found.append(Point(size, times, handicaps=handicaps, modelled=True))
    return found


def _is_settled(times: Mapping[str, float], devices: Mapping[str, str]) -> bool:
    best = {
        device: min(t for name, t in times.items() if devices[name] == device)
        for device in ("cpu", "cuda")
    }
    return best["cpu"] > _SETTLED * best["cuda"]


def _pace(points: Sequence[Point], name: str, growth: int) -> float | None:
    """Return what a unit of work takes between the last two sizes of a backend."""
    known = [(p.size, p.times[name]) for p in points if name in p.times][-2:]
    if len(known) < 2:
        return None
    (smaller, before), (size, time_us) = known
    return max(time_us - before, 0.0) / float(math.pow(size, growth) - math.pow(smaller, growth))
