"""Times between two sizes: latency + work / rate, where work is size^growth."""

from __future__ import annotations

import math
from typing import Final

from softcuda.graph.op import OPS, Kind

__all__ = ["growth_of", "met_at"]

_STEEPEST: Final = 3  # of a product, whose size is an extent


def growth_of(op: str) -> int:
    """Return the power of its size that the work of an op grows with at most.

    Example:
        >>> growth_of("add"), growth_of("matmul")
        (1, 3)
    """
    return _STEEPEST if OPS[op].kind is Kind.CONTRACTION else 1


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
