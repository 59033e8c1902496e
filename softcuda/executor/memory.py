"""The memory of one program: which arrays and addresses its values have in this run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softcuda.backends.steps import Operand
from softcuda.compiler.program import Place, Program
from softcuda.compiler.table import largest_values
from softcuda.errors import DeviceOutOfMemory
from softcuda.executor.arenas import HOST_ARENAS, OWN_BYTES, Arena, Arenas, own_arena
from softcuda.executor.binding import arena_window, window_on
from softcuda.executor.on_demand import device_memory
from softcuda.executor.outputs import OutputRing, Slot, host_slot
from softcuda.graph.params import value_of

if TYPE_CHECKING:
    from softcuda.executor.devices import DeviceSession

__all__ = ["ProgramMemory", "with_largest"]

Array = np.ndarray[Any, Any]

_CONSTANT_ROOM = 16  # bytes of a number in device memory


def with_largest(error: DeviceOutOfMemory, program: Program) -> DeviceOutOfMemory:
    """Return an error of a run with the three largest values that the program computes."""
    text = f"{error}; the largest values of the graph: {largest_values(program)}"
    return DeviceOutOfMemory(text, error.code, error.name)


class ProgramMemory:
    """Leaves, numbers, output buffers and arenas of a program, on the host and on a device.

    Attributes:
        leaves: the array of each leaf, by position; None where it is not bound.
        variables: the buffers that updates write, by their position among the leaves.
        rings: the buffers of each output.
        slots: the buffer that each output takes in this run.
        arenas: device type -> the arena of this run, or of the last one.
        owns_arena: whether the only arena is so small that no other program shares it.
    """

    def __init__(self, program: Program, session: DeviceSession | None) -> None:
        self._program = program
        self._session = session
        lines = program.graph.lines
        with np.errstate(all="ignore"):  # a number that is too large for its dtype is infinite
            self._numbers = {
                number: np.array(value_of(line.params.value), line.dtype.numpy)
                for number, line in enumerate(lines)
                if line.op.name == "constant"
            }
        self._device_numbers = self._upload_numbers()
        self.rings = [self.another_ring(number) for number in program.output_lines]
        self.leaves: list[Any] = [None] * len(program.leaf_lines)
        self.variables: dict[int, Any] = {}
        self.slots: list[Slot | None] = [None] * len(self.rings)
        self.arenas: dict[str, Arena] = {}
        sizes = program.arenas
        self.owns_arena = set(sizes) == {"cpu"} and sizes["cpu"].nbytes <= OWN_BYTES
        if self.owns_arena:
            self.arenas["cpu"] = own_arena(sizes["cpu"].nbytes)

    def another_ring(self, number: int) -> OutputRing:
        """Return buffers for the value of a line, none made yet; the caller releases them."""
        line = self._program.graph.lines[number]
        on_device = self._program.places[number].device == "cuda" and self._session is not None
        make = self._session.slot if on_device and self._session is not None else host_slot
        return OutputRing(line.dims, line.dtype.numpy, make)

    def _upload_numbers(self) -> Any:
        """Put the numbers of the graph where kernels can read them."""
        if self._session is None or not self._numbers:
            return None
        memory = device_memory(self._session, _CONSTANT_ROOM * len(self._numbers))
        packed = np.zeros((len(self._numbers), _CONSTANT_ROOM), np.uint8)
        for number, value in self._numbers.items():
            row = packed[self._program.places[number].at]
            row[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        self._session.upload(packed, memory.ptr)
        return memory

    def supplier(self, device: str) -> Arenas:
        """Return where the arenas of a device type come from."""
        if device == "cuda" and self._session is not None:
            return self._session.arenas
        return HOST_ARENAS

    def window(self, operand: Operand) -> Array:
        """Return the host array that an operand names."""
        place = self._program.places[operand.value]
        if place.space == "arena":
            arena = self.arenas.get("cpu")
            return arena_window(None if arena is None else arena.memory, place.at, operand)
        if place.space == "lent":
            return arena_window(self._slot(place.at).memory.reshape(-1).view(np.uint8), 0, operand)
        if place.space == "constant":
            return window_on(self._numbers[operand.value], operand)
        if place.space == "output":
            return window_on(self._slot(place.at).memory, operand)
        return window_on(self._leaf(place), operand)

    def address(self, operand: Operand) -> int:
        """Return the device address that an operand names: of its first logical element."""
        place = self._program.places[operand.value]
        if place.space == "arena":
            arena = self.arenas.get("cuda")
            base = 0 if arena is None else arena.ptr + place.at
        elif place.space in ("lent", "output"):
            base = self._slot(place.at).memory.ptr
        elif place.space == "constant":
            memory = self._device_numbers
            base = 0 if memory is None else memory.ptr + _CONSTANT_ROOM * place.at
        else:
            base = self._leaf(place).ptr
        return int(base) + operand.offset * operand.dtype.itemsize

    def scratch(self, step: int, nbytes: int) -> Array | None:
        """Return the scratch of a CPU step, None where it needs none."""
        arena = self.arenas.get("cpu")
        if not nbytes or arena is None:
            return None
        at = self._program.places[~step].at
        memory: Array = arena.memory[at : at + nbytes]
        return memory

    def scratch_address(self, step: int) -> int:
        """Return the address of the scratch of a CUDA step."""
        arena = self.arenas.get("cuda")
        return 0 if arena is None else arena.ptr + self._program.places[~step].at

    def _slot(self, index: int) -> Slot:
        slot = self.slots[index]
        if slot is None:
            raise AssertionError(f"output {index} has no buffer while a step is bound")
        return slot

    def _leaf(self, place: Place) -> Any:
        array = self.variables[place.at] if place.space == "variable" else self.leaves[place.at]
        if array is None:
            raise AssertionError(f"leaf {place.at} has no array while a step is bound")
        return array

    @property
    def held_bytes(self) -> int:
        """Bytes of output buffers that nobody else holds."""
        return sum(ring.held_bytes for ring in self.rings)

    def forget_bindings(self) -> None:
        """Drop every call that was bound to an output buffer."""
        for ring in self.rings:
            ring.forget_bindings()

    def forget_outputs(self) -> None:
        """Give back the output buffers that nobody uses."""
        self.slots = [None] * len(self.rings)
        for ring in self.rings:
            ring.release()
