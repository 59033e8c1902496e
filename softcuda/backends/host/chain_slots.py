"""Registers of a micro-program: which scratch slot holds which value of a chain, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.dtype import f16

__all__ = ["FULL", "Instruction", "MicroProgram", "PlannedCall", "Register", "Value", "give_slots"]

FULL: Final = -1  # the extents of a value: those of the block; else of external number n

_LIGHT: Final = frozenset((np.add, np.subtract, np.multiply, np.negative, np.absolute, np.square))


class Instruction(NamedTuple):
    """One call: function(*[registers of sources], register of target)."""

    function: Callable[..., Any]
    sources: tuple[int, ...]
    target: int


class Register(NamedTuple):
    """A window on scratch slot `slot`: its dtype, and whose extents it has (see FULL)."""

    slot: int
    dtype: np.dtype[Any]
    extents_of: int


@dataclass(frozen=True, slots=True)
class MicroProgram:
    """What a chain does to one block.

    Attributes:
        externals: E, the number of external operands.
        instructions: in order; sources and targets are numbers of registers.
        registers: the scratch registers; number E + 1 + i is registers[i].
        slot_itemsizes: bytes an element of every scratch slot.
        result: the register that holds the last value: E, unless the chain feeds a reduction.
        zeros: the registers that must hold zeros before the first block.
        cost_ns: rough time an element takes [ns].
    """

    externals: int
    instructions: tuple[Instruction, ...]
    registers: tuple[Register, ...]
    slot_itemsizes: tuple[int, ...]
    result: int
    zeros: tuple[int, ...]
    cost_ns: float


class Value(NamedTuple):
    """One value before slots are given out; `dtype` is that of the array which holds it."""

    dtype: np.dtype[Any]
    extents_of: int


class PlannedCall(NamedTuple):
    """One call before slots are given out; sources and target are numbers of values."""

    function: Callable[..., Any]
    sources: tuple[int, ...]
    target: int


def give_slots(
    externals: int,
    values: Sequence[Value],
    made: Sequence[PlannedCall],
    zeros: Sequence[int],
    last: int,
    *,
    into_out: bool,
) -> MicroProgram:
    """Return the program of some calls: liveness gives every value a place.

    Args:
        externals: number of external operands, values 0 and up.
        values: all values.
        made: the calls in order; those that `last` does not depend on are left out.
        zeros: values that are blocks of zeros.
        last: the value that is asked for.
        into_out: whether its call writes the step's output.
    """
    calls = _needed(made, last)
    last_use = {source: n for n, call in enumerate(calls) for source in call.sources}
    last_use[last] = len(calls)
    places = {number: number for number in range(externals)}
    registers: list[Register] = []
    itemsizes: list[int] = []
    free: list[int] = []
    instructions = []
    constants = set(zeros) & last_use.keys()
    for value in sorted(constants):
        slot = _take(free, itemsizes, values[value].dtype.itemsize)
        registers.append(Register(slot, values[value].dtype, FULL))
        places[value] = externals + len(registers)
    for n, call in enumerate(calls):
        dying = [
            s
            for s in dict.fromkeys(call.sources)
            if s >= externals and last_use[s] == n and s not in constants
        ]
        sources = tuple(places[s] for s in call.sources)
        result = values[call.target]
        if call.target == last and into_out:
            places[last] = externals
        else:
            same = [s for s in dying if values[s] == result and call.function is not convert]
            if same:
                places[call.target] = places[same[0]]
                dying.remove(same[0])
            else:
                slot = _take(free, itemsizes, result.dtype.itemsize)
                registers.append(Register(slot, result.dtype, result.extents_of))
                places[call.target] = externals + len(registers)
        free.extend(registers[places[s] - externals - 1].slot for s in dying)
        instructions.append(Instruction(call.function, sources, places[call.target]))
    cost = sum(_cost(call, values) for call in calls)
    return MicroProgram(
        externals,
        tuple(instructions),
        tuple(registers),
        tuple(itemsizes),
        places[last],
        tuple(places[value] for value in sorted(constants)),
        cost,
    )


def _needed(calls: Sequence[PlannedCall], last: int) -> list[PlannedCall]:
    """Return the calls that `last` depends on, in order."""
    wanted = {last}
    kept = []
    for call in reversed(calls):
        if call.target in wanted:
            wanted.update(call.sources)
            kept.append(call)
    return kept[::-1]


def _take(free: list[int], itemsizes: list[int], itemsize: int) -> int:
    """Return a scratch slot of this itemsize, a free one where there is one."""
    for slot in reversed(free):
        if itemsizes[slot] == itemsize:
            free.remove(slot)
            return slot
    itemsizes.append(itemsize)
    return len(itemsizes) - 1


def _cost(call: PlannedCall, values: Sequence[Value]) -> float:
    """Return a rough time an element [ns]; two-core Xeon of 2.1 GHz, NumPy 2.4."""
    itemsize = values[call.target].dtype.itemsize
    if call.function in _LIGHT:
        return 0.04 * itemsize
    if call.function is convert:
        half = any(values[v].dtype == f16.numpy for v in (*call.sources, call.target))
        return 2.5 if half else 0.4
    return 0.12 * itemsize
