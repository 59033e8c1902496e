"""The runtime of one program: its calls, bound to memory once and replayed."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softcuda.backends import bind
from softcuda.compiler.program import Program
from softcuda.errors import NoDeviceError
from softcuda.executor.memory import ProgramMemory
from softcuda.executor.on_demand import device_steps, session
from softcuda.executor.outputs import Slot
from softcuda.pool.buffers import aligned_empty

if TYPE_CHECKING:
    from softcuda.executor.devices import DeviceSession

__all__ = ["SMALL_BYTES", "Runtime"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

SMALL_BYTES = 65536  # inputs up to this size are copied into fixed slots


def _replay(calls: list[Call]) -> None:
    for function, arguments in calls:
        function(*arguments)


def _session_for(program: Program) -> DeviceSession | None:
    """Return the device that a program runs on, None where it needs none.

    Raises:
        NoDeviceError: there is no device, or another one than the program was compiled for.
    """
    if not program.uses_cuda:
        return None
    on_device = session()
    if program.target.arch not in ("", on_device.loader.arch):
        raise NoDeviceError(
            f"run: the graph was compiled for {program.target.arch} and the device here is "
            f"{on_device.loader.arch}; compile it again without target="
        )
    return on_device


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

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lock = threading.Lock()
        self._context = _quiet_context()
        on_device = _session_for(program)
        self._memory = memory = ProgramMemory(program, on_device)
        self._device = None if on_device is None else device_steps(program, on_device, memory)
        self._given: Sequence[Any] | None = None
        self._fixed: dict[int, Array] = {}
        self._calls: list[list[Call]] = [[] for _ in program.steps]
        self._generations = [0] * len(program.steps)
        self._flat: list[Call] = []
        self._starts = [0] * (len(program.steps) + 1)
        self._stale: set[int] = set(range(len(program.steps)))
        self._index_steps()

    def _index_steps(self) -> None:
        """Note which steps touch each leaf and each output, and which arena."""
        memory = self._memory
        self._leaf_steps: list[set[int]] = [set() for _ in memory.leaves]
        self._output_steps: list[set[int]] = [set() for _ in memory.rings]
        touched: list[set[int]] = [set() for _ in self.program.steps]
        self._only_output: list[int] = []
        for number, step in enumerate(self.program.steps):
            for operand in (*step.inputs, *step.outputs):
                place = self.program.places[operand.value]
                if place.space in ("leaf", "variable"):
                    self._leaf_steps[place.at].add(number)
                elif place.space in ("output", "lent"):
                    self._output_steps[place.at].add(number)
                    touched[number].add(place.at)
            # Calls of the host can be kept with the buffer they are bound to; nodes of a driver
            # graph cannot.
            keeps = len(touched[number]) == 1 and not self.program.on_device(step)
            self._only_output.append(next(iter(touched[number])) if keeps else -1)

    def run(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any],
        transient: Sequence[int] = (),
    ) -> list[Any]:
        """Run the program; return an array for each of its output lines.

        What a device computes may still be under way when this returns.

        Args:
            leaves: the array of each leaf, by position, of the declared shape, dtype and strides.
            variables: the buffers that updates write, by position (others are ignored).
            transient: positions whose arrays are not kept after the run.
        """
        with self._lock:
            forget: list[int] = []
            if leaves is not self._given or transient or self._stale:
                forget = self._take_leaves(leaves, variables, transient)
            try:
                self._take_arenas()
                self._take_outputs()
                if self._stale:
                    self._bind_stale()
                self._context.run(_replay, self._flat)
                return [slot.array for slot in self._memory.slots if slot is not None]
            except BaseException:
                self._settle_device()
                raise
            finally:
                for device, arena in self._memory.arenas.items():
                    self._memory.supplier(device).release(arena)
                for position in forget:
                    self._forget(position)

    def _settle_device(self) -> None:
        """Wait for the device after an interrupted run, so that its memory is free again."""
        if self._device is not None:
            self._device.wait()

    def _take_leaves(
        self, leaves: Sequence[Any], variables: Sequence[Any], transient: Sequence[int]
    ) -> list[int]:
        """Note the arrays of this run; return the positions to forget afterwards."""
        memory = self._memory
        memory.variables = variables
        forget: list[int] = []
        arrays = list(leaves)
        for position in transient:
            array = arrays[position]
            if array is memory.leaves[position]:
                continue
            small = array.nbytes <= SMALL_BYTES and isinstance(array, np.ndarray)
            if small and array.flags.c_contiguous:
                fixed = self._fixed.get(position)
                if fixed is None:
                    fixed = aligned_empty(array.shape, array.dtype)
                    self._fixed[position] = fixed
                fixed[...] = array
                arrays[position] = fixed
            else:
                forget.append(position)
        for position, array in enumerate(arrays):
            if memory.leaves[position] is not array:
                memory.leaves[position] = array
                self._spoil(self._leaf_steps[position])
        self._given = None if transient else leaves
        return forget

    def _take_arenas(self) -> None:
        held = self._memory.arenas
        preferred = dict(held)
        held.clear()  # what is in it is given back after the run
        for device, size in self.program.arenas.items():
            before = preferred.get(device)
            supplier = self._memory.supplier(device)
            arena = supplier.acquire(size.nbytes, before, self.program.block_bytes)
            held[device] = arena
            if arena is not before:
                arena.users.add(self)
                self._spoil(range(len(self._calls)))
                for ring in self._memory.rings:
                    ring.forget_bindings()

    def _take_outputs(self) -> None:
        slots = self._memory.slots
        for index, ring in enumerate(self._memory.rings):
            slot = ring.take()
            if slot is not slots[index]:
                slots[index] = slot
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

    def _spoil(self, steps: Iterable[int]) -> None:
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
            slot = self._memory.slots[only] if only >= 0 else None
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
        step, memory = self.program.steps[number], self._memory
        if self._device is not None and self.program.on_device(step):
            return self._device.bind(number)
        outputs = [memory.window(operand) for operand in step.outputs]
        if outputs and not any(out.size for out in outputs):
            return []
        inputs = [memory.window(operand) for operand in step.inputs]
        return bind(step, inputs, outputs, memory.scratch(number, step.scratch_bytes))

    def _forget(self, position: int) -> None:
        """Drop every reference to a transient leaf's array."""
        memory = self._memory
        memory.leaves[position] = None
        for step in self._leaf_steps[position]:
            start, stop = self._starts[step], self._starts[step + 1]
            self._flat[start:stop] = [(_nothing, ())] * (stop - start)
            self._calls[step] = []
            self._spoil((step,))
            only = self._only_output[step]
            slot = memory.slots[only] if only >= 0 else None
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
        self._memory.arenas.clear()
        self._flat = []
        self._calls = [[] for _ in self.program.steps]
        self._starts = [0] * (len(self._calls) + 1)
        for ring in self._memory.rings:
            ring.forget_bindings()
        self._spoil(range(len(self._calls)))

    @property
    def held_bytes(self) -> int:
        """Bytes of output buffers that nobody but this runtime holds."""
        return self._memory.held_bytes

    def release_idle(self) -> None:
        """Give back the output buffers that nobody uses."""
        with self._lock:
            self._unbind()
            self._memory.forget_outputs()


def _nothing() -> None:
    """Stand for a call that is bound before it runs."""
