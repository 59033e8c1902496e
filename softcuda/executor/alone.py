"""Runs of a program that is one kernel, which need no lock: whoever runs it takes it away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from softcuda.compiler.program import Program
from softcuda.executor.memory import ProgramMemory

if TYPE_CHECKING:
    from softcuda.executor.device_steps import DeviceSteps
    from softcuda.executor.lone_kernel import LoneKernel

__all__ = ["Alone", "alone_of"]


class Alone:
    """The only kernel of a program, once a run has shown that it is that.

    A thread that comes while another one runs it, or a signal handler, finds nothing here and runs
    the program as if it were of many steps.
    """

    __slots__ = ("_device", "_kernels", "_memory", "_program")

    def __init__(self, program: Program, memory: ProgramMemory, device: DeviceSteps) -> None:
        """Prepare for a program as `alone_of` describes it."""
        self._program = program
        self._memory = memory
        self._device: DeviceSteps | None = device  # None once the kernel was looked for
        self._kernels: list[LoneKernel] = []  # one at most

    def run(self, leaves: Sequence[Any]) -> Any:
        """Return the output of the kernel; None where it is not here, or a leaf is on the host.

        Args:
            leaves: the array of each leaf, by position.

        Raises:
            DriverError, DeviceLost, DeviceOutOfMemory, ForkedProcessError: as `LoneKernel.run`.
        """
        kernels = self._kernels
        try:
            kernel = kernels.pop()
        except IndexError:
            return None
        try:
            return kernel.run(leaves)
        finally:
            kernels.append(kernel)

    def find(self, leaves: Sequence[Any]) -> bool:
        """Look for the kernel after a run over some leaves; return whether it was found now."""
        device = self._device
        if device is None or any(array.__class__ is not device.KIND for array in leaves):
            return False
        self._device = None
        kernel = device.lone_kernel(self._memory.another_ring(self._program.output_lines[0]))
        if kernel is None:
            return False
        self._kernels.append(kernel)
        return True


def alone_of(program: Program, memory: ProgramMemory, device: DeviceSteps | None) -> Alone | None:
    """Return what looks for the only kernel of a program without variables.

    None where the program is more than a kernel, or has more than one output, or an arena.
    """
    segment = None if device is None else device.only_segment
    if device is None or segment is None or not segment.is_alone:
        return None
    is_more = program.updated or program.arenas or len(memory.rings) > 1
    return None if is_more else Alone(program, memory, device)
