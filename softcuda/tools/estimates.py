"""What the medians so far say about a cell: who is a candidate, what it costs, what to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from softcuda.backends import REFERENCE
from softcuda.tools.cells import Ledger, Outcome, Scope, State

__all__ = [
    "LONGEST_CALL_S",
    "OVERHEAD_S",
    "affordable",
    "call_s",
    "candidates",
    "cell_cost_s",
    "doubted",
    "full_cell_s",
    "full_cost_s",
    "reopened",
]

LONGEST_CALL_S: Final = 0.2
OVERHEAD_S: Final = 0.004  # inputs, two compiles and the check of a small cell
_FAR_BEHIND: Final = 8.0
_TOO_STEEP: Final = 2.0
_TOO_HIGH: Final = 1.5
_BYTES_S: Final = 4e-8  # inputs and the check, an element
_PASS_S: Final = 3e-9  # a call, an element
_FIRST_PASS_S: Final = 2e-8  # the same of a function that costs much, where nothing is known
_PLAIN: Final = 5.0  # times as long as others take the reference for a product
_DEVICE: Final = 0.01  # of what a CPU takes, a GPU does
_MATMUL_S: Final = 1e-10  # a multiplication and an addition
_NEAREST: Final = 3
_CALLS: Final = 7  # reference, check, warm-up, three rounds, and one for luck


def candidates(
    scope: Scope, size: int, backend_ids: Sequence[str], ledger: Ledger
) -> tuple[list[str], dict[str, Outcome]]:
    """Return the backends to measure at a size, and why the others are not.

    One that was far behind the best of its own device is left out: the best of each device is
    wanted, whichever is faster.
    """
    names: list[str] = []
    others: dict[str, Outcome] = {}
    if scope.exhaustive:
        return list(backend_ids), others
    below = [entry for entry in ledger.at(scope.op, scope.dtype) if entry[0] < size]
    for name in backend_ids:
        seconds = _estimate(scope, size, name, ledger)
        behind = _behind(name, below)
        if behind:
            reason = f"over {_FAR_BEHIND:g} times behind at sizes {behind[0]} and {behind[1]}"
            others[name] = Outcome(State.SKIPPED, reason=reason)
        elif seconds is not None and seconds > LONGEST_CALL_S:
            reason = f"a call would take about {seconds:.1f} s"
            others[name] = Outcome(State.SKIPPED, reason=reason)
        else:
            names.append(name)
    return names, others


def reopened(scope: Scope, backend_ids: Sequence[str], ledger: Ledger) -> list[tuple[int, str]]:
    """Return (size, backend) of what was skipped, and by the medians of now would be measured."""
    found = []
    for size, outcomes in ledger.at(scope.op, scope.dtype):
        skipped = [n for n, outcome in outcomes.items() if outcome.state is State.SKIPPED]
        if skipped:
            names, _ = candidates(scope, size, backend_ids, ledger)
            found += [(size, name) for name in skipped if name in names]
    return found


def doubted(scope: Scope, ledger: Ledger) -> list[int]:
    """Return the sizes whose medians do not fit together, as where something disturbed one.

    Of two neighbours that is the larger where it takes twice what growth explains, and the
    smaller where it takes half as long again as the larger.
    """
    found: dict[int, None] = {}
    for (smaller, before), (size, times) in pairwise(ledger.times(scope.op, scope.dtype)):
        shared = times.keys() & before
        growth = (size / smaller) ** scope.growth
        if any(before[name] > _TOO_HIGH * times[name] for name in shared):
            found[smaller] = None
        if any(times[name] > _TOO_STEEP * growth * before[name] for name in shared):
            found[size] = None
    return list(found)


def cell_cost_s(scope: Scope, size: int, names: Sequence[str], ledger: Ledger) -> float:
    """Return about how long measuring a cell takes [seconds]."""
    elements = size * size if scope.growth > 1 else size
    estimates = [call_s(scope, size, name, ledger) for name in names]
    calls = sum(max(_CALLS * seconds, OVERHEAD_S) for seconds in estimates)
    return calls + _BYTES_S * elements + OVERHEAD_S


def call_s(scope: Scope, size: int, name: str, ledger: Ledger) -> float:
    """Return about how long a call of a backend takes, from its times or as a guess [seconds]."""
    known = _estimate(scope, size, name, ledger)
    if known is not None:
        return known
    guess = size**3 * _MATMUL_S if scope.growth > 1 else size * _FIRST_PASS_S
    if name.startswith("cuda"):
        return guess * _DEVICE
    return guess * (_PLAIN if scope.growth > 1 and name == REFERENCE["cpu"] else 1.0)


def affordable(
    scope: Scope, size: int, names: Sequence[str], ledger: Ledger, left_s: float
) -> tuple[list[str], dict[str, Outcome]]:
    """Return which backends there is time for, and why not the others.

    Those that were never tried are left out, the slowest by guess first, until the rest fits.
    """
    kept = list(names)
    others: dict[str, Outcome] = {}
    unknown = [name for name in names if _estimate(scope, size, name, ledger) is None]
    for name in sorted(unknown, key=lambda each: call_s(scope, size, each, ledger), reverse=True):
        if cell_cost_s(scope, size, kept, ledger) <= left_s:
            break
        kept.remove(name)
        seconds = call_s(scope, size, name, ledger)
        others[name] = Outcome(State.SKIPPED, reason=f"a call may take {seconds:.1f} s")
    return kept, others


def full_cost_s(scope: Scope, names: Sequence[str]) -> float:
    """Return about how long a scope takes where every backend is tried at every size [seconds].

    Nothing is measured yet: a call is taken as one pass at the pace of plain NumPy.
    """
    return sum(full_cell_s(scope, size, len(names)) for size in scope.sizes)


def full_cell_s(scope: Scope, size: int, count: int) -> float:
    """Return the same for one size of a scope and a number of backends [seconds]."""
    call = size**3 * _MATMUL_S if scope.growth > 1 else size * _PASS_S
    once = _BYTES_S * (size * size if scope.growth > 1 else size)
    return count * (_CALLS * call + OVERHEAD_S) + once + OVERHEAD_S


def _behind(name: str, below: Sequence[tuple[int, dict[str, Outcome]]]) -> tuple[int, ...]:
    """Return the last two sizes a backend was tried at where it was 8 times behind at both."""
    tried = []
    for size, outcomes in below:
        own = outcomes.get(name)
        if own is None or own.state is not State.MEASURED:
            continue
        best = min(
            o.microseconds
            for o in outcomes.values()
            if o.state is State.MEASURED and o.device == own.device
        )
        tried.append((size, own.microseconds > _FAR_BEHIND * best))
    last = tried[-2:]
    return tuple(size for size, _ in last) if [far for _, far in last] == [True, True] else ()


def _estimate(scope: Scope, size: int, name: str, ledger: Ledger) -> float | None:
    """Return the most that a call may take [seconds], from the nearest sizes that were measured.

    Each smaller one bounds it, t(size) <= t(smaller) * (size / smaller)^growth, and the least
    bound counts: one disturbed median alone keeps no backend from being tried.
    """
    known = [
        (measured, times[name])
        for measured, times in ledger.times(scope.op, scope.dtype)
        if name in times
    ]
    bounds = [
        float(time_us * 1e-6 * (size / measured) ** scope.growth)
        for measured, time_us in known
        if measured < size
    ]
    if bounds:
        return min(bounds[-_NEAREST:])
    return known[0][1] * 1e-6 if known else None
