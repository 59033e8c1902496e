"""Which size to measure next: where the winner changes by bisection, then the widest gap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from softcuda.tools.cells import Cell, Ledger, Scope, State
from softcuda.tools.choose import Point, winners
from softcuda.tools.lines import line_at

__all__ = ["refinements"]

_NEAR: Final = 1.15  # neighbours whose sizes differ by less are not bisected any more


def refinements(
    scopes: Sequence[Scope], ledger: Ledger, passed: set[Cell]
) -> Iterator[tuple[Scope, int]]:
    """Yield every other size of every scope once; what was found decides which comes next.

    Sizes between two neighbours with different winners come first, down to sizes between powers
    of two.

    Args:
        scopes: the scopes.
        ledger: what was found so far; grows meanwhile.
        passed: cells that were looked at; grows meanwhile.
    """
    pending = True
    while pending:
        pending = False
        changing = True
        while changing:
            changing = False
            for scope in scopes:
                size = _where_the_winner_changes(scope, ledger, passed)
                if size is not None:
                    changing = True
                    yield scope, size
        for scope in scopes:
            size = _farthest(scope, passed)
            if size is not None:
                pending = True
                yield scope, size


def _where_the_winner_changes(scope: Scope, ledger: Ledger, passed: set[Cell]) -> int | None:
    """Return an open size half way between two neighbours with different winners."""
    points = [Point(size, times) for size, times in ledger.times(scope.op, scope.dtype)]
    chosen = winners(points, [""] * len(points))
    sides = _host_sides(scope, ledger)
    open_sizes = _open(scope, passed)
    for place, (one, other) in enumerate(pairwise(chosen)):
        low, high = points[place].size, points[place + 1].size
        if one == other and len({sides.get(size) for size in (low, high)} - {None}) < 2:
            continue
        between = [s for s in open_sizes if low < s < high]
        if between:
            return between[len(between) // 2]
        middle = _round(math.sqrt(low * high))
        known = Cell(scope.op, scope.dtype, middle) in passed
        if scope.whole and high > _NEAR * low and low < middle < high and not known:
            return middle
    return None


def _round(size: float) -> int:
    """Return the nearest multiple of an eighth of the power of two below; such shapes are common.

    From 8 on it is a whole number of eighths, below the nearest whole number.
    """
    step = max(1 << (int(size).bit_length() - 4), 1) if size >= 8 else 1
    return step * round(size / step)


def _host_sides(scope: Scope, ledger: Ledger) -> dict[int, str]:
    """Return for each size which device is faster with the data on the host, where it is known."""
    found = {}
    known: list[tuple[int, float]] = []
    for size, outcomes in ledger.at(scope.op, scope.dtype):
        times: dict[str, float] = {}
        for outcome in outcomes.values():
            host_us = outcome.host_us if outcome.state is State.MEASURED else None
            if host_us is not None:
                times[outcome.device] = min(host_us, times.get(outcome.device, math.inf))
        if "cpu" in times:
            known.append((size, times["cpu"]))
        elif len(known) > 1:  # not tried, since it would take too long
            times["cpu"] = line_at(size, known[-2], known[-1], scope.growth)
        if len(times) > 1:
            found[size] = min(times, key=lambda device: times[device])
    return found


def _open(scope: Scope, passed: set[Cell]) -> list[int]:
    return [s for s in scope.sizes if Cell(scope.op, scope.dtype, s) not in passed]


def _farthest(scope: Scope, passed: set[Cell]) -> int | None:
    """Return the open size that is farthest, in powers of two, from those that were passed."""
    remaining = _open(scope, passed)
    if not remaining:
        return None
    behind = [s.bit_length() for s in scope.sizes if s not in remaining]
    if not behind:
        return remaining[0]
    return max(remaining, key=lambda s: (min(abs(s.bit_length() - b) for b in behind), s))
