"""The order of measuring: every op at a few sizes first, then where winners change, then the rest.

A sweep ends by itself or at its deadline. A backend is not tried where one call would take too
long, nor above two sizes in a row at which it was far behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from softcuda.tools.cells import Cell, Ledger, Outcome, Scope, State
from softcuda.tools.choose import Point, winners

__all__ = ["LONGEST_CALL_S", "Bench", "Moment", "sweep"]

LONGEST_CALL_S: Final = 0.2
_FAR_BEHIND: Final = 8.0
_TOO_STEEP: Final = 2.0
_TOO_HIGH: Final = 1.5
_ALLOWANCE_S: Final = 0.02  # repeating a cell
_DOUBT_S: Final = 0.1  # the same, where its times fit no other's
_OVERHEAD_S: Final = 0.004  # inputs, two compiles and the check of a small cell
_BYTES_S: Final = 4e-8  # inputs and the check, an element
_CALLS: Final = 7  # reference, check, warm-up, three rounds, and one for luck


class Bench(Protocol):
    """What a sweep asks of softcuda.tools.measure.Meter."""

    backend_ids: tuple[str, ...]

    def measure(
        self, cell: Cell, backend_ids: Iterable[str], allowance_s: float
    ) -> dict[str, Outcome]:
        """Return the outcome of each backend that is asked for."""


class Moment(NamedTuple):
    """How far a sweep is.

    Attributes:
        cell: what is measured now.
        done: cells that are behind.
        total: cells in all.
        left_s: seconds left, at most.
    """

    cell: Cell
    done: int
    total: int
    left_s: float


def sweep(
    scopes: Sequence[Scope],
    bench: Bench,
    deadline_s: float,
    report: Callable[[Moment], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    ledger: Ledger | None = None,
) -> Ledger:
    """Measure until all is measured or the deadline comes; return the ledger.

    Args:
        scopes: what to measure, the important first.
        bench: what measures.
        deadline_s: when to end, on the clock [seconds]; inf for never.
        report: is told before each cell how far the sweep is.
        clock: seconds.
        ledger: outcomes of an earlier sweep, which are not measured again; is written to.
    """
    ledger = Ledger() if ledger is None else ledger
    total = sum(len(scope.sizes) for scope in scopes)
    begin = clock()
    passed: set[Cell] = set()
    repeated: set[Cell] = set()
    measured = 0
    for scope, size in _order(scopes, ledger, passed):
        cell = Cell(scope.op, scope.dtype, size)
        passed.add(cell)
        if ledger.has(cell):
            continue
        now = clock()
        names, found = _candidates(scope, size, bench.backend_ids, ledger)
        cost = _cost(scope, size, names, ledger)
        if now + cost > deadline_s:
            if now + _OVERHEAD_S > deadline_s:
                break
            continue
        pace = (now - begin) / measured if measured else _ALLOWANCE_S
        left = min((total - len(passed)) * pace, deadline_s - now)
        report(Moment(cell, len(passed) - 1, total, left))
        if names:
            found.update(bench.measure(cell, names, min(_ALLOWANCE_S, deadline_s - now)))
        ledger.note(cell, found)
        measured += 1
        for doubted in _doubtful(scope, size, ledger):
            if doubted not in repeated and clock() + cost + _DOUBT_S < deadline_s:
                repeated.add(doubted)
                _measure_again(doubted, bench, ledger)
    return ledger


def _doubtful(scope: Scope, size: int, ledger: Ledger) -> list[Cell]:
    """Return the cells whose times do not fit together, as where something else disturbed one.

    That is the new size where it takes twice what growth explains, and the next smaller one
    where it took half as long again as the new size.
    """
    known = ledger.times(scope.op, scope.dtype)
    below = [entry for entry in known if entry[0] < size]
    times = dict(known).get(size, {})
    if not below or not times:
        return []
    smaller, before = below[-1]
    growth = (size / smaller) ** scope.growth
    found = []
    if any(times[name] > _TOO_STEEP * growth * before[name] for name in times.keys() & before):
        found.append(Cell(scope.op, scope.dtype, size))
    if any(before[name] > _TOO_HIGH * times[name] for name in times.keys() & before):
        found.append(Cell(scope.op, scope.dtype, smaller))
    return found


def _measure_again(cell: Cell, bench: Bench, ledger: Ledger) -> None:
    """Measure a cell once more, for longer; each backend keeps the smaller median."""
    first = dict(ledger.at(cell.op, cell.dtype))[cell.size]
    names = [name for name, outcome in first.items() if outcome.state is State.MEASURED]
    second = bench.measure(cell, names, _DOUBT_S)
    kept = dict(first)
    for name, outcome in second.items():
        if outcome.state is not State.MEASURED or outcome.microseconds < first[name].microseconds:
            kept[name] = outcome
    ledger.note(cell, kept)


def _order(
    scopes: Sequence[Scope], ledger: Ledger, passed: set[Cell]
) -> Iterator[tuple[Scope, int]]:
    """Yield every size of every scope once; what was found decides which comes next."""
    for place in range(max((len(scope.coarse) for scope in scopes), default=0)):
        for scope in scopes:
            if place < len(scope.coarse):
                yield scope, scope.coarse[place]
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
    for place, (one, other) in enumerate(pairwise(chosen)):
        low, high = points[place].size, points[place + 1].size
        between = [s for s in _open(scope, passed) if low < s < high] if one != other else []
        if between:
            return between[len(between) // 2]
    return None


def _open(scope: Scope, passed: set[Cell]) -> list[int]:
    return [s for s in scope.sizes if Cell(scope.op, scope.dtype, s) not in passed]


def _farthest(scope: Scope, passed: set[Cell]) -> int | None:
    """Return the open size that is farthest, in powers of two, from those that were passed."""
    remaining = _open(scope, passed)
    if not remaining:
        return None
    behind = [s.bit_length() for s in scope.sizes if s not in remaining]
    if not behind:
        return remaining[len(remaining) // 2]
    return max(remaining, key=lambda s: (min(abs(s.bit_length() - b) for b in behind), s))


def _candidates(
    scope: Scope, size: int, backend_ids: Sequence[str], ledger: Ledger
) -> tuple[list[str], dict[str, Outcome]]:
    """Return the backends to measure at a size, and why the others are not."""
    names: list[str] = []
    others: dict[str, Outcome] = {}
    below = [entry for entry in ledger.at(scope.op, scope.dtype) if entry[0] < size]
    for name in backend_ids:
        seconds = _estimate(scope, size, name, ledger)
        if _is_behind(name, below):
            reason = "far behind at smaller sizes"
            others[name] = Outcome(State.SKIPPED, reason=reason)
        elif seconds is not None and seconds > LONGEST_CALL_S:
            reason = f"a call would take about {seconds:.1f} s"
            others[name] = Outcome(State.SKIPPED, reason=reason)
        else:
            names.append(name)
    return names, others


def _is_behind(name: str, below: Sequence[tuple[int, dict[str, Outcome]]]) -> bool:
    """Return whether a backend was 8 times behind at the last two sizes it was tried at."""
    tried = []
    for _, outcomes in below:
        own = outcomes.get(name)
        if own is None or own.state is not State.MEASURED:
            continue
        best = min(o.microseconds for o in outcomes.values() if o.state is State.MEASURED)
        tried.append(own.microseconds > _FAR_BEHIND * best)
    return tried[-2:] == [True, True]


def _estimate(scope: Scope, size: int, name: str, ledger: Ledger) -> float | None:
    """Return the most that a call may take [seconds], from the nearest size that was measured."""
    known = [
        (measured, times[name])
        for measured, times in ledger.times(scope.op, scope.dtype)
        if name in times
    ]
    below = [(measured, time_us) for measured, time_us in known if measured < size]
    if below:
        measured, time_us = below[-1]
        return float(time_us * 1e-6 * (size / measured) ** scope.growth)
    return known[0][1] * 1e-6 if known else None


def _cost(scope: Scope, size: int, names: Sequence[str], ledger: Ledger) -> float:
    """Return about how long a cell takes [seconds]."""
    elements = size * size if scope.growth > 1 else size
    estimates = [_estimate(scope, size, name, ledger) or 0.0 for name in names]
    calls = sum(max(_CALLS * seconds, _OVERHEAD_S) for seconds in estimates)
    return calls + _BYTES_S * elements + _OVERHEAD_S
