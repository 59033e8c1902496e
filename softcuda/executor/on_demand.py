"""What only CUDA programs need, loaded when the first one comes.

The tables of the driver and of NVRTC take 30 ms to load; a process that computes on the CPU alone
does not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from softcuda.compiler.program import Program
from softcuda.target import Target

if TYPE_CHECKING:
    from softcuda.executor.devices import DeviceSession
    from softcuda.executor.memory import ProgramMemory
    from softcuda.executor.segments import DeviceSteps

__all__ = ["compile_kernels", "cuda_target", "device_memory", "device_steps", "session"]

_DEVICES = "softcuda.executor.devices"
_SEGMENTS = "softcuda.executor.segments"
_MEMORY = "softcuda.driver.memory"


def session(ordinal: int = 0) -> DeviceSession:
    """Return the session of a device; see softcuda.executor.devices."""
    made: DeviceSession = import_module(_DEVICES).session(ordinal)
    return made


def cuda_target(ordinal: int = 0) -> Target | str:
    """Return the device as a target, or why it cannot be used."""
    found: Target | str = import_module(_DEVICES).cuda_target(ordinal)
    return found


def device_steps(program: Program, on: DeviceSession, memory: ProgramMemory) -> DeviceSteps:
    """Return the CUDA steps and transfers of a program, ready to be bound."""
    made: DeviceSteps = import_module(_SEGMENTS).DeviceSteps(
        program, on, memory.window, memory.address, memory.scratch_address
    )
    return made


def compile_kernels(program: Program) -> None:
    """Compile the kernels of a program for its target, into the disk cache; needs no device.

    Raises:
        CompileError: a kernel does not compile for the target.
        NvrtcNotFound: there is no NVRTC.
    """
    specs = [launch.spec for step in program.steps for launch in step.launches]
    if specs:
        import_module("softcuda.loader").compile_for(specs, program.target.arch)


def device_memory(on: DeviceSession, nbytes: int) -> Any:
    """Return fresh device memory."""
    return import_module(_MEMORY).DeviceMemory(on.context, nbytes)
