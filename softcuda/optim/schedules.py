"""Learning-rate schedules: functions of the number of a step, for the rate that a run is fed.

rate = softcuda.input((), name="rate")
optimizer = optim.SGD(parameters, rate)
step = softcuda.compile(loss, updates=optimizer.updates(loss))
schedule = optim.cosine(0.1, steps=1000, warmup=100)
for number in range(1000):
    step.run(..., rate=schedule(number))
"""

from __future__ import annotations

import math
from collections.abc import Callable

from softcuda.errors import ArgumentError
from softcuda.tensor.values import plain_number, whole_number

__all__ = ["Schedule", "cosine", "linear", "staircase"]

Schedule = Callable[[int], float]
"""The rate of a step, counted from 0."""


def cosine(peak: float, steps: int, warmup: int = 0, floor: float = 0.0) -> Schedule:
    """Return a schedule that rises to its peak, then falls along half a cosine.

    rate(s) = floor + (peak - floor) * (1 + cos(pi * (s - warmup) / (steps - warmup))) / 2 from
    step `warmup` on, peak * (s + 1) / (warmup + 1) before.

    Args:
        peak: the largest rate.
        steps: when the floor is reached; later rates are the floor.
        warmup: for how many steps the rate rises.
        floor: the last rate.

    Returns:
        The rate of a step, counted from 0.

    Raises:
        ArgumentError: no step is left after the warmup, or a rate is below 0 or not finite.
        ArgumentTypeError: an argument is no number.

    Source:
        I. Loshchilov, F. Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017.
    """

    def fall(high: float, low: float, share: float) -> float:
        return low + (high - low) * (1 + math.cos(math.pi * share)) / 2

    return _warmed("cosine", peak, steps, warmup, floor, fall)


def linear(peak: float, steps: int, warmup: int = 0, floor: float = 0.0) -> Schedule:
    """Return a schedule that rises to its peak, then falls along a straight line.

    rate(s) = peak + (floor - peak) * (s - warmup) / (steps - warmup) from step `warmup` on,
    peak * (s + 1) / (warmup + 1) before.

    Args:
        peak: the largest rate.
        steps: when the floor is reached; later rates are the floor.
        warmup: for how many steps the rate rises.
        floor: the last rate.

    Returns:
        The rate of a step, counted from 0.

    Raises:
        ArgumentError: no step is left after the warmup, or a rate is below 0 or not finite.
        ArgumentTypeError: an argument is no number.
    """

    def fall(high: float, low: float, share: float) -> float:
        return high + (low - high) * share

    return _warmed("linear", peak, steps, warmup, floor, fall)


def staircase(start: float, factor: float, every: int) -> Schedule:
    """Return a schedule that is multiplied by a factor at regular steps.

    rate(s) = start * factor^floor(s / every).

    Args:
        start: the first rate.
        factor: what the rate is multiplied by.
        every: after how many steps, from 1.

    Returns:
        The rate of a step, counted from 0.

    Raises:
        ArgumentError: `every` is below 1, or a number is below 0 or not finite.
        ArgumentTypeError: an argument is no number.
    """
    first, ratio = _rates("staircase", start, factor)
    length = whole_number("staircase", "every", every)
    if length < 1:
        raise ArgumentError(f"staircase: every is {length}; allowed are integers from 1")
    return lambda step: float(first * ratio ** (_step("staircase", step) // length))


def _warmed(
    what: str,
    peak: float,
    steps: int,
    warmup: int,
    floor: float,
    fall: Callable[[float, float, float], float],
) -> Schedule:
    """Return a schedule that rises to its peak; then fall(peak, floor, share of the way)."""
    high, low = _rates(what, peak, floor)
    first, last = _span(what, warmup, steps)

    def rate(step: int) -> float:
        at = _step(what, step)
        if at < first:
            return high * (at + 1) / (first + 1)
        return fall(high, low, min((at - first) / (last - first), 1.0))

    return rate


def _rates(what: str, first: float, second: float) -> tuple[float, float]:
    both = (
        float(plain_number(what, "rate", first)),
        float(plain_number(what, "rate", second)),
    )
    if not all(0 <= number < math.inf for number in both):
        raise ArgumentError(
            f"{what}: the rates, or rate and factor, are {both[0]} and {both[1]}; allowed are "
            "finite numbers from 0"
        )
    return both


def _step(what: str, step: int) -> int:
    number = whole_number(what, "step", step)
    if number < 0:
        raise ArgumentError(f"{what}: the step is {number}; allowed are integers from 0")
    return number


def _span(what: str, warmup: int, steps: int) -> tuple[int, int]:
    first, last = whole_number(what, "warmup", warmup), whole_number(what, "steps", steps)
    if not 0 <= first < last:
        raise ArgumentError(
            f"{what}: a warmup of {first} of {last} steps; allowed are 0 to steps - 1"
        )
    return first, last
