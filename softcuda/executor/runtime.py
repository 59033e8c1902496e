"""The runtime of one program: its calls, bound to memory once and replayed."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from softcuda.compiler.program import Program
from softcuda.errors import BackendError, DeviceOutOfMemory
from softcuda.executor.alone import alone_of
from softcuda.executor.arenas import Arena, Arenas
from softcuda.executor.calls import StepCalls
from softcuda.executor.inputs import Inputs
from softcuda.executor.memory import ProgramMemory, with_largest
from softcuda.executor.on_demand import device_steps, session_for
from softcuda.executor.outputs import Slot
from softcuda.executor.variables import ProgramLocks
from softcuda.forks import renew_in_child

__all__ = ["Runtime"]


def _quiet_context() -> contextvars.Context:
    """Return a context in which NumPy says nothing about overflow, division or NaN."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context


class Runtime:
    """A program with memory; `run` is serialised by a lock, unless it is one launch on a device.

    Which arrays a step touches is decided when it is bound; a run binds again only the steps
    whose leaves or outputs are other arrays than in the run before.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lock = threading.RLock()
        self._is_running = False
        self._is_whole = True  # False while a run changes what it is bound to
        self._context = _quiet_context()
        on_device = session_for(program)
        self._memory = memory = ProgramMemory(program, on_device)
        self._device = None if on_device is None else device_steps(program, on_device, memory)
        self._shared = [
            position
            for position, number in enumerate(program.leaf_lines)
            if program.graph.lines[number].op.name == "variable"
        ]
        lines = [program.graph.lines[program.leaf_lines[position]] for position in self._shared]
        is_there = on_device is not None and all(line.params.device == "cuda" for line in lines)
        self._ordinal = on_device.ordinal if on_device is not None and is_there else None
        self._locks = ProgramLocks(self._ordinal)
        self._given: Sequence[Any] | None = None
        self._calls = StepCalls(program, memory, self._device)
        self._inputs = Inputs(program, memory, self._calls, self._device)
        self._output_steps = self._calls.touching(("output", "lent"), len(memory.rings))
        self._current = None if self._device is None else self._device.current_context()
        self._segment = None if self._device is None else self._device.only_segment
        self._shares_arenas = bool(program.arenas) and not (memory.owns_arena or self._segment)
        self._joins_arena = self._segment is not None and "cuda" in program.arenas
        self._alone = None if self._shared else alone_of(program, memory, self._device)
        if on_device is not None:
            on_device.ledger.runtimes.add(self)
        renew_in_child(self)

    def run(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Collection[int] = (),
        into: Slot | None = None,
    ) -> list[Any]:
        """Run the program; return an array for each of its output lines.

        What a device computes may still be under way when this returns.

        Args:
            leaves: the array of each leaf, by position, of the declared shape, dtype and strides.
            variables: the buffers that updates write, by position among the leaves.
            transient: positions whose arrays are not kept after the run.
            into: where to write the only result if that can be done at once: dense, apart.

        Raises:
            BackendError: this thread is amid a run of the program already.
            IndexOutOfRange, IntegerPowerError: a step met a bad value.
        """
        if self._alone is not None and (made := self._alone.run(leaves)) is not None:
            return [made]
        with self._lock:
            if self._is_running:
                raise BackendError(
                    "run: this executable is running in this thread already; a signal handler or a "
                    "callback cannot run it again, compile another one for it"
                )
            self._is_running = True
            try:
                if not self._shared:
                    run = self._run if self._current is None else self._on_device
                    return run(leaves, variables, transient, into)
                if self._locks.every is not None:
                    with self._locks.every:
                        return self._on_device(leaves, variables, transient, into)
                buffers = list(map(leaves.__getitem__, self._shared))
                buffers.extend(map(variables.__getitem__, self.program.updated))
                is_lasting = not any(map(transient.__contains__, self._shared))
                with self._locks.held(buffers, is_lasting=is_lasting):
                    return self._on_device(leaves, variables, transient, into)
            finally:
                self._is_running = False

    def _on_device(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Collection[int],
        into: Slot | None,
    ) -> list[Any]:
        """Run with the device's context current, where the program has a device."""
        current = self._current
        if current is None or current.is_here():
            return self._run(leaves, variables, transient, into)
        with current.pushed():
            return self._run(leaves, variables, transient, into)

    def _run(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Collection[int],
        into: Slot | None,
    ) -> list[Any]:
        direct = self._calls.direct
        if direct is not None and len(transient) == len(leaves):
            at_once = self._calls.writes_at_once
            slot = into if into and at_once else self._memory.rings[0].take()
            if self._shares_arenas:
                return self._in_arenas(partial(self._replay_directly, direct, leaves, slot))
            self._context.run(direct, *leaves, slot.memory)  # nothing is bound, or left amiss
            return [slot.array]
        if not self._is_whole:
            self._reset()
        self._is_whole = False
        forget: list[int] = []
        try:
            if self._joins_arena:  # first of all, since another arena binds every step anew
                self._join_arena()
            if transient and self._inputs.again(leaves):
                self._given = None  # calls and kernels were told all that differs
            elif leaves is not self._given or transient or self._calls.stale:
                forget = self._inputs.take(leaves, variables, transient)
                self._given = None if transient or self._inputs.is_guarding else leaves
            found = self._in_arenas(self._replay) if self._shares_arenas else self._replay()
            if forget:
                self._inputs.forget(forget)
            self._is_whole = True
            if self._alone is not None and self._alone.find(leaves):
                self._reset()
                self._memory.forget_outputs()
            return found
        except BaseException as error:
            if self._device is not None:
                self._device.wait()  # its memory is free again afterwards
            self._reset()  # keeps nothing alive that the caller let go of
            if isinstance(error, DeviceOutOfMemory):
                raise with_largest(error, self.program) from None
            raise

    def _replay(self) -> list[Any]:
        """Run the one launch that the program is, or the calls of every step."""
        found = self._take_outputs()
        if self._calls.stale:
            self._context.run(self._calls.bind_stale)
        if self._device is not None and self._device.moved:
            self._device.apply()
        if self._segment is not None:
            self._segment.run()
        else:
            self._context.run(self._calls.make)
        return found

    def _replay_directly(
        self, direct: Callable[..., Any], leaves: Sequence[Any], slot: Slot
    ) -> list[Any]:
        """Make the calls of every step on the arrays of this run, with its arena."""
        arena = self._memory.arenas["cpu"]
        self._context.run(direct, *leaves, slot.memory, arena.memory)
        return [slot.array]

    def _in_arenas(self, work: Callable[[], list[Any]]) -> list[Any]:
        """Do work with arenas that no other run uses meanwhile."""
        taken: list[tuple[Arenas, Arena]] = []
        try:
            self._take_arenas(taken)
            return work()
        finally:
            while taken:
                supplier, arena = taken.pop()
                supplier.release(arena)

    def _reset(self) -> None:
        """Forget every binding, as where the run before was interrupted or failed."""
        self._unbind()
        self._given = None
        self._inputs.reset()
        self._memory.slots = [None] * len(self._memory.slots)

    def after_fork(self) -> None:
        """Begin anew in a forked child: another thread may have been amid a run."""
        self._lock = threading.RLock()
        self._locks = ProgramLocks(self._ordinal)
        self._context = _quiet_context()  # the thread that has entered the old one is not here
        self._is_running = False
        self._is_whole = False

    def _take_arenas(self, taken: list[tuple[Arenas, Arena]]) -> None:
        """Take the arenas of this run; what is in `taken` is given back after it."""
        held = self._memory.arenas
        for device, size in self.program.arenas.items():
            before = held.get(device)
            supplier = self._memory.supplier(device)
            arena = supplier.acquire(size.nbytes, before, self.program.block_bytes)
            taken.append((supplier, arena))
            if arena is not before:
                self._settle_in(device, arena)

    def _join_arena(self) -> None:
        """Take the arena that all programs of one launch share: the stream orders their work."""
        held = self._memory.arenas.get("cuda")
        if held is not None and held.is_shared:
            return
        needed = self.program.arenas["cuda"].nbytes
        shared = self._memory.supplier("cuda").share(needed, self.program.block_bytes)
        self._settle_in("cuda", shared)

    def _settle_in(self, device: str, arena: Arena) -> None:
        arena.users.add(self)
        self._unbind()
        self._memory.arenas[device] = arena

    def _take_outputs(self) -> list[Any]:
        """Return the array of each output of this run."""
        slots = self._memory.slots
        found = []
        for index, ring in enumerate(self._memory.rings):
            slot = ring.take()
            if slot is not slots[index]:
                self._write_to(index, slot)
            found.append(slot.array)
        return found

    def _write_to(self, index: int, slot: Slot) -> None:
        """Let an output be written to another buffer."""
        self._memory.slots[index] = slot
        for step in self._output_steps[index]:
            self._calls.move(step, slot)
        if slot.is_on_device and self._device is not None:
            self._device.move("output", index, slot.array.ptr)

    def unbind(self) -> None:
        """Forget the arena; the next run binds every step again.

        A runtime that is running has an arena of its own and forgets the old one by itself.
        """
        if self._lock.acquire(blocking=False):
            try:
                if not self._is_running:
                    self._unbind()
                    self._memory.arenas.clear()
            finally:
                self._lock.release()

    def _unbind(self) -> None:
        self._calls.reset()
        self._memory.forget_bindings()

    @property
    def held_bytes(self) -> int:
        """Bytes of output buffers that nobody but this runtime holds, and of small leaves."""
        alone = self._alone.held_bytes if self._alone else 0
        return self._memory.held_bytes + self._inputs.fixed_bytes + alone

    def release_idle(self) -> None:
        """Give back the output buffers that nobody uses; those of a running program stay."""
        if self._alone:
            self._alone.release()
        if self._lock.acquire(blocking=False):
            try:
                if not self._is_running:
                    self._reset()
                    self._memory.forget_outputs()
                    self._inputs.release()
            finally:
                self._lock.release()
