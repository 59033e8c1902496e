"""Equal units are planned once: a unit without the numbers of its values is a pattern.

What the shipped backends make of a unit depends on its ops, on how its operands lie, and on which
of them are one value; the numbers themselves only name buffers. So layers of equal extents, in
one graph or in several, share their plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from softcuda.backends.steps import Operand, Step, Unit
from softcuda.target import Target

__all__ = ["prepared"]

_MOST_PATTERNS: Final = 1024  # kept; a step is a few KiB

Prepare = Callable[[Unit, Target], tuple[Step, ...]]


def prepared(prepare: Prepare, unit: Unit, target: Target) -> list[Step]:
    """Return what a shipped backend's `prepare` makes of a unit."""
    numbers = tuple(dict.fromkeys((*unit.lines, *[x.value for x in unit.operands])))
    places = {number: place for place, number in enumerate(numbers)}
    pattern = Unit(
        unit.chain,
        _renamed(unit.operands, places),
        _renamed((unit.result,), places)[0],
        tuple([places[line] for line in unit.lines]),
        tuple([(k, _renamed((operand,), places)[0]) for k, operand in unit.kept]),
    )
    named = dict(enumerate(numbers))
    return [
        Step(
            step.backend_id,
            step.kernel,
            _renamed(step.inputs, named),
            _renamed(step.outputs, named),
            step.params,
            step.chain,
            step.scratch_bytes,
            tuple([named[place] for place in step.lines]),
            step.launches,
        )
        for step in _planned(prepare, pattern, target)
    ]


def _renamed(operands: tuple[Operand, ...], names: Mapping[int, int]) -> tuple[Operand, ...]:
    return tuple([Operand(names[x.value], x[1], x[2], x[3], x[4]) for x in operands])


@lru_cache(maxsize=_MOST_PATTERNS)
def _planned(prepare: Prepare, pattern: Unit, target: Target) -> tuple[Step, ...]:
    return prepare(pattern, target)
