"""Times between two sizes: latency + work / rate, where work is size^growth."""

from __future__ import annotations

import math
from typing import Final

from softcuda.graph.op import OPS, Kind

__all__ = ["growth_of", "line_at", "met_at"]

_STEEPEST: Final = 3  # of a product, whose size is an extent


def growth_of(op: str) -> int:
    """Return the power of its size that the work of an op grows with at most.

    Example:
        >>> growth_of("add"), growth_of("matmul")
        (1, 3)
    """
    return _STEEPEST if OPS[op].kind is Kind.CONTRACTION else 1


def line_at(size: int, one: tuple[int, float], other: tuple[int, float], growth: int) -> float:
    """Return the time at a size on the line through two others, which no more work makes less.

    Args:
        size: where.
        one: a size and its time.
        other: a larger one.
        growth: of the work.

    Example:
        >>> line_at(400, (100, 2.0), (200, 3.0), 1), line_at(400, (100, 2.0), (200, 1.0), 1)
        (5.0, 1.0)
    """
    (smaller, before), (larger, time) = one, other
    start, end, there = (math.pow(each, growth) for each in (smaller, larger, size))
    return time + max(time - before, 0.0) * (there - end) / (end - start)


def met_at(low: int, high: int, behind: float, ahead: float, growth: int) -> float:
    """Return the size at which two such times are equal.

    Args:
        low: a size at which one of them is smaller by `behind`.
        high: a larger one, at which it is larger by `ahead`.
        behind: at least 0.
        ahead: above 0.
        growth: of the work.

    Example:
        >>> met_at(100, 200, 1.0, 3.0, 1)
        125.0
    """
    share = behind / (behind + ahead)
    start, end = math.pow(low, growth), math.pow(high, growth)
    return float((start + share * (end - start)) ** (1 / growth))
