"""Levels: how late a step can be at the earliest, and lifetimes that keep steps side by side.

level(step) = 1 + the highest level of the steps whose values it reads, or whose variable it writes

Steps of one level may run side by side on a device. One that takes the memory of a value waits for
the value's readers: where these are on lower levels, nothing is done later for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from softcuda.backends.steps import Step
from softcuda.compiler.arena import Lifetime
from softcuda.compiler.program import Place

__all__ = ["levels_of", "parted"]

_ASIDE: Final = 3  # levels


def levels_of(steps: Sequence[Step], places: Mapping[int, Place]) -> list[int]:
    """Return the level of each step, from 1.

    Args:
        steps: in execution order.
        places: of what is not in the arena.
    """
    made: dict[int, int] = {}  # value -> level of its last writer so far
    read: dict[int, int] = {}  # leaf -> highest level of its readers so far
    levels = []
    for step in steps:
        level = 1 + max([made.get(operand.value, 0) for operand in step.inputs], default=0)
        for operand in step.outputs:
            place = places.get(operand.value)
            if place is not None and place.space == "variable":
                level = max(level, 1 + read.get(place.at, 0))
        for operand in step.inputs:
            place = places.get(operand.value)
            if place is not None and place.space == "leaf":
                read[place.at] = max(level, read.get(place.at, 0))
        for operand in step.outputs:
            made[operand.value] = max(level, made.get(operand.value, 0))
        levels.append(level)
    return levels


def parted(
    spans: Mapping[int, Lifetime], steps: Sequence[Step], levels: Sequence[int]
) -> dict[int, Lifetime]:
    """Return lifetimes that end behind every step that is no later than a value's last user.

    A plan of these adds no wait from one level to the same or a lower one, so it makes no chain of
    steps longer. Where several steps share the level, it adds none to the next few levels either:
    waiting for a step that runs aside takes longer than waiting for the one before.

    Args:
        spans: the lifetime of each value, by number, and of the scratch of step i, numbered ~i.
        steps: in execution order.
        levels: of the steps.
    """
    top = max(levels, default=0)
    last_of, width = [0] * (top + 1), [0] * (top + 1)
    for number, level in enumerate(levels):
        last_of[level] = number
        width[level] += 1
    last_of = list(accumulate(last_of, max))  # the last step of that level or below
    used: dict[int, int] = {}  # value -> the highest level of its users
    for number, step in enumerate(steps):
        for operand in (*step.inputs, *step.outputs):
            used[operand.value] = max(levels[number], used.get(operand.value, 0))
        used[~number] = levels[number]
    longer = {}
    for value, (nbytes, first, last) in spans.items():
        level = used[value]
        if width[level] > 1:
            level = min(level + _ASIDE, top)
        longer[value] = Lifetime(nbytes, first, max(last, last_of[level]))
    return longer
