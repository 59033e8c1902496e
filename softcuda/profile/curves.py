"""Time over size, between and beyond the points that were measured."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from softcuda.graph.op import OPS, Kind

__all__ = ["Curve", "curve_of"]


class Curve(NamedTuple):
    """Points on log axes, and the slope beyond the last one.

    Attributes:
        sizes: log(size) of each point, ascending.
        times: log(time) of each point.
        slope: d log(time) / d log(size) beyond the last point.
    """

    sizes: tuple[float, ...]
    times: tuple[float, ...]
    slope: float

    def at(self, size: int) -> float:
        """Return the time at a size, in the unit of the points."""
        x = math.log(max(size, 1))
        place = bisect_right(self.sizes, x)
        if place == 0:
            return math.exp(self.times[0])
        slope, left = self.slope, place - 1
        if place < len(self.sizes):
            slope = _slope(self.sizes, self.times, place)
        return math.exp(min(self.times[left] + slope * (x - self.sizes[left]), 700.0))


def curve_of(op: str, points: Iterable[tuple[int, float]]) -> Curve:
    """Return the curve through points (size, time).

    Args:
        op: token of the op, which says how its arithmetic grows.
        points: sizes from 1, all different; times above 0.
    """
    ordered = sorted(points)
    sizes = tuple(math.log(size) for size, _ in ordered)
    times = tuple(math.log(time) for _, time in ordered)
    known = OPS.get(op)
    steepest = 3.0 if known is not None and known.kind is Kind.CONTRACTION else 1.0
    slope = steepest
    if len(sizes) > 1:
        slope = min(max(_slope(sizes, times, len(sizes) - 1), 0.0), steepest)
    return Curve(sizes, times, slope)


def _slope(sizes: tuple[float, ...], times: tuple[float, ...], right: int) -> float:
    return (times[right] - times[right - 1]) / (sizes[right] - sizes[right - 1])
