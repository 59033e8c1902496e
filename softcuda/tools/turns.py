"""Timing calls that take turns, so that what disturbs one disturbs the others too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Timed", "take_turns"]

_SAMPLE_NS: Final = 100_000  # calls are repeated until a sample takes this long
_WAITED_SAMPLE_NS: Final = 400_000  # the same where its end is a wait of 10 us for a device
_MOST_CALLS: Final = 200
_ROUNDS: Final = 15
_FEWEST_ROUNDS: Final = 3


class Timed(NamedTuple):
    """A call to time.

    Attributes:
        run: is called again and again.
        settle: waits for what `run` began, at the end of a sample; None where nothing is left.
    """

    run: Callable[[], Any]
    settle: Callable[[], object] | None = None


def take_turns(
    calls: Mapping[str, Timed], allowance_s: float, clock: Callable[[], int]
) -> dict[str, tuple[float, ...]]:
    """Return the times of a call of each [microseconds].

    Args:
        calls: what to time; each was called once before.
        allowance_s: when to stop repeating [seconds]; three rounds are done in any case.
        clock: nanoseconds.
    """
    begin = clock()
    counts = {name: _calls_a_sample(timed, clock) for name, timed in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order: Sequence[str] = list(calls)
    for turn in range(_ROUNDS):
        if turn >= _FEWEST_ROUNDS and clock() - begin > allowance_s * 1e9:
            break
        for name in order if turn % 2 == 0 else order[::-1]:
            timed, count = calls[name], counts[name]
            samples[name].append(_short(_sample(timed, count, clock) / count * 1e-3))
    return {name: tuple(times) for name, times in samples.items()}


def _short(microseconds: float) -> float:
    """Return a time with the digits that a file of samples holds."""
    return float(f"{microseconds:.5g}")


def _sample(timed: Timed, count: int, clock: Callable[[], int]) -> int:
    run, settle = timed
    start = clock()
    for _ in range(count):
        run()
    if settle is not None:
        settle()
    return clock() - start


def _calls_a_sample(timed: Timed, clock: Callable[[], int]) -> int:
    """Warm up; return how many calls fill a sample."""
    took = max(_sample(timed, 1, clock), 1)
    wanted = _SAMPLE_NS if timed.settle is None else _WAITED_SAMPLE_NS
    return min(max(wanted // took, 1), _MOST_CALLS)
