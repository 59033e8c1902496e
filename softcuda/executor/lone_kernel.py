"""A program that is one kernel: a run tells it where its arrays are, and launches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from softcuda.backends.steps import Operand
from softcuda.compiler.program import Place, Program
from softcuda.driver.context import CurrentContext
from softcuda.driver.launch import LAUNCH
from softcuda.errors import DeviceOutOfMemory
from softcuda.executor.memory import with_largest
from softcuda.executor.outputs import OutputRing
from softcuda.executor.segments import Segment, pointed
from softcuda.pool.device import DeviceArray

__all__ = ["LoneKernel", "lone_kernel"]


class LoneKernel:
    """The only kernel of a program, with arguments and output buffers of its own.

    A run writes every address anew, so that an interrupted one leaves nothing amiss. It needs no
    lock, but for one run at a time: whoever runs it has taken it away from all others.

    Args:
        program: the program.
        segment: what it is, launched before.
        current: tells whether the device's context is current.
        reads: of each pointer to a leaf the leaf's position, the argument, and how far in that
            points [bytes].
        writes: the arguments that point to the output, and how far in [bytes].
        ring: buffers of the output that nobody else takes.
    """

    __slots__ = ("_current", "_launch", "_program", "_reads", "_segment", "_writes", "ring")

    def __init__(
        self,
        program: Program,
        segment: Segment,
        current: CurrentContext,
        reads: Sequence[tuple[int, Any, int]],
        writes: Sequence[tuple[Any, int]],
        launch: Callable[[], int],
        ring: OutputRing,
    ) -> None:
        self._program = program
        self._segment = segment
        self._current = current
        self._reads = reads
        self._writes = writes
        self._launch = launch
        self.ring = ring

    def run(self, leaves: Sequence[Any]) -> DeviceArray | None:
        """Submit the kernel.

        Args:
            leaves: the array of each leaf, by position.

        Returns:
            The output; None, and nothing is done, where a leaf is no array of the device.

        Raises:
            DriverError: the launch was refused; everything stays usable.
            DeviceLost: an earlier fault showed.
            DeviceOutOfMemory: there is no room for the output.
            ForkedProcessError: this process was forked from the one that made it.
        """
        for position, field, offset_bytes in self._reads:
            array = leaves[position]
            if array.__class__ is not DeviceArray:
                return None
            ptr = array.ptr
            field.value = ptr + offset_bytes if offset_bytes else ptr
        current = self._current
        if current.is_here():
            return self._submit()
        with current.pushed():
            return self._submit()

    def _submit(self) -> DeviceArray:
        """Launch it on the leaves that it was told, with the device's context current."""
        segment = self._segment
        try:
            made: DeviceArray = self.ring.take().array
            ptr = made.ptr
            for field, offset_bytes in self._writes:
                field.value = ptr + offset_bytes if offset_bytes else ptr
            code = self._launch()
            if code:
                raise segment.driver.failure(LAUNCH, code)
        except DeviceOutOfMemory as error:
            raise with_largest(error, self._program) from None
        segment.note()
        return made


def lone_kernel(
    program: Program,
    segment: Segment,
    current: CurrentContext,
    address: Callable[[Operand], int],
    ring: OutputRing,
) -> LoneKernel | None:
    """Return the only kernel of a program; None where it needs more than leaves and an output.

    Args:
        program: the program, without variables.
        segment: what it is, of a kernel alone, launched before.
        current: tells whether the device's context is current; asked by nobody else.
        address: operand -> device address of a number of the graph.
        ring: buffers of its only output that nobody else takes.
    """
    (step,) = (step for step in program.steps if step.launches)
    bound, launch = segment.again()
    reads: list[tuple[int, Any, int]] = []
    writes: list[tuple[Any, int]] = []
    for field, argument in zip(bound.args.fields, bound.launch.arguments, strict=True):
        if argument.kind == "scratch":
            return None
        operand = pointed(step, argument)
        if operand is None:
            continue
        place: Place = program.places[operand.value]
        offset_bytes = operand.offset * operand.dtype.itemsize
        if place.space == "leaf" and argument.kind == "read":
            reads.append((place.at, field, offset_bytes))
        elif place.space == "output" and argument.kind == "write":
            writes.append((field, offset_bytes))
        elif place.space == "constant":
            field.value = address(operand)
        else:
            return None
    return LoneKernel(program, segment, current, reads, writes, launch, ring)
