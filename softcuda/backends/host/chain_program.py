"""The micro-program of a chain: plain calls over numbered registers, no shapes in it.

Registers 0 .. E-1 are the step's external operands, register E is the step's output, the rest
are slots of block-sized scratch. A value of f16 or bf16 is held as the f32 that it rounds to,
so that every value is rounded to its dtype once, and read again without a conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.elementwise import function_for
from softcuda.backends.steps import Micro, Operand
from softcuda.dtype import DType, bool_, compute_dtype, f16
from softcuda.graph.lines import operand_dtypes

__all__ = ["FULL", "Instruction", "Program", "Register", "build_program"]

FULL: Final = -1  # the extents of a value: those of the block; else of external number n

# Results of these need no rounding: they are values of an operand, or exact in its dtype.
_EXACT: Final = frozenset(
    "copy conj neg abs sign relu floor ceil round minimum maximum clip where".split()
)
_IDENTITY: Final = frozenset(("copy", "conj"))
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
class Program:
    """What a chain does to one block.

    Attributes:
        externals: E, the number of external operands.
        instructions: in order; sources and targets are numbers of registers.
        registers: the scratch registers; number E + 1 + i is registers[i].
        slot_itemsizes: bytes an element of every scratch slot.
        result: the register that holds the last value: E, unless the chain feeds a reduction.
        cost_ns: rough time an element takes [ns].
    """

    externals: int
    instructions: tuple[Instruction, ...]
    registers: tuple[Register, ...]
    slot_itemsizes: tuple[int, ...]
    result: int
    cost_ns: float


class _Value(NamedTuple):
    """One value before slots are given out; `dtype` is that of the array which holds it."""

    dtype: np.dtype[Any]
    extents_of: int


class _Call(NamedTuple):
    function: Callable[..., Any]
    sources: tuple[int, ...]
    target: int


class _Builder:
    """Values 0 .. E-1 are the externals; every other value is the target of one call."""

    def __init__(self, inputs: Sequence[Operand]) -> None:
        self.inputs = inputs
        self.values = [_Value(x.dtype.numpy, n) for n, x in enumerate(inputs)]
        self.calls: list[_Call] = []
        self.converted: dict[tuple[int, DType], int] = {}

    def call(
        self, function: Callable[..., Any], sources: Sequence[int], dtype: DType, extents_of: int
    ) -> int:
        self.values.append(_Value(dtype.numpy, extents_of))
        target = len(self.values) - 1
        self.calls.append(_Call(function, tuple(sources), target))
        return target

    def held(self, value: int, have: DType, want: DType) -> int:
        """Return `value` of dtype `have`, converted to `want`, as its compute dtype."""
        if self.values[value].dtype == compute_dtype(want).numpy and have in (want, bool_):
            return value
        key = (value, want)
        if key not in self.converted:
            narrow = want is not compute_dtype(want) and have is not want and have is not bool_
            space = self.values[value].extents_of
            source = self.call(convert, (value,), want, space) if narrow else value
            self.converted[key] = self.call(convert, (source,), compute_dtype(want), space)
        return self.converted[key]

    def rounded(self, value: int, dtype: DType) -> int:
        """Return a value held as f32, rounded to the f16 or bf16 `dtype`."""
        narrow = self.call(convert, (value,), dtype, FULL)
        return self.call(convert, (narrow,), compute_dtype(dtype), FULL)

    def micro(self, micro: Micro, sources: Sequence[int], typed: Sequence[Any]) -> int:
        """Add one op; return the value that holds its result."""
        name, dtype = micro.op.name, micro.dtype
        computed = compute_dtype(dtype)
        if name == "cast" or (name in _IDENTITY and typed[0].dtype is dtype):
            return self.held(sources[0], typed[0].dtype, dtype)
        wanted = operand_dtypes(micro.op, typed, micro.params)
        operands = [
            self.held(value, operand.dtype, want)
            for value, operand, want in zip(sources, typed, wanted, strict=True)
        ]
        function = function_for(name, compute_dtype(wanted[-1]))
        value = self.call(function, operands, computed, FULL)
        if computed is not dtype and name not in _EXACT:
            value = self.rounded(value, dtype)
        return value


def build_program(
    chain: Sequence[Micro], inputs: Sequence[Operand], out: DType | None
) -> Program:
    """Return the program of elementwise ops.

    Args:
        chain: the ops in order; may be empty where a reduction follows.
        inputs: the external operands.
        out: dtype of the array that takes the last value; None to leave that value, in its
            compute dtype, in the program's `result` register (external 0 for an empty chain).
    """
    builder = _Builder(inputs)
    made: list[int] = []
    for micro in chain:
        typed = [inputs[s] if s >= 0 else chain[~s] for s in micro.sources]
        sources = [s if s >= 0 else made[~s] for s in micro.sources]
        made.append(builder.micro(micro, sources, typed))
    if out is None:
        last = made[-1] if made else builder.held(0, inputs[0].dtype, inputs[0].dtype)
    else:
        last = _deliver(builder, made[-1], out)
    return _give_slots(builder, last, into_out=out is not None)


def _deliver(builder: _Builder, value: int, out: DType) -> int:
    """Return the value to store: the last call writes out itself wherever it can."""
    calls = builder.calls
    if calls and calls[-1].target == value and builder.values[value].extents_of == FULL:
        if out is compute_dtype(out):
            return value
        if calls[-1].function is convert and builder.values[calls[-1].sources[0]] == (
            out.numpy,
            FULL,
        ):
            calls.pop()  # rounded to 16 bits and widened again: keep the 16 bits
            return calls[-1].target
    return builder.call(convert, (value,), out, FULL)


def _give_slots(builder: _Builder, last: int, *, into_out: bool) -> Program:
    externals = len(builder.inputs)
    values, calls = builder.values, builder.calls
    calls = _needed(calls, last)
    last_use = {source: n for n, call in enumerate(calls) for source in call.sources}
    last_use[last] = len(calls)
    places = {number: number for number in range(externals)}
    registers: list[Register] = []
    itemsizes: list[int] = []
    free: list[int] = []
    instructions = []
    for n, call in enumerate(calls):
        dying = [s for s in set(call.sources) if s >= externals and last_use[s] == n]
        sources = tuple(places[s] for s in call.sources)
        value = values[call.target]
        if call.target == last and into_out:
            places[last] = externals
        else:
            same = [s for s in dying if values[s] == value and call.function is not convert]
            if same:
                places[call.target] = places[same[0]]
                dying.remove(same[0])
            else:
                slot = _take(free, itemsizes, value.dtype.itemsize)
                registers.append(Register(slot, value.dtype, value.extents_of))
                places[call.target] = externals + len(registers)
        free.extend(registers[places[s] - externals - 1].slot for s in dying)
        instructions.append(Instruction(call.function, sources, places[call.target]))
    cost = sum(_cost(call, values) for call in calls)
    return Program(
        externals,
        tuple(instructions),
        tuple(registers),
        tuple(itemsizes),
        places[last],
        cost,
    )


def _needed(calls: Sequence[_Call], last: int) -> list[_Call]:
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


def _cost(call: _Call, values: Sequence[_Value]) -> float:
    """Return a rough time an element [ns]; two-core Xeon of 2.1 GHz, NumPy 2.4."""
    itemsize = values[call.target].dtype.itemsize
    if call.function in _LIGHT:
        return 0.04 * itemsize
    if call.function is convert:
        half = any(values[v].dtype == f16.numpy for v in (*call.sources, call.target))
        return 2.5 if half else 0.4
    return 0.12 * itemsize
