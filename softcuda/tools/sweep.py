"""The order of measuring: every op at a few sizes first, then where winners change, then the rest.

A sweep ends by itself or at its deadline. A backend is not tried where one call would take too
long, nor above two sizes in a row at which it was far behind; where later medians say otherwise it
is tried after all. Medians that do not fit their neighbours are measured again after every op's
first sizes and once more at the end, when what disturbed them may be over.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from softcuda.tools.cells import Cell, Ledger, Outcome, Scope, State
from softcuda.tools.estimates import (
    OVERHEAD_S,
    affordable,
    candidates,
    cell_cost_s,
    doubted,
    full_cell_s,
    reopened,
)
from softcuda.tools.plausible import disturbances_of
from softcuda.tools.refinements import refinements
from softcuda.tools.spread import median_of

__all__ = ["CellBench", "Moment", "sweep"]

_ALLOWANCE_S: Final = 0.02  # repeating a cell
_DOUBT_S: Final = 0.3  # the same, where its times fit no other's
_DOUBT_CELLS: Final = 3  # and no more than this many times the cell's own cost
_AHEAD: Final = 64  # cells whose kernels are compiled at once
_MOST_REPEATS: Final = 2
_MOST_DISTURBED: Final = 6  # the same of what takes longer than twice a larger size does
_TOLD: Final = 0.1  # of what is left must be behind to tell how far the estimate is off
_RESERVED: Final = 0.25  # of the time, at most, is kept back for what is doubted
_DOUBTED_FIRST: Final = 0.15  # of the time, at most, goes into that before sizes are refined


class CellBench(Protocol):
    """What a sweep asks of softcuda.tools.measure.Meter."""

    backend_ids: tuple[str, ...]

    def measure(
        self, cell: Cell, backend_ids: Iterable[str], allowance_s: float
    ) -> dict[str, Outcome]:
        """Return the outcome of each backend that is asked for."""

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Do what can be done ahead for cells that come next."""


class Moment(NamedTuple):
    """How far a sweep is.

    Attributes:
        cell: what is measured now.
        done: cells that are behind.
        total: cells in all.
        left_s: seconds left, at most.
        again: the cell was measured before, and is doubted.
    """

    cell: Cell
    done: int
    total: int
    left_s: float
    again: bool = False


