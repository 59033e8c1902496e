"""libnvrtc in this process: found and loaded on first use, every result checked.

`NVRTC` is the one of the process. A function of the prototype table is an attribute, bound when
it is first asked for; a call that does not succeed raises CompileError, except that
nvrtcCompileProgram gives its result back: a program that does not compile has a log to read.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_int
from typing import Any, Final, NamedTuple

from softcuda.errors import CompileError, ForkedProcessError, NvrtcNotFound
from softcuda.forks import renew_in_child
from softcuda.knobs import library_places
from softcuda.nvrtc.api import (
    COMPILATION_FAILED,
    INVALID_OPTION,
    NVRTC_PROTOTYPES,
    NVRTC_RESULTS,
)

__all__ = ["EXTRAS_HINT", "NVRTC", "LoadedNvrtc", "Nvrtc", "extra_for_driver", "find_nvrtc"]

EXTRAS_HINT: Final = (
    "pip install 'softcuda[cuda13]' for driver 580 or newer, 'softcuda[cuda12]' for older ones; in "
    "a checkout '.[cuda13]' or '.[cuda12]'"
)

# Functions whose failure has a log that says more than the result, and those results.
_ANSWERS: Final = {"nvrtcCompileProgram": (COMPILATION_FAILED, INVALID_OPTION)}


class LoadedNvrtc(NamedTuple):
    """A loaded libnvrtc.

    Attributes:
        library: indexed by a function's name.
        path: of the file; "" where it is unknown.
        is_own_find: whether this process found it where softcuda looks, rather than because
            another package had loaded it before.
    """

    library: Any
    path: str
    is_own_find: bool


def extra_for_driver(driver_version: int | None) -> str:
    """Return the extra of softcuda whose NVRTC fits a driver: "cuda13" or "cuda12".

    Args:
        driver_version: as cuDriverGetVersion gives it, such as 13000; None where it is unknown.

    Example:
        >>> extra_for_driver(12080)
        'cuda12'
    """
    return "cuda12" if driver_version is not None and driver_version < 13000 else "cuda13"


def find_nvrtc() -> LoadedNvrtc:
    """Return libnvrtc, loaded from the place where cuda.pathfinder finds it.

    Raises:
        NvrtcNotFound: there is none; names what was searched and the extras that bring one.
    """
    try:
        from cuda import pathfinder  # noqa: PLC0415
    except ImportError as error:
        raise _missing(f"the package cuda-python is missing ({error})") from error
    try:
        found = pathfinder.load_nvidia_dynamic_lib("nvrtc")
        path = str(found.abs_path or "")
        library = ctypes.CDLL(path or "libnvrtc.so")
    except (RuntimeError, OSError) as error:  # pathfinder's errors derive from RuntimeError
        raise _missing(_each_once(" ".join(str(error).split()))) from error
    return LoadedNvrtc(library, path, not found.was_already_loaded_from_elsewhere)


def _each_once(text: str) -> str:
    """Return a list of reasons without those that end an earlier one."""
    kept: list[str] = []
    for reason in text.split(", "):
        if not any(known.endswith(reason) for known in kept):
            kept.append(reason)
    return ", ".join(kept)


def _missing(why: str) -> NvrtcNotFound:
    places = ", ".join(
        f"{name} is {'unset' if value is None else repr(value)}"
        for name, value in library_places().items()
    )
    return NvrtcNotFound(
        f"libnvrtc, which compiles kernels, was not found: {why}; searched were the packages of "
        f"this Python, the CUDA toolkit and the loader's path ({places}); install the extra that "
        f"fits the NVIDIA driver: {EXTRAS_HINT}; CPU work needs none of it"
    )


class Nvrtc:
    """NVRTC; its attributes are the functions of the prototype table.

    Every method may be called from several threads.
    """

    def __init__(self, load: Callable[[], LoadedNvrtc] = find_nvrtc) -> None:
        """Prepare NVRTC; nothing is loaded yet.

        Args:
            load: gives the library, on first use.
        """
        self._load = load
        self._loaded: LoadedNvrtc | None = None
        self._version = ""
        self._architectures: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self._at_work = 0
        self._is_stuck = False
        renew_in_child(self)

    def after_fork(self) -> None:
        """Begin anew in a forked child, where what NVRTC was amid never ends."""
        self._lock = threading.Lock()
        self._is_stuck = self._is_stuck or self._at_work > 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Return a context in which a program is compiled, from its making to its end.

        Raises:
            ForkedProcessError: this process was forked while another thread compiled: the locks
                of NVRTC stay held here.
        """
        with self._lock:
            if self._is_stuck:
                raise ForkedProcessError(
                    f"no kernel can be compiled in process {os.getpid()}: it was forked while "
                    "another thread compiled one, and NVRTC's locks stay held; use the start "
                    "method spawn (multiprocessing.get_context('spawn')), or fork when no kernel "
                    "is being compiled; kernels in the compile cache and CPU work go on here"
                )
            self._at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1

    def __repr__(self) -> str:
        return f"Nvrtc({self._version or 'not loaded'})"

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in NVRTC_PROTOTYPES:
            raise AttributeError(f"{name!r} is neither a field of Nvrtc nor in NVRTC_PROTOTYPES")
        function = self._bind(name)
        self.__dict__[name] = function
        return function

    @property
    def is_loaded(self) -> bool:
        """Whether the library is loaded."""
        return self._loaded is not None

    def loaded(self) -> LoadedNvrtc:
        """Return the library, loading it first where it is not.

        Raises:
            NvrtcNotFound: there is none.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def version(self) -> str:
        """Return what tells this NVRTC from any other: its version and the size of its file.

        The size stands for the patch level, which NVRTC does not give.
        """
        if not self._version:
            major, minor = c_int(), c_int()
            self.nvrtcVersion(byref(major), byref(minor))
            path = self.loaded().path
            size = os.path.getsize(path) if path and os.path.isfile(path) else 0
            self._version = f"{major.value}.{minor.value} ({size} bytes)"
        return self._version

    def architectures(self) -> tuple[int, ...]:
        """Return the architectures that it makes cubins for, ascending: 75 stands for sm_75."""
        if not self._architectures:
            count = c_int()
            self.nvrtcGetNumSupportedArchs(byref(count))
            values = (c_int * count.value)()
            self.nvrtcGetSupportedArchs(values)
            self._architectures = tuple(sorted(values))
        return self._architectures

    def _bind(self, name: str) -> Callable[..., int]:
        loaded = self.loaded()
        try:
            function: Callable[..., int] = loaded.library[name]
        except AttributeError as error:
            raise NvrtcNotFound(
                f"{loaded.path or 'libnvrtc'} has no function {name}; NVRTC 12.4 or newer is "
                f"needed: {EXTRAS_HINT}"
            ) from error
        function.restype = c_int  # type: ignore[attr-defined]
        function.argtypes = NVRTC_PROTOTYPES[name]  # type: ignore[attr-defined]
        answers = _ANSWERS.get(name, ())

        def check(code: int, called: object, arguments: object) -> int:
            if code and code not in answers:
                result = NVRTC_RESULTS.get(code, "a result that softcuda does not know")
                raise CompileError(f"{name} failed: {result} ({code}); NVRTC is {loaded.path}")
            return code

        function.errcheck = check  # type: ignore[attr-defined]
        return function


NVRTC: Final = Nvrtc()
