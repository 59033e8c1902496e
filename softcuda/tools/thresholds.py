"""From samples to crossings: the sizes at which a GPU overtakes the CPU, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from softcuda.profile.model import Crossing, Threshold
from softcuda.tools.cells import Ledger, Outcome, Scope, State
from softcuda.tools.lines import growth_of, line_at, met_at
from softcuda.tools.spread import quantile_of

__all__ = ["Race", "crossing_of", "modelled_at", "races", "thresholds"]

_LOWER, _MIDDLE, _UPPER = 0.25, 0.5, 0.75


class Race(NamedTuple):
    """The fastest of each device at a size: quartiles [microseconds].

    Attributes:
        size: the row's size.
        cpu: the CPU's.
        cuda: the GPU's; copies are included or not.
        modelled: the CPU was not tried, since a call would take too long; its time is that of the
            line through its last two, latency + work / rate.
    """

    size: int
    cpu: tuple[float, float, float]
    cuda: tuple[float, float, float]
    modelled: bool = False


def races(ledger: Ledger, op: str, dtype: str, *, on_host: bool) -> list[Race]:
    """Return a race for each size at which both devices have a time, sizes ascending.

    Beyond the largest size at which the CPU was tried its time is modelled.

    Args:
        ledger: what was measured.
        op: token of the op.
        dtype: name of the row's dtype.
        on_host: whether the data is on the host before and after, so that copies count.
    """
    found = []
    known: list[tuple[int, float]] = []
    for size, outcomes in ledger.at(op, dtype):
        cpu = _fastest(outcomes.values(), "cpu", on_host=False)
        cuda = _fastest(outcomes.values(), "cuda", on_host=on_host)
        if cpu:
            known.append((size, cpu[1]))
        if cpu and cuda:
            found.append(Race(size, cpu, cuda))
        elif cuda and len(known) > 1:
            time_us = line_at(size, known[-2], known[-1], growth_of(op))
            found.append(Race(size, (time_us,) * 3, cuda, modelled=True))
    last = known[-1][0] if known else 0
    return [race for race in found if not race.modelled or race.size > last]


def _fastest(
    outcomes: Iterable[Outcome], device: str, *, on_host: bool
) -> tuple[float, float, float] | None:
    """Return the quartiles of the fastest backend of a device, None where there is none."""
    best: tuple[float, float, float] | None = None
    for outcome in outcomes:
        times = outcome.host if on_host else outcome.samples or (outcome.microseconds,)
        if outcome.state is not State.MEASURED or outcome.device != device or not times:
            continue
        low, middle, high = (quantile_of(times, share) for share in (_LOWER, _MIDDLE, _UPPER))
        if best is None or middle < best[1]:
            best = (low, middle, high)
    return best


def thresholds(ledger: Ledger, scopes: Sequence[Scope]) -> list[Threshold]:
    """Return both crossings of every op and dtype that was measured on both devices."""
    found = []
    for scope in scopes:
        host, resident = (
            crossing_of(races(ledger, scope.op, scope.dtype, on_host=on_host), scope.growth)
            for on_host in (True, False)
        )
        if host is not None or resident is not None:
            found.append(Threshold(scope.op, scope.dtype, host, resident))
    return found


def crossing_of(found: Sequence[Race], growth: int) -> Crossing | None:
    """Return the first whole size from which the GPU is faster at every size of the races.

    "None below" the last size that was measured, where it is not. Between two sizes times are
    latency + work / rate. The uncertainty is how far the crossing moves when one device is at its
    lower and the other at its upper quartile, and at least half of the distance of the two sizes
    that it was measured between; at the smallest size of the races it may be anywhere below.

    Args:
        found: the races, sizes ascending.
        growth: of the work of the op with its size.
    """
    if not found:
        return None
    between = _between(found, [race.cpu[1] - race.cuda[1] for race in found], growth)
    if between is None:
        known = [race.size for race in found if not race.modelled]
        return Crossing(known[-1], None, False) if known else None
    size, gap = between
    early = _between(found, [race.cpu[2] - race.cuda[0] for race in found], growth)
    late = _between(found, [race.cpu[0] - race.cuda[2] for race in found], growth)
    ends = (size if early is None else early[0], found[-1].size if late is None else late[0])
    first = found[0].size - 1 if size <= found[0].size else 0  # it may be at any smaller one
    moved = max(size - ends[0], ends[1] - size, gap / 2, first)
    return Crossing(math.ceil(size), math.ceil(moved))


def _between(
    found: Sequence[Race], leads: Sequence[float], growth: int
) -> tuple[float, int] | None:
    """Return where the lead of the GPU passes 0 for good, and how far apart the sizes around are.

    None where it does not.
    """
    behind = [place for place, each in enumerate(leads) if each <= 0]
    if not behind:
        return float(found[0].size), 0
    last = behind[-1]
    if last + 1 == len(found):
        return None
    low, high = found[last].size, found[last + 1].size
    met = met_at(low, high, -leads[last], leads[last + 1], growth)
    return max(met, low + 1), high - low  # at `low` itself the GPU is behind


def modelled_at(found: Sequence[Race]) -> bool:
    """Return whether the crossing of some races lies where the CPU was not tried any more."""
    behind = [place for place, race in enumerate(found) if race.cpu[1] <= race.cuda[1]]
    after = behind[-1] + 1 if behind else 0
    return after < len(found) and found[after].modelled
