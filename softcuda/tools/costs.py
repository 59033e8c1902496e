"""From medians to [costs] and [transfer]: few points that say what all of them said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from softcuda.profile.model import CostPoint, Transfer
from softcuda.profile.vocabulary import DEVICE_TYPES, DIRECTIONS
from softcuda.tools.cells import Ledger, Scope, State
from softcuda.tools.spread import quantile_of

__all__ = ["best_times", "cost_points", "fitted", "transfers"]

_NEAR: Final = math.log(1.15)  # what a point may be off the line between its neighbours

Points = Sequence[tuple[float, float]]


def best_times(ledger: Ledger, op: str, dtype: str) -> dict[str, dict[int, float]]:
    """Return device type -> size -> the least time with the data there [microseconds]."""
    found: dict[str, dict[int, float]] = {}
    for size, outcomes in ledger.at(op, dtype):
        for outcome in outcomes.values():
            if outcome.state is State.MEASURED:
                times = found.setdefault(outcome.device, {})
                times[size] = min(outcome.microseconds, times.get(size, math.inf))
    return found


def cost_points(ledger: Ledger, scopes: Sequence[Scope]) -> list[CostPoint]:
    """Return the lines of [costs]: of each op and dtype the sizes that lines do not give.

    Between the points that are left the others lie within 15 % of a line on log axes.
    """
    made = []
    for scope in scopes:
        times = best_times(ledger, scope.op, scope.dtype)
        needed: set[int] = set()
        for of_device in times.values():
            points = [(math.log(s), math.log(t)) for s, t in sorted(of_device.items())]
            needed |= {sorted(of_device)[place] for place in _corners(points)}
        for size in sorted(needed):
            here = [(d, _short(times[d][size])) for d in DEVICE_TYPES if size in times.get(d, {})]
            made.append(CostPoint(scope.op, scope.dtype, size, tuple(here)))
    return made


def _corners(points: Points) -> list[int]:
    """Return the places of points that lines through them need.

    Source:
        Ramer, "An iterative procedure for the polygonal approximation of plane curves", 1972;
        Douglas and Peucker, 1973.
    """
    kept = {0, len(points) - 1}
    spans = [(0, len(points) - 1)]
    while spans:
        first, last = spans.pop()
        worst, place = 0.0, 0
        for k in range(first + 1, last):
            share = (points[k][0] - points[first][0]) / (points[last][0] - points[first][0])
            line = points[first][1] + share * (points[last][1] - points[first][1])
            if abs(points[k][1] - line) > worst:
                worst, place = abs(points[k][1] - line), k
        if worst > _NEAR:
            kept.add(place)
            spans += [(first, place), (place, last)]
    return sorted(kept)


def transfers(ledger: Ledger, memory: str = "pageable") -> list[Transfer]:
    """Return the lines of [transfer] of the copies from and to memory of a kind."""
    return [
        Transfer(direction, *fitted(times), _copied(times))
        for direction in DIRECTIONS
        if len(times := ledger.copies.get((direction, memory), {})) > 1
    ]


def _copied(times: Mapping[int, Sequence[float]]) -> tuple[tuple[int, float], ...]:
    """Return the points (bytes, microseconds) of copies that lines on log axes need."""
    medians = {size: quantile_of(times[size], 0.5) for size in sorted(times)}
    points = [(math.log(size), math.log(time)) for size, time in medians.items()]
    sizes = list(medians)
    return tuple((sizes[k], _short(medians[sizes[k]])) for k in _corners(points))


def fitted(times: Mapping[int, Sequence[float]]) -> tuple[float, float]:
    """Return latency [microseconds] and rate [GB/s] of copies.

    time = latency + bytes / rate, by least squares of the relative error.

    Args:
        times: bytes -> times [microseconds]; at least two different sizes.
    """
    nbytes = np.array(sorted(times), np.float64)
    medians = np.array([quantile_of(times[int(n)], 0.5) for n in nbytes])
    system = np.stack((1 / medians, nbytes / medians), axis=1)
    latency, slope = np.linalg.lstsq(system, np.ones(len(medians)), rcond=None)[0]
    if slope <= 0:  # noise: what the largest says alone
        slope = medians[-1] / nbytes[-1]
    return _short(max(float(latency), 0.1)), _short(1e-3 / float(slope))


def _short(value: float) -> float:
    return float(f"{value:.3g}")
