"""The CUDA steps and transfers of a program: bound to addresses, told of those that move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from softcuda.backends.steps import Operand, Step
from softcuda.compiler.program import Program
from softcuda.driver.context import CurrentContext
from softcuda.driver.memory import DeviceMemory
from softcuda.errors import SoftCudaError
from softcuda.executor.devices import DeviceSession
from softcuda.executor.inlets import INLET_BYTES, DeviceCopy, SharedInlet
from softcuda.executor.lone_kernel import LoneKernel, lone_kernel
from softcuda.executor.outputs import OutputRing
from softcuda.executor.segments import BoundKernel, Segment, pointed
from softcuda.graph.shapes import is_contiguous
from softcuda.pool.device import DeviceArray

__all__ = ["DeviceSteps", "Patch"]

Call = tuple[Any, tuple[Any, ...]]

_SHARED_READERS = 3  # a copy costs as much as telling two kernels an address
_MOST_INLETS = 32  # of a segment: each needs a pinned slot of its own until the launch

# What moves from run to run, and where it is counted: an output lent to an earlier value is the
# same buffer.
_MOVING: Mapping[str, str] = {
    "leaf": "leaf",
    "variable": "variable",
    "output": "output",
    "lent": "output",
}


Moved = BoundKernel | SharedInlet | DeviceCopy


class Patch(NamedTuple):
    """What of a node points into a value: the field, and how far in [bytes].

    `bound` is what has a node that is told then; None for a kernel that is launched by itself,
    which reads its fields.
    """

    field: Any
    offset_bytes: int
    bound: Moved | None


class DeviceSteps:
    """The CUDA steps and transfers of one program, bound to addresses.

    Args:
        program: the program.
        session: the device that runs it.
        window: operand -> host array, for the host side of transfers.
        address: operand -> device address.
        scratch: step number -> device address of its scratch.

    Attributes:
        moved: the kernels, inlets and copies whose addresses are others than their driver graph
            has, in order.
        only_segment: the segment that the whole program is, where a run is one launch; else None.
        KIND: the class of arrays on a device.
    """

    KIND: Final = DeviceArray

    def __init__(
        self,
        program: Program,
        session: DeviceSession,
        window: Callable[[Operand], Any],
        address: Callable[[Operand], int],
        scratch: Callable[[int], int],
    ) -> None:
        self._program = program
        self._session = session
        self._window = window
        self._address = address
        self._scratch = scratch
        self._segment_of: dict[int, Segment] = {}
        self._first: dict[int, int] = {}
        self._patches: dict[str, dict[int, list[Patch]]] = {s: {} for s in _MOVING.values()}
        self._shared: dict[int, SharedInlet] = {}
        self._kept: list[DeviceMemory] = []
        self.moved: dict[Moved, None] = {}
        run: list[tuple[int, Step]] = []
        for number, step in enumerate(program.steps):
            is_node = step.backend_id == "transfer" and self._is_node(step)
            if not is_node and (step.backend_id == "transfer" or not program.on_device(step)):
                self._close(run)
                run = []
                continue
            if step.kernel == "h2d" and sum(s.kernel == "h2d" for _, s in run) == _MOST_INLETS:
                self._close(run)
                run = []
            run.append((number, step))
        self._close(run)
        is_all = len(self._segment_of) == len(program.steps) and len(set(self._first.values())) == 1
        self.only_segment = self._segment_of[0] if is_all else None
        self._share_inlets()
        self._free_kernels_alone()

    def _is_node(self, step: Step) -> bool:
        """Return whether a transfer is part of the driver graph."""
        nbytes = self._program.graph.lines[step.inputs[0].value].nbytes
        return nbytes > 0 and (
            step.kernel == "d2d" or (step.kernel == "h2d" and nbytes <= INLET_BYTES)
        )

    def _close(self, run: list[tuple[int, Step]]) -> None:
        if run:
            segment = Segment(self._session, run, self._program.places)
            for number, step in run:
                self._segment_of[number] = segment
                self._first[number] = run[0][0]
                for bound in segment.kernels[number]:
                    self._note_patches(step, bound)
            for number, copy in segment.copies.items():
                step = self._program.steps[number]
                for end, operand in zip(copy.ends, (*step.inputs, *step.outputs), strict=True):
                    self._note(operand, end, copy)

    def _note_patches(self, step: Step, bound: BoundKernel) -> None:
        """Note which arguments of a kernel point into leaves and outputs."""
        for field, argument in zip(bound.args.fields, bound.launch.arguments, strict=True):
            operand = pointed(step, argument)
            if operand is not None:
                self._note(operand, field, bound)

    def _note(self, operand: Operand, field: Any, bound: BoundKernel | DeviceCopy) -> None:
        """Note that a field of a node points into a value, where that moves."""
        place = self._program.places[operand.value]
        if place.space in _MOVING:
            patch = Patch(field, operand.offset * operand.dtype.itemsize, bound)
            self._patches[_MOVING[place.space]].setdefault(place.at, []).append(patch)

    def _share_inlets(self) -> None:
        """Give every small input that several kernels read a place of its own."""
        for position, number in enumerate(self._program.leaf_lines):
            if number < 0:
                continue
            line = self._program.graph.lines[number]
            patches = self._patches["leaf"].get(position, ())
            readers = {patch.bound for patch in patches}
            if line.op.name != "input" or not 0 < line.nbytes <= INLET_BYTES:
                continue
            if len(readers) < _SHARED_READERS or not is_contiguous(line.dims, line.params.strides):
                continue
            memory = self._session.ledger.memory(line.nbytes)
            self._kept.append(memory)
            reading = [n for n, s in self._segment_of.items() if readers & set(s.kernels[n])]
            inlet = SharedInlet(memory.ptr, line.nbytes, f"leaf {position}", frozenset(reading))
            self._shared[position] = inlet
            self._patches["leaf"][position] = [Patch(inlet.src, 0, inlet)]
            self._segment_of[min(reading)].shared_inlets.append(inlet)

    def _free_kernels_alone(self) -> None:
        """Let what a kernel that is launched by itself reads and writes be moved by its fields."""
        alone = {
            bound
            for number, segment in self._segment_of.items()
            if segment.is_alone
            for bound in segment.kernels[number]
        }
        for patches in self._patches.values():
            for at, found in patches.items():
                patches[at] = [p._replace(bound=None) if p.bound in alone else p for p in found]

    def patches(self, space: str) -> Mapping[int, Sequence[Patch]]:
        """Return what is told the address of each value of a space, by its place there.

        For `move`, done by the caller.
        """
        return self._patches[space]

    def move(self, space: str, at: int, ptr: int) -> None:
        """Let every kernel that reads or writes a leaf or an output use another address.

        Args:
            space: "leaf", "variable" or "output".
            at: its position or number there.
            ptr: the device address of its first byte.
        """
        for field, offset_bytes, bound in self._patches[space].get(at, ()):
            field.value = ptr + offset_bytes
            if bound is not None:
                self.moved[bound] = None

    def apply(self) -> None:
        """Write the addresses that were moved into the driver graphs, one call a kernel."""
        for moved in self.moved:
            if moved.node is not None:
                moved.node.apply()
        self.moved.clear()

    def current_context(self) -> CurrentContext:
        """Return what tells whether the device's context is current, as it is in a run."""
        return CurrentContext(self._session.context.primary)

    def lone_kernel(self, segment: Segment, ring: OutputRing) -> LoneKernel | None:
        """Return the only kernel that the program is, as the function `lone_kernel`.

        Args:
            segment: what the program is, launched before.
            ring: buffers of its only output that nobody else takes.
        """
        current = self.current_context()
        return lone_kernel(self._program, segment, current, self._address, ring)

    def wait(self) -> None:
        """Wait for the device; a fault that shows is left to the next call."""
        with suppress(SoftCudaError):
            self._session.stream.synchronize()

    def bind(self, number: int) -> list[Call]:
        """Return the calls of a step; a segment is launched by its first step's."""
        step = self._program.steps[number]
        segment = self._segment_of.get(number)
        if segment is None:
            return self._bind_transfer(step)
        inlet = segment.host_inlets.get(number)
        if inlet is not None:
            inlet.point(self._window(step.inputs[0]), self._address(step.outputs[0]))
            return [(segment.run, ())] if self._first[number] == number else []
        copy = segment.copies.get(number)
        if copy is not None:
            for end, operand in zip(copy.ends, (*step.inputs, *step.outputs), strict=True):
                end.value = self._address(operand)
            self.moved[copy] = None
            return [(segment.run, ())] if self._first[number] == number else []
        reads = [self._place_of(operand) for operand in step.inputs]
        writes = [self._address(operand) for operand in step.outputs]
        scratch = self._scratch(number) if step.scratch_bytes else 0
        for bound in segment.kernels[number]:
            bound.point(reads, writes, scratch)
        return [(segment.run, ())] if self._first[number] == number else []

    def _place_of(self, operand: Operand) -> int:
        """Return the address that a kernel reads an operand at."""
        place = self._program.places[operand.value]
        inlet = self._shared.get(place.at) if place.space == "leaf" else None
        if inlet is None:
            return self._address(operand)
        return inlet.dst + operand.offset * operand.dtype.itemsize

    def forget(self, number: int) -> bool:
        """Let go of the host array that a node of a driver graph brings, and return True.

        It is bound to another one before it runs. False where the step is no such node.
        """
        segment = self._segment_of.get(number)
        inlet = None if segment is None else segment.host_inlets.get(number)
        if inlet is None:
            return False
        inlet.forget()
        return True

    def _bind_transfer(self, step: Step) -> list[Call]:
        source, target = step.inputs[0], step.outputs[0]
        if step.kernel == "h2d":
            return [(self._session.upload, (self._window(source), self._address(target)))]
        if step.kernel == "d2h":
            return [(self._session.download, (self._address(source), self._window(target)))]
        return []  # a copy on the device of nothing
