"""libcuda in this process: found and initialised on first use, every result checked.

`DRIVER` is the one of the process. A function of the prototype table is an attribute, bound when
it is first asked for; a call that does not succeed raises, so call sites are plain calls:

    driver.cuMemGetInfo_v2(byref(free), byref(total))

Source: CUDA Driver API, "Initialization", "Version Management", "Error Handling".
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from ctypes import addressof, byref, c_int, c_void_p
from functools import partial
from typing import Any, Final, NoReturn

from softcuda.driver.api import BEFORE_INIT, MINIMUM_VERSION, PROTOTYPES, RETURNS_NOT_READY
from softcuda.driver.faults import DeviceState
from softcuda.driver.loading import Library, load_library
from softcuda.driver.results import (
    HINTS,
    NO_DEVICE,
    NOT_INITIALIZED,
    NOT_READY,
    OUT_OF_MEMORY,
    STICKY,
    SUCCESS,
    result_of,
)
from softcuda.errors import (
    DeviceLost,
    DeviceOutOfMemory,
    DriverError,
    DriverNotFound,
    ForkedProcessError,
    NoDeviceError,
    SoftCudaError,
)
from softcuda.knobs import visible_devices

__all__ = ["DRIVER", "Driver", "version_text"]


def version_text(version: int) -> str:
    """Return a CUDA version number as people write it.

    Example:
        >>> version_text(12080)
        '12.8'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


class _Place:
    """Where a current context is written to; the address is a prepared ctypes argument."""

    __slots__ = ("address", "context")

    def __init__(self) -> None:
        self.context = c_void_p()
        self.address = c_void_p(addressof(self.context))


class _Current(threading.local):
    """The calling thread's own place; a finalizer at the end of its thread may ask once more."""

    def __getattr__(self, name: str) -> _Place:
        if name != "place":
            raise AttributeError(name)
        self.place: _Place = _Place()
        return self.place