def sweep(
    scopes: Sequence[Scope],
    bench: CellBench,
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
    _Sweep(scopes, bench, deadline_s, report, clock, ledger).run()
    return ledger


class _Sweep:
    """A sweep under way."""

    def __init__(
        self,
        scopes: Sequence[Scope],
        bench: CellBench,
        deadline_s: float,
        report: Callable[[Moment], None],
        clock: Callable[[], float],
        ledger: Ledger,
    ) -> None:
        self.scopes = scopes
        self.bench = bench
        self.deadline_s = deadline_s
        self.report = report
        self.clock = clock
        self.ledger = ledger
        self.total = sum(len(scope.sizes) for scope in scopes)
        self.begin = clock()
        self.measured = 0
        self.expected_s = 0.0  # of what was measured, before it was
        self.passed = {
            Cell(scope.op, scope.dtype, size)
            for scope in scopes
            for size, _ in ledger.at(scope.op, scope.dtype)
        }
        self.repeats: Counter[Cell] = Counter()
        self.doubts: dict[Cell, Scope] = {}

    def run(self) -> None:
        for scope in self.scopes:  # of an earlier sweep
            self._review(scope)
            self._take_back(scope)
        self._measure_all(self._prepared(_first_sizes(self.scopes)))
        if self.measured:  # what an earlier sweep left in doubt waits until the end
            self._measure_doubted(self.clock() + _DOUBTED_FIRST * (self.deadline_s - self.begin))
        self._measure_all(refinements(self.scopes, self.ledger, self.passed))
        while self._measure_doubted(self.deadline_s):
            pass

    def _prepared(self, cells: Iterable[tuple[Scope, int]]) -> Iterator[tuple[Scope, int]]:
        """Yield the cells; their kernels are compiled ahead, many at once."""
        waiting = list(cells)
        for start in range(0, len(waiting), _AHEAD):
            group = waiting[start : start + _AHEAD]
            if self.clock() < self.deadline_s:
                self.bench.prepare([Cell(scope.op, scope.dtype, size) for scope, size in group])
            yield from group

    def _measure_all(self, cells: Iterable[tuple[Scope, int]]) -> None:
        """Measure what is not known yet, until time is short."""
        for scope, size in cells:
            cell = Cell(scope.op, scope.dtype, size)
            self.passed.add(cell)
            if self.ledger.has(cell):
                continue
            names, found = candidates(scope, size, self.bench.backend_ids, self.ledger)
            left_s = self.deadline_s - self.clock() - self._reserve_s()
            if cell_cost_s(scope, size, names, self.ledger) > left_s:
                names, others = affordable(scope, size, names, self.ledger, left_s)
                if not names or cell_cost_s(scope, size, names, self.ledger) > left_s:
                    if left_s < OVERHEAD_S:
                        return
                    continue
                found.update(others)
            self._say(cell, len(self.passed) - 1)
            if names:
                found.update(self.bench.measure(cell, names, min(_ALLOWANCE_S, left_s)))
            self.ledger.note(cell, found)
            self.measured += 1
            self.expected_s += full_cell_s(scope, size, len(self.bench.backend_ids))
            self._review(scope)
            self._take_back(scope)

    def _measure_doubted(self, deadline_s: float) -> bool:
        """Measure again what is doubted now; return whether there was something."""
        waiting = list(self.doubts)
        asked = 0
        for cell in waiting:
            scope = self.doubts.get(cell)
            if scope is None:
                continue  # another's new median explains it
            if self.clock() + self._doubt_cost_s(scope, cell) > min(deadline_s, self.deadline_s):
                continue
            asked += 1
            self.repeats[cell] += 1
            names = _measured_at(cell, self.ledger)
            self._measure_again(scope, cell, names, _DOUBT_S)
            self._take_back(scope)
        return asked > 0

    def _take_back(self, scope: Scope) -> None:
        """Measure what was skipped and would not be by now, the smallest size first."""
        while open_now := reopened(scope, self.bench.backend_ids, self.ledger):
            cell = Cell(scope.op, scope.dtype, open_now[0][0])
            asked = {name for size, name in open_now if size == cell.size}
            asked.update(_measured_at(cell, self.ledger))
            names = [name for name in self.bench.backend_ids if name in asked]
            if self.clock() + cell_cost_s(scope, cell.size, names, self.ledger) > self.deadline_s:
                return
            self._measure_again(scope, cell, names, _ALLOWANCE_S)

    def _measure_again(
        self, scope: Scope, cell: Cell, names: Sequence[str], allowance_s: float
    ) -> None:
        """Measure a cell once more; each backend keeps the samples with the smaller median."""
        self._say(cell, len(self.passed), again=True)
        kept = dict(self.ledger.at(cell.op, cell.dtype))[cell.size]
        for name, outcome in self.bench.measure(cell, names, allowance_s).items():
            kept[name] = _better(kept.get(name), outcome)
        self.ledger.note(cell, kept)
        self._review(scope)

    def _review(self, scope: Scope) -> None:
        """Find out which cells of a scope are doubted now."""
        most = dict.fromkeys(doubted(scope, self.ledger), _MOST_REPEATS)
        for each in disturbances_of(self.ledger, scope.op, scope.dtype):
            most[each.cell.size] = _MOST_DISTURBED
        for size, _ in self.ledger.at(scope.op, scope.dtype):
            cell = Cell(scope.op, scope.dtype, size)
            if self.repeats[cell] < most.get(size, 0):
                self.doubts[cell] = scope
            else:
                self.doubts.pop(cell, None)

    def _reserve_s(self) -> float:
        """Return the time that is kept back for what is doubted [seconds]."""
        needed = sum(self._doubt_cost_s(scope, cell) for cell, scope in self.doubts.items())
        return min(needed, _RESERVED * (self.deadline_s - self.begin))

    def _doubt_cost_s(self, scope: Scope, cell: Cell) -> float:
        cost = cell_cost_s(scope, cell.size, _measured_at(cell, self.ledger), self.ledger)
        return cost + min(_DOUBT_CELLS * cost, _DOUBT_S)

    def _say(self, cell: Cell, done: int, *, again: bool = False) -> None:
        now = self.clock()
        pace = (now - self.begin) / self.measured if self.measured else _ALLOWANCE_S
        total = max(self.total, done + 1)  # sizes between powers of two are not counted ahead
        left = min((total - done - 1) * pace, self.deadline_s - now)
        if self.deadline_s == math.inf:
            left = self._left_s(now)
        self.report(Moment(cell, done, total, max(left, 0.0), again))

    def _left_s(self, now_s: float) -> float:
        """Return how long the rest takes without a deadline, where large sizes come last."""
        count = len(self.bench.backend_ids)
        left = sum(
            full_cell_s(scope, size, count)
            for scope in self.scopes
            for size in scope.sizes
            if Cell(scope.op, scope.dtype, size) not in self.passed
        )
        known = self.expected_s > _TOLD * left
        return left * (now_s - self.begin) / self.expected_s if known else left


def _better(first: Outcome | None, again: Outcome) -> Outcome:
    """Return what is kept of two measurements of a backend: of each place the smaller median."""
    if first is None or not first.state is again.state is State.MEASURED:
        return again
    kept = min(first, again, key=lambda each: each.microseconds)
    taken = [each.host for each in (first, again) if each.host]
    return kept._replace(host=min(taken, key=median_of, default=()))


def _measured_at(cell: Cell, ledger: Ledger) -> list[str]:
    return list(dict(ledger.times(cell.op, cell.dtype)).get(cell.size, {}))


def _first_sizes(scopes: Sequence[Scope]) -> Iterator[tuple[Scope, int]]:
    for place in range(max((len(scope.coarse) for scope in scopes), default=0)):
        for scope in scopes:
            if place < len(scope.coarse):
                yield scope, scope.coarse[place]
