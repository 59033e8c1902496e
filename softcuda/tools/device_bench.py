"""What measuring on a CUDA device takes beside a clock: leaves there, waiting, kernels ahead."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from softcuda.errors import NoDeviceError, NvrtcNotFound, SoftCudaError
from softcuda.executor.executable import Executable
from softcuda.executor.on_demand import cuda_facts, cuda_target, session, upload
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.nvrtc.library import NVRTC
from softcuda.profile.machine import this_machine
from softcuda.profile.model import DeviceFacts
from softcuda.target import Target
from softcuda.tools.workloads_base import Workload

if TYPE_CHECKING:
    from softcuda.executor.devices import DeviceSession

__all__ = ["DeviceBench", "device_here", "machine_facts"]

Array = np.ndarray[Any, Any]

_VARIABLE = OPS["variable"]


class DeviceBench:
    """The device of this process, for measuring.

    Attributes:
        target: what is compiled for.

    Raises:
        NoDeviceError: no CUDA device can be used; says why.
    """

    def __init__(self) -> None:
        found = cuda_target()
        if not isinstance(found, Target):
            raise NoDeviceError(f"no CUDA device can be used here: {found}")
        self.target = found
        self.on: DeviceSession = session()

    def leaves(self, workload: Workload) -> tuple[Node, ...]:
        """Return the leaves of a workload with their data on the device."""
        if workload.op.kind is Kind.RANDOM:
            return tuple(
                Node.leaf(upload(array, is_volatile=True), _VARIABLE) for array in workload.arrays
            )
        return tuple(Node.leaf(upload(array)) for array in workload.arrays)

    def settle(self) -> None:
        """Wait for what the device was given."""
        self.on.synchronize()

    def fetch(self, data: Any) -> Array:
        """Return a value on the host, wherever it is."""
        return data if isinstance(data, np.ndarray) else self.on.fetch(data)

    def compile_kernels(self, executables: Iterable[Executable]) -> None:
        """Compile the kernels of executables, in parallel.

        One that does not compile is left to the run that needs it, which says so.
        """
        specs = [
            launch.spec
            for executable in executables
            for step in executable.program.steps
            for launch in step.launches
        ]
        with suppress(SoftCudaError):
            self.on.loader.prepare(list(dict.fromkeys(specs)))


def machine_facts(device: str) -> DeviceFacts:
    """Return the facts of this machine that a profile of it holds.

    Args:
        device: "cpu", or "cuda" for a profile of the GPU and of the CPU beside it.

    Raises:
        NoDeviceError: there is no CUDA device.
    """
    here = this_machine()
    if device == "cpu":
        return here
    target = cuda_target()
    if not isinstance(target, Target):
        raise NoDeviceError(f"no CUDA device can be used here: {target}")
    return cuda_facts()._replace(
        multiprocessors=str(target.multiprocessors),
        shared_memory_kib=str(target.shared_memory_kib),
        l2_mib=str(target.l2_mib),
        cpu=here.cpu,
        cpu_cores=here.cpu_cores,
    )


def device_here(asked: str) -> tuple[str, str]:
    """Return the device type to measure, and what is to be said about it.

    Args:
        asked: "cpu", "cuda", or "auto" for the GPU where one can be used.
    """
    if asked != "auto":
        return asked, ""
    found = cuda_target()
    if not isinstance(found, Target):
        return "cpu", f"the CPU alone is measured: {found}"
    try:
        NVRTC.loaded()
    except NvrtcNotFound as error:
        return "cpu", f"the CPU alone is measured: {error}"
    return "cuda", ""
