"""The runtime of one program: its calls, bound to memory once and replayed."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.backends import bind
from softcuda.backends.steps import Operand
from softcuda.compiler.program import Program
from softcuda.executor.arenas import Arena, Arenas
from softcuda.executor.binding import arena_window, window_on
from softcuda.executor.outputs import OutputRing, Slot
from softcuda.graph.params import value_of
from softcuda.pool.buffers import aligned_empty

__all__ = ["SMALL_BYTES", "Runtime"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

SMALL_BYTES = 65536  # inputs up to this size are copied into fixed slots


def _replay(calls: list[Call]) -> None:
    for function, arguments in calls:
        function(*arguments)


def _quiet_context() -> contextvars.Context:
    """Return a context in which NumPy says nothing about overflow, division or NaN."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context


class Runtime:
    """A program with memory; `run` is serialised by a lock.

    Which arrays a step touches is decided when it is bound; a run binds again only the steps
    whose leaves or outputs are other arrays than in the run before.
    """

    def __init__(self, program: Program, arenas: Arenas) -> None:
        self.program = program
        self._arenas = arenas
        self._lock = threading.Lock()
        self._context = _quiet_context()
        self._arena: Arena | None = None
        lines = program.graph.lines
        self._constants = {
            number: np.array(value_of(line.params.value), line.dtype.numpy)
            for number, line in enumerate(lines)
            if line.op.name == "constant"
        }
        self._rings = [
            OutputRing(lines[number].dims, lines[number].dtype.numpy)
            for number in program.output_lines
        ]
        self._leaves: list[Array | None] = [None] * len(program.leaf_lines)
        self._given: Sequence[Array] | None = None
        self._fixed: dict[int, Array] = {}
        self._slots: list[Slot | None] = [None] * len(self._rings)
        self._calls: list[list[Call]] = [[] for _ in program.steps]
        self._generations = [0] * len(program.steps)
        self._flat: list[Call] = []
        self._starts = [0] * (len(program.steps) + 1)
        self._stale: set[int] = set(range(len(program.steps)))
        self._index_steps()

    def _index_steps(self) -> None:
        """Note which steps touch each leaf and each output."""
        self._leaf_steps: list[set[int]] = [set() for _ in self._leaves]
        self._output_steps: list[set[int]] = [set() for _ in self._rings]
        touched: list[set[int]] = [set() for _ in self.program.steps]
        for number, step in enumerate(self.program.steps):
            for operand in (*step.inputs, *step.outputs):
                place = self.program.places[operand.value]
                if place.space in ("leaf", "variable"):
                    self._leaf_steps[place.at].add(number)
                elif place.space in ("output", "lent"):
                    self._output_steps[place.at].add(number)
                    touched[number].add(place.at)
        self._only_output = [next(iter(t)) if len(t) == 1 else -1 for t in touched]

    def run(
        self,
        leaves: Sequence[Array],
        variables: Sequence[Array],
        transient: Sequence[int] = (),
    ) -> list[Array]:
        """Run the program; return an array for each of its output lines.

        Args:
            leaves: the array of each leaf, by position, of the declared shape, dtype and strides.
            variables: the buffers that updates write, by position (others are ignored).
            transient: positions whose arrays are not kept after the run.
        """
        with self._lock:
            forget: list[int] = []
            if leaves is not self._given or transient or self._stale:
                forget = self._take_leaves(leaves, variables, transient)
            arena = self._take_arena()
            try:
                self._take_outputs()
                if self._stale:
                    self._bind_stale()
                self._context.run(_replay, self._flat)
                return [slot.array for slot in self._slots if slot is not None]
            finally:
                if arena is not None:
                    self._arenas.release(arena)
                for position in forget:
                    self._forget(position)

    def _take_leaves(
        self, leaves: Sequence[Array], variables: Sequence[Array], transient: Sequence[int]
    ) -> list[int]:
        """Note the arrays of this run; return the positions to forget afterwards."""
        self._variables = variables
        forget: list[int] = []
        arrays = list(leaves)
        for position in transient:
            array = arrays[position]
            if array is self._leaves[position]:
                continue
            if array.nbytes <= SMALL_BYTES and array.flags.c_contiguous:
                fixed = self._fixed.get(position)
                if fixed is None:
                    fixed = aligned_empty(array.shape, array.dtype)
                    self._fixed[position] = fixed
                fixed[...] = array
                arrays[position] = fixed
            else:
                forget.append(position)
        for position, array in enumerate(arrays):
            if self._leaves[position] is not array:
                self._leaves[position] = array
                self._spoil(self._leaf_steps[position])
        self._given = None if transient else leaves
        return forget

    def _take_arena(self) -> Arena | None:
        nbytes = self.program.arena_bytes("cpu")
        if not nbytes:
            return None
        arena = self._arenas.acquire(nbytes, self._arena, self.program.block_bytes)
        if arena is not self._arena:
            self._arena = arena
            arena.users.add(self)
            self._spoil(range(len(self._calls)))
            for ring in self._rings:
                ring.forget_bindings()
        return arena

    def _take_outputs(self) -> None:
        for index, ring in enumerate(self._rings):
            slot = ring.take()
            if slot is not self._slots[index]:
                self._slots[index] = slot
                for step in self._output_steps[index]:
                    if not self._reuse(step, slot):
                        self._stale.add(step)

    def _reuse(self, step: int, slot: Slot) -> bool:
        """Put the calls back that were bound to this slot before; False where there are none."""
        known = slot.bindings.get(step)
        if known is None or known[0] != self._generations[step] or step in self._stale:
            return False
        self._calls[step] = known[1]
        start, stop = self._starts[step], self._starts[step + 1]
        self._flat[start:stop] = known[1]
        return True

    def _spoil(self, steps: Any) -> None:
        for step in steps:
            self._generations[step] += 1
            self._stale.add(step)

    def _bind_stale(self) -> None:
        rebuild = False
        for number in sorted(self._stale):
            calls = self._bind_step(number)
            start, stop = self._starts[number], self._starts[number + 1]
            if len(calls) == stop - start:
                self._flat[start:stop] = calls
            else:
                rebuild = True
            self._calls[number] = calls
            only = self._only_output[number]
            if only >= 0:
                slot = self._slots[only]
                if slot is not None:
                    slot.bindings[number] = (self._generations[number], calls)
        self._stale.clear()
        if rebuild:
            self._flat = [call for calls in self._calls for call in calls]
            at = 0
            for number, calls in enumerate(self._calls):
                self._starts[number] = at
                at += len(calls)
            self._starts[-1] = at

    def _bind_step(self, number: int) -> list[Call]:
        step = self.program.steps[number]
        inputs = [self._window(operand) for operand in step.inputs]
        outputs = [self._window(operand) for operand in step.outputs]
        if step.outputs and not any(out.size for out in outputs):
            return []
        scratch = None
        if step.scratch_bytes and self._arena is not None:
            offset = self.program.places[~number].at
            scratch = self._arena.memory[offset : offset + step.scratch_bytes]
        return bind(step, inputs, outputs, scratch)

    def _window(self, operand: Operand) -> Array:
        """Return the array that an operand names."""
        place = self.program.places[operand.value]
        if place.space == "lent":
            slot = self._slots[place.at]
            lender = None if slot is None else slot.memory.reshape(-1).view(np.uint8)
            return arena_window(lender, 0, operand)
        if place.space != "arena":
            return window_on(self._base(place.space, place.at, operand.value), operand)
        memory = None if self._arena is None else self._arena.memory
        return arena_window(memory, place.at, operand)

    def _base(self, space: str, index: int, value: int) -> Array:
        if space == "constant":
            return self._constants[value]
        if space == "output":
            slot = self._slots[index]
            if slot is not None:
                return slot.memory
        leaf = self._variables[index] if space == "variable" else self._leaves[index]
        if leaf is None:
            raise AssertionError(f"{space} {index} has no array while its step is bound")
        return leaf

    def _forget(self, position: int) -> None:
        """Drop every reference to a transient leaf's array."""
        self._leaves[position] = None
        for step in self._leaf_steps[position]:
            start, stop = self._starts[step], self._starts[step + 1]
            self._flat[start:stop] = [(_nothing, ())] * (stop - start)
            self._calls[step] = []
            self._spoil((step,))
            only = self._only_output[step]
            if only >= 0:
                slot = self._slots[only]
                if slot is not None:
                    slot.bindings.pop(step, None)

    def unbind(self) -> None:
        """Forget the arena; the next run binds every step again.

        A runtime that is running has an arena of its own and forgets the old one by itself.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._unbind()
            finally:
                self._lock.release()

    def _unbind(self) -> None:
        self._arena = None
        self._flat = []
        self._calls = [[] for _ in self.program.steps]
        self._starts = [0] * (len(self._calls) + 1)
        for ring in self._rings:
            ring.forget_bindings()
        self._spoil(range(len(self._calls)))

    @property
    def held_bytes(self) -> int:
        """Bytes of output buffers that nobody but this runtime holds."""
        return sum(ring.held_bytes for ring in self._rings)

    def release_idle(self) -> None:
        """Give back the output buffers that nobody uses."""
        with self._lock:
            self._unbind()
            self._slots = [None] * len(self._rings)
            for ring in self._rings:
                ring.release()


def _nothing() -> None:
    """Stand for a call that is bound before it runs."""