class Driver:
    """The CUDA driver; its attributes are the functions of the prototype table.

    Attributes:
        version: the CUDA version of the driver, such as 13000; 0 before it is initialised.
        is_forked: whether this process was forked from one that had initialised CUDA.
        current: the calling thread's place for cuCtxGetCurrent.
        devices: what is known of each device that was used, by ordinal.
    """

    def __init__(self, load: Callable[[], Library] = load_library) -> None:
        """Prepare a driver; nothing is loaded yet.

        Args:
            load: gives the library, on first use.
        """
        self._load = load
        self._library: Library | None = None
        self._pid = 0
        self.version = 0
        self.is_forked = False
        self.current = _Current()
        self.devices: dict[int, DeviceState] = {}

    def __repr__(self) -> str:
        if self._pid == 0:
            return "Driver(not initialised)"
        return f"Driver(CUDA {version_text(self.version)}{', forked' if self.is_forked else ''})"

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in PROTOTYPES:
            raise AttributeError(f"{name!r} is neither a field of Driver nor in PROTOTYPES")
        if name not in BEFORE_INIT:
            self.initialize()
        function = self._bind(name)
        self.__dict__[name] = function
        return function

    @property
    def is_initialized(self) -> bool:
        """Whether CUDA was initialised, in this process or in one that it was forked from."""
        return self._pid != 0

    def has(self, name: str) -> bool:
        """Return whether the driver exports a function of the table, loading the library."""
        try:
            self._find(name)
        except DriverNotFound:
            return False
        return True

    def state(self, ordinal: int) -> DeviceState:
        """Return what is known of a device, to read and to change."""
        return self.devices.setdefault(ordinal, DeviceState(ordinal))

    def initialize(self) -> None:
        """Load the library and initialise CUDA, once in a process.

        Raises:
            DriverNotFound: there is no driver, or it is too old.
            NoDeviceError: the driver shows no device; quotes CUDA_VISIBLE_DEVICES if it is set.
            ForkedProcessError: CUDA was initialised before this process was forked.
            DriverError: cuInit failed otherwise.
        """
        if self._pid:
            if self.is_forked or self._pid != os.getpid():
                self._refuse_fork()
            return
        version = c_int()
        self.cuDriverGetVersion(byref(version))
        self.version = version.value
        if version.value < MINIMUM_VERSION:
            raise DriverNotFound(
                f"the NVIDIA driver is too old: it supports CUDA {version_text(version.value)}, "
                f"at least {version_text(MINIMUM_VERSION)} is needed; install driver 525 or newer"
            )
        code = self._find("cuInit")(0)
        if code != SUCCESS:
            raise _init_failure(code)
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=partial(_mark_forked, weakref.ref(self)))

    def mark_forked(self) -> None:
        """Refuse every later call in this process, a child of the one that called cuInit."""
        self.is_forked = True
        for state in self.devices.values():
            state.is_forked = True
        for name in PROTOTYPES:
            if name in self.__dict__:
                self.__dict__[name] = self._refuse_fork

    def _refuse_fork(self, *arguments: object) -> NoReturn:
        raise self._fork_error()

    def _fork_error(self) -> ForkedProcessError:
        return ForkedProcessError(
            f"CUDA cannot be used in process {os.getpid()}: it was forked from process "
            f"{self._pid}, which had initialised CUDA, and a fork does not carry CUDA over; use "
            "the start method spawn (multiprocessing.get_context('spawn')), or fork before the "
            "first CUDA work; CPU work goes on here"
        )

    def _find(self, name: str) -> Any:
        """Return a function of its own for a name, with its types and without a check."""
        if self._library is None:
            self._library = self._load()
        try:
            function = self._library[name]
        except AttributeError as error:
            known = version_text(self.version) if self.version else "an unknown version"
            raise DriverNotFound(
                f"libcuda has no function {name}; the driver supports CUDA {known}; install a "
                "newer NVIDIA driver"
            ) from error
        function.restype = c_int
        function.argtypes = PROTOTYPES[name]
        return function

    def unchecked(self, name: str) -> Any:
        """Return a function for calls that are prepared: ctypes objects, or None, as arguments.

        They are not converted, and its result is not looked at: a call takes two thirds of the
        time. The caller gives a result that is not 0 to `failure`, and asks `DeviceState.is_forked`
        before.
        """
        self.initialize()
        function = self._find(name)
        function.argtypes = None
        return function

    def _bind(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = self._find(name)
        passing = NOT_READY if name in RETURNS_NOT_READY else SUCCESS

        def check(code: int, called: object, arguments: object) -> int:
            if code and code != passing:
                raise self.failure(name, code)
            return code

        function.errcheck = check  # type: ignore[attr-defined]
        return function

    def failure(self, name: str, code: int) -> SoftCudaError:
        """Return the error for a result of a function; a sticky one makes its device lost.

        Args:
            name: the function, as exported.
            code: its result, not CUDA_SUCCESS.
        """
        if self.is_forked or (self._pid and self._pid != os.getpid()):
            return self._fork_error()
        result = result_of(code)
        text = f"{name} failed: {result.name} ({code}): {result.text}"
        if code in STICKY:
            return self._lose(text, code)
        if code in HINTS:
            text = f"{text}; {HINTS[code]}"
        kind = DeviceOutOfMemory if code == OUT_OF_MEMORY else DriverError
        return kind(text, code, result.name)

    def _lose(self, text: str, code: int) -> DeviceLost:
        """Return DeviceLost, and note the first fault of the device whose context is current."""
        state = self._state_of_current()
        if state is None:
            return DeviceLost(f"{text}; the device is lost", code, result_of(code).name)
        if state.fault is None:
            state.lose(text, code)
        return state.error()

    def _state_of_current(self) -> DeviceState | None:
        place = _Place()
        self._find("cuCtxGetCurrent")(place.address)
        for state in self.devices.values():
            if state.context == place.context.value:
                return state
        return next(iter(self.devices.values())) if len(self.devices) == 1 else None


def _mark_forked(reference: weakref.ref[Driver]) -> None:
    driver = reference()
    if driver is not None:
        driver.mark_forked()


def _init_failure(code: int) -> SoftCudaError:
    """Return the error for a result of cuInit."""
    result = result_of(code)
    text = f"cuInit failed: {result.name} ({code}): {result.text}"
    if code == NOT_INITIALIZED:
        return ForkedProcessError(
            f"{text}; this process was forked from one that had initialised CUDA; use the start "
            "method spawn (multiprocessing.get_context('spawn')), or fork before the first CUDA "
            "work; CPU work goes on here"
        )
    visible = visible_devices()
    if visible is not None:
        text = (
            f"{text}; CUDA_VISIBLE_DEVICES is {visible!r}, which may hide every device: unset it, "
            "or name devices that nvidia-smi lists"
        )
    elif code in HINTS:
        text = f"{text}; {HINTS[code]}"
    return NoDeviceError(text) if code == NO_DEVICE else DriverError(text, code, result.name)


DRIVER: Final = Driver()
