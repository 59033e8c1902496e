"""The runtime of one program: its calls, bound to memory once and replayed."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softcuda.compiler.program import Program
from softcuda.errors import BackendError, NoDeviceError
from softcuda.executor.arenas import Arena, Arenas
from softcuda.executor.calls import StepCalls
from softcuda.executor.memory import ProgramMemory
from softcuda.executor.on_demand import device_steps, session
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.forks import renew_in_child
from softcuda.pool.buffers import aligned_empty

if TYPE_CHECKING:
    from softcuda.executor.devices import DeviceSession

__all__ = ["FIXED_BYTES", "SMALL_BYTES", "Runtime"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

SMALL_BYTES = 65536  # inputs up to this size are copied into fixed slots ..
FIXED_BYTES = 262144  # .. as long as all slots of a runtime stay below this


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
        self._lock = threading.RLock()
        self._is_running = False
        self._is_whole = True  # False while a run changes what it is bound to
        self._context = _quiet_context()
        on_device = _session_for(program)
        self._memory = memory = ProgramMemory(program, on_device)
        self._device = None if on_device is None else device_steps(program, on_device, memory)
        self._shared = [
            position
            for position, number in enumerate(program.leaf_lines)
            if program.graph.lines[number].op.name == "variable"
        ]
        self._given: Sequence[Any] | None = None
        self._fixed: dict[int, Array] = {}
        self._fixed_bytes = 0
        self._calls = StepCalls(program, memory, self._device)
        self._index_steps()
        renew_in_child(self)

    def _index_steps(self) -> None:
        """Note which steps touch each leaf and each output."""
        self._leaf_steps: list[set[int]] = [set() for _ in self._memory.leaves]
        self._output_steps: list[set[int]] = [set() for _ in self._memory.rings]
        for number, step in enumerate(self.program.steps):
            for operand in (*step.inputs, *step.outputs):
                place = self.program.places[operand.value]
                if place.space in ("leaf", "variable"):
                    self._leaf_steps[place.at].add(number)
                elif place.space in ("output", "lent"):
                    self._output_steps[place.at].add(number)

    def run(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Sequence[int] = (),
    ) -> list[Any]:
        """Run the program; return an array for each of its output lines.

        What a device computes may still be under way when this returns.

        Args:
            leaves: the array of each leaf, by position, of the declared shape, dtype and strides.
            variables: the buffers that updates write, by position among the leaves.
            transient: positions whose arrays are not kept after the run.

        Raises:
            BackendError: this thread is amid a run of the program already.
            IndexOutOfRange, IntegerPowerError: a step met a bad value.
        """
        with self._lock:
            if self._is_running:
                raise BackendError(
                    "run: this executable is running in this thread already; a signal handler or a "
                    "callback cannot run it again, compile another one for it"
                )
            self._is_running = True
            try:
                if not self._shared:
                    if self._device is None:
                        return self._run(leaves, variables, transient)
                    return self._on_device(leaves, variables, transient)
                buffers = [leaves[position] for position in self._shared]
                buffers.extend(variables[position] for position in self.program.updated)
                with VARIABLE_LOCKS.held(buffers):
                    return self._on_device(leaves, variables, transient)
            finally:
                self._is_running = False

    def _on_device(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Sequence[int],
    ) -> list[Any]:
        """Run with the device's context current, where the program has a device."""
        if self._device is None:
            return self._run(leaves, variables, transient)
        with self._device.current():
            return self._run(leaves, variables, transient)

    def _run(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Sequence[int],
    ) -> list[Any]:
        if not self._is_whole:
            self._reset()
        self._is_whole = False
        taken: list[tuple[Arenas, Arena]] = []
        forget: list[int] = []
        try:
            if leaves is not self._given or transient or self._calls.stale:
                forget = self._take_leaves(leaves, variables, transient)
            if self.program.arenas:
                self._take_arenas(taken)
            self._take_outputs()
            if self._calls.stale:
                self._context.run(self._calls.bind_stale)
            self._context.run(_replay, self._calls.flat)
            found = [slot.array for slot in self._memory.slots if slot is not None]
            for position in forget:
                self._forget(position)
            self._is_whole = True
            return found
        except BaseException:
            if self._device is not None:
                self._device.wait()  # its memory is free again afterwards
            self._reset()  # keeps nothing alive that the caller let go of
            raise
        finally:
            while taken:
                supplier, arena = taken.pop()
                supplier.release(arena)

    def _reset(self) -> None:
        """Forget every binding: the run before was interrupted or failed."""
        self._unbind()
        self._given = None
        self._memory.leaves = [None] * len(self._memory.leaves)
        self._memory.slots = [None] * len(self._memory.slots)

    def after_fork(self) -> None:
        """Begin anew in a forked child: another thread may have been amid a run."""
        self._lock = threading.RLock()
        self._is_running = False
        self._is_whole = False

    def _take_leaves(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Sequence[int],
    ) -> list[int]:
        """Note the arrays of this run; return the positions to forget afterwards."""
        memory = self._memory
        memory.variables = {position: variables[position] for position in self.program.updated}
        forget: list[int] = []
        arrays = list(leaves)
        for position in transient:
            array = arrays[position]
            if array is memory.leaves[position]:
                continue
            small = array.nbytes <= SMALL_BYTES and isinstance(array, np.ndarray)
            if small and array.flags.c_contiguous:
                fixed = self._fixed_slot(position, array)
                if fixed is not None:
                    fixed[...] = array
                    arrays[position] = fixed
                    continue
            forget.append(position)
        for position, array in enumerate(arrays):
            if memory.leaves[position] is not array:
                memory.leaves[position] = array
                self._calls.spoil(self._leaf_steps[position])
        self._given = None if transient else leaves
        return forget

    def _fixed_slot(self, position: int, array: Array) -> Array | None:
        """Return the memory that a small leaf is copied into, None where there is no room left."""
        fixed = self._fixed.get(position)
        if fixed is None and self._fixed_bytes + array.nbytes <= FIXED_BYTES:
            fixed = self._fixed[position] = aligned_empty(array.shape, array.dtype)
            self._fixed_bytes += array.nbytes
        return fixed

    def _take_arenas(self, taken: list[tuple[Arenas, Arena]]) -> None:
        """Take the arenas of this run; what is in `taken` is given back after it."""
        held = self._memory.arenas
        for device, size in self.program.arenas.items():
            before = held.get(device)
            supplier = self._memory.supplier(device)
            arena = supplier.acquire(size.nbytes, before, self.program.block_bytes)
            taken.append((supplier, arena))
            if arena is not before:
                arena.users.add(self)
                self._unbind()
                held[device] = arena

    def _take_outputs(self) -> None:
        slots = self._memory.slots
        for index, ring in enumerate(self._memory.rings):
            slot = ring.take()
            if slot is not slots[index]:
                slots[index] = slot
                for step in self._output_steps[index]:
                    self._calls.move(step, slot)

    def _forget(self, position: int) -> None:
        """Drop every reference to a transient leaf's array."""
        self._memory.leaves[position] = None
        self._calls.drop(self._leaf_steps[position])

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
        for ring in self._memory.rings:
            ring.forget_bindings()

    @property
    def held_bytes(self) -> int:
        """Bytes of output buffers that nobody but this runtime holds, and of small leaves."""
        return self._memory.held_bytes + self._fixed_bytes

    def release_idle(self) -> None:
        """Give back the output buffers that nobody uses; those of a running program stay."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._is_running:
                    self._unbind()
                    self._memory.forget_outputs()
            finally:
                self._lock.release()
