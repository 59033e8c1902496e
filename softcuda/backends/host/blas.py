"""The threads of the OpenBLAS that NumPy carries: off while our own threads multiply at once.

OpenBLAS shares a product of matrices among threads of its own, which wait for each other and, when
it is done, spin for a tenth of a second. Where several of our threads multiply, each product is
better computed by the thread that asks for it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from softcuda.forks import renew_in_child

__all__ = ["BLAS", "Blas"]

# Where wheels of NumPy have it on Linux and Windows, and on macOS.
_FOLDERS: Final = ("../numpy.libs", ".dylibs")
_NAMES: Final = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


class _Control(NamedTuple):
    """Functions of a library that ask for its threads, and set how many there are."""

    get: Callable[[], int]
    set: Callable[[int], None]


class Blas:
    """How many threads BLAS has. Safe in threads; in a forked child it has as many as before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: _Control | None = None
        self._is_known = False
        self._users = 0
        self._before = 0
        renew_in_child(self)

    def after_fork(self) -> None:
        """Let BLAS have its threads again in a forked child, whose other threads are gone."""
        self._lock = threading.Lock()
        if self._users and self._control is not None:
            self._control.set(self._before)
        self._users = 0

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Let every product of the process be computed by the thread that asks for it.

        Returns:
            A context whose value says whether it is so: False for a BLAS that is not the one in
            NumPy's wheels.
        """
        with self._lock:
            if not self._is_known:
                self._control, self._is_known = _found(), True
            control = self._control
        if control is None:
            yield False
            return
        with self._lock:
            if not self._users:
                self._before = control.get()
                control.set(1)
            self._users += 1
        try:
            yield True
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    control.set(self._before)


def _found() -> _Control | None:
    """Return the control of the OpenBLAS in NumPy's own folders."""
    package = Path(np.__file__).parent
    for folder in _FOLDERS:
        for path in sorted((package / folder).glob("*openblas*")):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                get, change = (getattr(library, name.format(x), None) for x in ("get", "set"))
                if get is not None and change is not None:
                    get.restype, get.argtypes = ctypes.c_int, ()
                    change.restype, change.argtypes = None, (ctypes.c_int,)
                    return _Control(get, change)
    return None


BLAS = Blas()
