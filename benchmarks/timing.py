"""Timing: contestants take turns, each sample is a loop of calls, medians and quartiles."""

from __future__ import annotations

import gc
import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.accuracy import compare
from benchmarks.results import Ratio, Timing

__all__ = [
    "OURS",
    "Contestant",
    "Samples",
    "Schedule",
    "Turns",
    "calls_of",
    "ratios",
    "take_turns",
    "timing_of",
    "timings",
]

OURS = "softcuda"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to do the work of a case.

    Attributes:
        name: softcuda, or the peer.
        statement: the Python statement that is timed.
        names: what the statement refers to.
        result: returns the result of one call, to compare; None for nothing to compare.
        poison: fills the buffer that the next call will write with NaN; None where each call
            makes its own.
        units: how many of the counted things one statement does (nodes, calls).
        absent: True for a peer that is not installed; it is listed and not run.
    """

    name: str
    statement: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)
    result: Callable[[], Any] | None = None
    poison: Callable[[], None] | None = None
    units: int = 1
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long a case is measured.

    Attributes:
        budget_s: about how long all rounds may take together [seconds].
        sample_s: the least length of one sample [seconds].
        settle_s: a pause before each sample, so that the spinning threads of the contestant
            before are asleep [seconds].
        rounds: the least and the most rounds.
    """

    budget_s: float = 1.0
    sample_s: float = 0.004
    settle_s: float = 0.0
    rounds: tuple[int, int] = (7, 31)


@dataclass(slots=True)
class Samples:
    """The samples of one contestant [seconds a call], one a round."""

    calls: int
    seconds: list[float] = field(default_factory=list)


Turns = Callable[[Sequence[Contestant], Schedule], dict[str, Samples]]


def take_turns(contestants: Sequence[Contestant], schedule: Schedule) -> dict[str, Samples]:
    """Return the samples of all present contestants, who take turns in rotating order.

    The collector of cycles stays on, as it is for a user; it runs before each round.
    """
    timers = {
        c.name: timeit.Timer(c.statement, "gc.enable()", globals={**c.names, "gc": gc})
        for c in contestants
        if not c.absent
    }
    taken = {name: Samples(calls_of(timer, schedule)) for name, timer in timers.items()}
    order = list(timers)
    least, most = schedule.rounds
    begin = time.perf_counter()
    for done in range(most):
        if done >= least and time.perf_counter() - begin > schedule.budget_s:
            break
        gc.collect()
        shift = done % len(order) if order else 0
        for name in order[shift:] + order[:shift]:
            if schedule.settle_s:
                time.sleep(schedule.settle_s)
            calls = taken[name].calls
            taken[name].seconds.append(timers[name].timeit(calls) / calls)
    return taken


def calls_of(timer: timeit.Timer, schedule: Schedule) -> int:
    """Return how many calls fill a sample; these calls also warm up."""
    calls = 1
    while True:
        seconds = timer.timeit(calls)
        if seconds >= schedule.sample_s / 2:
            break
        calls *= 2 if seconds > schedule.sample_s / 20 else 8
    timer.timeit(calls)
    return max(1, round(calls * schedule.sample_s / seconds))


def timings(
    contestants: Sequence[Contestant],
    schedule: Schedule,
    reference: Array | None = None,
    allowed: float = 0.0,
    turns: Turns = take_turns,
) -> tuple[list[Timing], dict[str, Samples]]:
    """Return the time of every contestant whose result is right, and the samples behind them.

    Args:
        contestants: the peers and softcuda.
        schedule: how long to measure.
        reference: the right result, f64; None where nothing is compared.
        allowed: the relative error up to which a result is right.
        turns: takes the samples.
    """
    made: dict[str, Timing] = {}
    for contestant in contestants:
        if contestant.absent:
            made[contestant.name] = Timing(contestant.name, status="absent")
        elif reference is not None and contestant.result is not None:
            made[contestant.name] = _checked(contestant, reference, allowed)
    right = [c for c in contestants if c.name not in made or made[c.name].status == "ok"]
    taken = turns(right, schedule)
    for contestant in right:
        known = made.get(contestant.name)
        made[contestant.name] = timing_of(contestant.name, taken[contestant.name], known)
    return [made[contestant.name] for contestant in contestants], taken


def timing_of(name: str, samples: Samples, known: Timing | None = None) -> Timing:
    """Return the median and the quartiles of a contestant's samples.

    Args:
        name: softcuda, or the peer.
        samples: at least one.
        known: what was found when its result was compared; None where nothing was.
    """
    low, median, high = _quartiles(samples.seconds)
    return Timing(
        name,
        median * 1e6,
        low * 1e6,
        high * 1e6,
        len(samples.seconds),
        samples.calls,
        None if known is None else known.error,
        0 if known is None else known.nan_mismatches,
    )


def _checked(contestant: Contestant, reference: Array, allowed: float) -> Timing:
    """Return a timing without a time: only whether the result is right."""
    if contestant.poison is not None:
        contestant.poison()
    out = contestant.result() if contestant.result is not None else None
    found = compare(np.asarray(out), reference)
    status = "ok" if found.within(allowed) else "wrong"
    return Timing(
        contestant.name,
        error=found.error,
        nan_mismatches=found.nan_mismatches,
        status=status,
    )


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def ratios(taken: Mapping[str, Samples], ours: str = OURS) -> dict[str, Ratio]:
    """Return, for each peer, its time over ours, paired by round: above 1 means we are faster."""
    if ours not in taken:
        return {}
    mine = taken[ours].seconds
    found = {}
    for name, samples in taken.items():
        if name != ours:
            pairs = [theirs / own for theirs, own in zip(samples.seconds, mine, strict=True)]
            low, median, high = _quartiles(pairs)
            found[name] = Ratio(median, low, high)
    return found
