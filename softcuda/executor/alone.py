"""Runs of a program that is one kernel, which need no lock: whoever runs it takes it away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from softcuda.compiler.program import Program
from softcuda.executor.memory import ProgramMemory

if TYPE_CHECKING:
    from softcuda.executor.device_steps import DeviceSteps
    from softcuda.executor.lone_kernel import LoneKernel
    from softcuda.executor.outputs import OutputRing
    from softcuda.executor.segments import Segment

__all__ = ["Alone", "alone_of"]

_MOST: Final = 4  # kernels of a program: threads that run it at once have one each


class Alone:
    """The only kernel of a program, once a run has shown that it is that.

    Whoever runs it, or gives its buffers back, takes it away from all others meanwhile. A thread
    that finds none, or a signal handler, runs the program as if it were of many steps, and leaves
    another one behind.
    """

    __slots__ = ("_device", "_kernels", "_left", "_make_ring", "_segment")

    def __init__(
        self, device: DeviceSteps, segment: Segment, make_ring: Callable[[], OutputRing]
    ) -> None:
        """Prepare for a program as `alone_of` describes it."""
        self._device = device
        self._segment = segment
        self._make_ring = make_ring
        self._kernels: list[LoneKernel] = []  # those that nobody has taken
        self._left = _MOST  # that may still be made; an interrupt may lose one

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
        """Make a kernel after a run over some leaves, where there is none; return whether it did.

        The caller has the lock of the runtime.
        """
        device = self._device
        if self._kernels or not self._left:
            return False
        if any(array.__class__ is not device.KIND for array in leaves):
            return False
        self._left -= 1
        kernel = device.lone_kernel(self._segment, self._make_ring())
        if kernel is None:
            self._left = 0
            return False
        self._kernels.append(kernel)
        return True

    @property
    def held_bytes(self) -> int:
        """Bytes of output buffers that nobody else holds."""
        return sum(kernel.ring.held_bytes for kernel in list(self._kernels))

    def release(self) -> None:
        """Give back the output buffers that nobody uses, but for those of kernels that run."""
        taken: list[LoneKernel] = []
        try:
            while self._kernels:
                taken.append(self._kernels.pop())
                taken[-1].ring.release()
        except IndexError:  # another thread took the last one
            pass
        finally:
            self._kernels.extend(taken)


def alone_of(program: Program, memory: ProgramMemory, device: DeviceSteps | None) -> Alone | None:
    """Return what looks for the only kernel of a program without variables.

    None where the program is more than a kernel, has more than one output, or an arena, or where
    each launch is waited for.

    Args:
        program: the program.
        memory: its memory.
        device: its steps on a device; None where it has none.
    """
    segment = None if device is None else device.only_segment
    if device is None or segment is None or not segment.is_alone or segment.is_synchronous:
        return None
    if program.updated or program.arenas or len(memory.rings) > 1:
        return None
    return Alone(device, segment, partial(memory.another_ring, program.output_lines[0]))
