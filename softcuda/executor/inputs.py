"""What the leaves of a program are bound to, from run to run."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcuda.compiler.program import Program
from softcuda.executor.calls import StepCalls
from softcuda.executor.memory import ProgramMemory
from softcuda.executor.on_demand import land
from softcuda.executor.overlaps import InPlaceBuffers
from softcuda.executor.slots import slot_bytes, slot_of
from softcuda.graph.op import OPS

if TYPE_CHECKING:
    from softcuda.executor.device_steps import DeviceSteps
    from softcuda.pool.device import DeviceArray

__all__ = ["FIXED_BYTES", "SMALL_BYTES", "Inputs"]

Array = np.ndarray[Any, Any]

SMALL_BYTES = 65536  # host arrays up to this size are copied into fixed slots ..
FIXED_BYTES = 262144  # .. as long as all slots of a runtime stay below this

_VARIABLE: Final = OPS["variable"]


class Inputs:
    """The leaves of a program: the array of each, and what depends on it.

    A step of the host is bound again when a leaf that it reads is another array. A kernel is told
    the new address of a leaf, where it is another one.

    Attributes:
        is_guarding: whether a leaf shares memory with a variable that is written in place, so
            that it must be copied before each run.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        calls: StepCalls,
        device: DeviceSteps | None,
    ) -> None:
        self._memory = memory
        self._calls = calls
        self._device = device
        self._updated = program.updated
        self._steps = calls.touching(("leaf", "variable"), len(memory.leaves))
        self._pointers: list[int | None] = [None] * len(memory.leaves)
        self._targets: list[int | None] = [None] * len(memory.leaves)
        lines = program.graph.lines
        self._is_on_device = [
            number >= 0 and lines[number].params.device == "cuda" for number in program.leaf_lines
        ]
        self._given: Sequence[Any] | Mapping[int, Any] | None = None  # where the variables are
        self._buffers = InPlaceBuffers(program)
        self.is_guarding = False
        self._lines = [lines[number] if number >= 0 else None for number in program.leaf_lines]
        self._slot_bytes = [slot_bytes(line) if line else 0 for line in self._lines]
        self._fixed: dict[int, Array] = {}
        # Variables are read where they lie, under their locks.
        self._read = [position for position, line in enumerate(self._lines) if line is not None]
        self._is_plain = not any(line and line.op is _VARIABLE for line in self._lines)
        self._is_told = (
            device is not None
            and self._is_plain
            and not any(map(operator.and_, map(bool, self._steps), self._is_on_device))
            # Its steps are bound when `again` is asked, not later in a run.
            and (device.only_segment is not None or not program.arenas)
        )
        # Position and fixed slot of every leaf that steps read, where they read its slot.
        self._filled: list[tuple[int, Array]] = []
        # What is told where each leaf is, and where it is noted; plain tuples are unpacked sooner.
        found = {} if device is None else device.patches("leaf")
        self._told = [
            [tuple(patch) for patch in found.get(position, ())]
            for position in range(len(memory.leaves))
        ]
        self._moved = {} if device is None else device.moved
        self._kind = None if device is None else device.KIND
        self._is_pointed = False  # whether steps know where all leaves were in the run before
        self._landings: dict[int, DeviceArray] = {}
        self.fixed_bytes = 0

    def again(self, leaves: Sequence[Any]) -> bool:
        """Take the arrays of this run where the run before took others of the same kind.

        Args:
            leaves: as in `take`.

        Returns:
            True where all leaves are copied to the memory that steps are bound to, or read by
            kernels alone, which are told the addresses. False where `take` has to see to it.
        """
        if self._filled:
            for position, slot in self._filled:
                slot[...] = leaves[position]
            return True
        if not self._is_pointed or self._calls.stale:
            return False
        bound, pointers, told = self._memory.leaves, self._pointers, self._told
        kind = self._kind
        for position, array in enumerate(leaves):
            if array is bound[position]:
                continue
            if array.__class__ is not kind:  # an array of the host
                places = self._landings if self._is_on_device[position] else self._fixed
                if bound[position] is None or bound[position] is not places.get(position):
                    return False
                self._copied(position, array, is_passing=True)
                continue
            ptr = array.ptr
            if ptr != pointers[position]:
                pointers[position] = ptr
                bound[position] = None  # where a host array was copied, if it was
                for field, offset_bytes, node in told[position]:  # as DeviceSteps.move
                    field.value = ptr + offset_bytes
                    if node is not None:
                        self._moved[node] = None
        return True

    def take(
        self,
        leaves: Sequence[Any],
        variables: Sequence[Any] | Mapping[int, Any],
        transient: Collection[int],
    ) -> list[int]:
        """Note the arrays of this run; return the positions to forget after it.

        Args:
            leaves: the array of each leaf, by position.
            variables: the buffers that updates write, by position among the leaves.
            transient: positions whose arrays are not kept after the run; a set or a dict.
        """
        bound = self._memory.leaves
        if self._updated:
            self._take_variables(variables)
        self.is_guarding = False
        forget: list[int] = []
        for position, array in enumerate(leaves):
            if array is bound[position]:
                continue
            kept = array
            if isinstance(array, np.ndarray):
                kept = self._copied(position, array, is_passing=position in transient)
            if kept is array and self._updated:
                kept = self._buffers.apart(position, array)
                self.is_guarding |= kept is not array
            if kept is array and position in transient:
                forget.append(position)
            if kept is not bound[position]:
                self._bind(position, kept)
        if self._fixed and self._is_plain:
            fixed = [(position, self._fixed.get(position)) for position in self._read]
            self._filled = [(p, slot) for p, slot in fixed if slot is not None and slot is bound[p]]
            if len(self._filled) < len(fixed):
                self._filled = []
        self._is_pointed = self._is_told
        return forget

    def _bind(self, position: int, array: Array | DeviceArray) -> None:
        """Let the steps that read a leaf read another array."""
        self._memory.leaves[position] = array
        if not isinstance(array, np.ndarray):
            if array.ptr == self._pointers[position]:
                return
            self._pointers[position] = array.ptr
            if self._device is not None:
                self._device.move("leaf", position, array.ptr)
        if self._steps[position]:
            self._calls.spoil(self._steps[position])

    def _copied(self, position: int, array: Array, *, is_passing: bool) -> Array | DeviceArray:
        """Return the copy of a host array that steps read, itself where they read it in place."""
        if self._is_on_device[position]:
            landing = self._landings[position] = land(array, self._landings.get(position))
            return landing
        fixed = self._fixed_slot(position, array) if is_passing else None
        if fixed is None:
            return array
        fixed[...] = array
        return fixed

    def _take_variables(self, variables: Sequence[Any] | Mapping[int, Any]) -> None:
        if variables is self._given:
            return
        self._given = variables
        held, updated = self._memory.variables, self._updated
        if all(map(operator.is_, map(held.get, updated), map(variables.__getitem__, updated))):
            return
        for position in updated:
            array = held[position] = variables[position]
            self._calls.spoil(self._steps[position])
            if self._device is None or isinstance(array, np.ndarray):
                continue
            if array.ptr != self._targets[position]:
                self._targets[position] = array.ptr
                self._device.move("variable", position, array.ptr)
        self._buffers.note(held)
        self._memory.leaves[:] = [None] * len(self._memory.leaves)  # what overlaps is another

    def _fixed_slot(self, position: int, array: Array) -> Array | None:
        """Return the memory that a small leaf is copied into, None where it gets none."""
        fixed = self._fixed.get(position)
        line, nbytes = self._lines[position], self._slot_bytes[position]
        if fixed is not None or line is None or nbytes > SMALL_BYTES:
            return fixed
        if self.fixed_bytes + nbytes <= FIXED_BYTES:
            fixed = self._fixed[position] = slot_of(line)
            self.fixed_bytes += nbytes
        return fixed

    def forget(self, positions: Sequence[int]) -> None:
        """Drop every reference to the arrays of transient leaves.

        Kernels keep the address: the next run compares it with that of its own array first.
        """
        for position in positions:
            if isinstance(self._memory.leaves[position], np.ndarray):
                self._calls.drop(self._steps[position])
            self._memory.leaves[position] = None

    def release(self) -> None:
        """Give back the device memory that host arrays were copied to."""
        self._landings.clear()

    def reset(self) -> None:
        """Forget every array and every address."""
        count = len(self._memory.leaves)
        self._memory.leaves[:] = [None] * count
        self._filled = []
        self._is_pointed = False
        self._memory.variables.clear()
        self._given = None
        self._pointers = [None] * count
        self._targets = [None] * count
