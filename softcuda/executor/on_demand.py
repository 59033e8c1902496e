"""What only CUDA programs need, and saving does, loaded when the first one comes.

The tables of the driver and of NVRTC take 30 ms to load; a process that computes on the CPU alone
does not pay for them. One that uses a device loads them while the driver initialises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

from softcuda.backends import backends
from softcuda.compiler.definition import Definition
from softcuda.compiler.program import Program
from softcuda.errors import NoDeviceError, NvrtcNotFound, SoftCudaError
from softcuda.graph.node import Node
from softcuda.target import Target

if TYPE_CHECKING:
    import numpy as np

    from softcuda.executor.device_steps import DeviceSteps
    from softcuda.executor.devices import DeviceSession
    from softcuda.executor.memory import ProgramMemory
    from softcuda.pool.device import DeviceArray
    from softcuda.profile.model import DeviceFacts

    Array = np.ndarray[Any, Any]

__all__ = [
    "compile_kernels",
    "cuda_facts",
    "cuda_interface",
    "cuda_target",
    "device_capsule",
    "device_memory",
    "device_steps",
    "duplicate",
    "land",
    "nvrtc_architectures",
    "session",
    "session_for",
    "shared_array",
    "upload",
    "write_array",
    "write_saved",
]

_LIBRARY = "softcuda.driver.library"
_DEVICES = "softcuda.executor.devices"
_STEPS = "softcuda.executor.device_steps"
_EXCHANGE = "softcuda.executor.exchange"
_SHARING = "softcuda.executor.sharing"
_SAVED = "softcuda.executor.saved.files"

_module = cache(import_module)  # which takes 0.4 us to find a module that is there


def session(ordinal: int = 0) -> DeviceSession:
    """Return the session of a device; see softcuda.executor.devices."""
    made: DeviceSession = _module(_DEVICES).session(ordinal)
    return made


def session_for(program: Program) -> DeviceSession | None:
    """Return the device that a program runs on, None where it needs none.

    Raises:
        NoDeviceError: there is no device, or another one than the program was compiled for.
    """
    if not program.uses_cuda:
        return None
    wanted = program.target.arch or "CUDA"
    on_device: DeviceSession = _module(_DEVICES).usable_session(
        f"run: the graph was compiled for {wanted}",
        "save it with executable.save(FILE) and load it on a machine that has one, or compile it "
        "with config='default' to run on this CPU",
    )
    if program.target.arch not in ("", on_device.loader.arch):
        raise NoDeviceError(
            f"run: the graph was compiled for {program.target.arch} and the device here is "
            f"{on_device.loader.arch}; compile it again without target="
        )
    return on_device


def cuda_target(ordinal: int = 0, backend_ids: Iterable[str] = ()) -> Target | str:
    """Return the device as a target, or why it cannot be used.

    Args:
        ordinal: the device.
        backend_ids: backends that are likely needed next. The first call loads them while the
            driver initialises, which takes 0.1 s and leaves the interpreter alone.
    """
    driver = _module(_LIBRARY).DRIVER
    if not driver.is_initialized:
        with _beside(driver.initialize):
            for needed in (_DEVICES, _STEPS):
                _module(needed)
            for backend_id in backend_ids:
                backends().get(backend_id)
    found: Target | str = _module(_DEVICES).cuda_target(ordinal)
    return found


def cuda_facts(ordinal: int = 0) -> DeviceFacts:
    """Return the facts of a device that profiles are told apart by."""
    found: DeviceFacts = _module(_DEVICES).cuda_facts(ordinal)
    return found


@contextmanager
def _beside(work: Callable[[], object]) -> Iterator[None]:
    """Do work in a thread of its own meanwhile; where it fails, whoever needs it next is told."""

    def run() -> None:
        with suppress(SoftCudaError):
            work()

    thread = Thread(target=run, name="softcuda-beside")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def device_steps(program: Program, on: DeviceSession, memory: ProgramMemory) -> DeviceSteps:
    """Return the CUDA steps and transfers of a program, ready to be bound."""
    made: DeviceSteps = _module(_STEPS).DeviceSteps(
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
        _module("softcuda.loader").compile_for(specs, program.target.arch)


def nvrtc_architectures() -> tuple[int, ...]:
    """Return the architectures that NVRTC makes cubins for; () where there is no NVRTC."""
    try:
        known: tuple[int, ...] = _module("softcuda.nvrtc.library").NVRTC.architectures()
    except NvrtcNotFound:
        return ()
    return known


def device_memory(on: DeviceSession, nbytes: int) -> Any:
    """Return fresh device memory."""
    return on.ledger.memory(nbytes)


def shared_array(what: str, value: object, **options: bool | None) -> DeviceArray:
    """Return a CUDA array of another library as a device array; see softcuda.executor.sharing."""
    made: DeviceArray = _module(_SHARING).share(what, value, **options)
    return made


def upload(array: Array, *, is_volatile: bool = False, what: str = "run") -> DeviceArray:
    """Return a dense copy of a host array on the device; see softcuda.executor.exchange."""
    made: DeviceArray = _module(_EXCHANGE).send(array, is_volatile=is_volatile, what=what)
    return made


def land(array: Array, landing: DeviceArray | None) -> DeviceArray:
    """Return a copy of a host array in device memory; see softcuda.executor.exchange."""
    made: DeviceArray = _module(_EXCHANGE).landed(array, landing)
    return made


def duplicate(array: DeviceArray, *, is_volatile: bool = False) -> DeviceArray:
    """Return a copy of a device array; see softcuda.executor.exchange."""
    made: DeviceArray = _module(_EXCHANGE).copy_of(array, is_volatile=is_volatile)
    return made


def write_array(target: DeviceArray, value: Array | DeviceArray) -> None:
    """Write values into a dense device array; see softcuda.executor.exchange."""
    _module(_EXCHANGE).overwrite(target, value)


def device_capsule(
    array: DeviceArray, stream: Any, *, versioned: bool, read_only: bool, copied: bool
) -> object:
    """Return a DLPack capsule of a device array; see softcuda.executor.exchange."""
    made: object = _module(_EXCHANGE).encapsulate(
        array, stream, versioned=versioned, read_only=read_only, copied=copied
    )
    return made


def cuda_interface(array: DeviceArray) -> dict[str, Any]:
    """Return the CUDA array interface of a device array; see softcuda.executor.exchange."""
    made: dict[str, Any] = _module(_EXCHANGE).describe(array)
    return made


def write_saved(
    path: str, program: Program, leaves: Sequence[Node], skeleton: Any, definition: Definition
) -> None:
    """Write an executable to a file; see softcuda.executor.saved.files."""
    _module(_SAVED).write_executable(path, program, leaves, skeleton, definition)
