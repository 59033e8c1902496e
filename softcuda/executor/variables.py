"""Locks of variables: a run sees a variable before or after another run's update, never between."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from operator import is_, methodcaller
from typing import Any, Final

import numpy as np

from softcuda.forks import renew_in_child

__all__ = ["VARIABLE_LOCKS", "HeldLocks", "ProgramLocks", "VariableLocks"]

_ACQUIRE: Final = methodcaller("acquire")


class HeldLocks:
    """A context manager that holds locks, taken in their order."""

    __slots__ = ("_locks", "_taken")

    def __init__(self, locks: Sequence[threading.RLock]) -> None:
        self._locks = locks
        self._taken: list[bool] = []

    def __enter__(self) -> None:
        try:
            self._taken.extend(map(_ACQUIRE, self._locks))
        except BaseException:  # an interrupt, amid them
            self._release()
            raise

    def __exit__(self, *error: object) -> None:
        self._release()

    def _release(self) -> None:
        count = len(self._taken)
        self._taken = []
        for lock in self._locks[:count][::-1]:
            lock.release()


class VariableLocks:
    """One lock a host buffer, found by its identity, gone with the buffer; one lock a device.

    A device does the work of all threads in one order, so nothing is gained by telling its buffers
    apart, and a run takes one lock, however many variables it has.
    """

    def __init__(self) -> None:
        self._table = threading.RLock()
        self._locks: dict[int, tuple[weakref.ref[Any], threading.RLock]] = {}
        self._devices: dict[int, threading.RLock] = {}
        renew_in_child(self)

    def after_fork(self) -> None:
        """Forget every lock: no other thread holds one in the child."""
        self._table = threading.RLock()
        self._locks = {}
        self._devices = {}

    def of_device(self, ordinal: int) -> threading.RLock:
        """Return the lock of all buffers of a device."""
        with self._table:
            return self._devices.setdefault(ordinal, threading.RLock())

    def held(self, buffers: Sequence[Any]) -> HeldLocks:
        """Hold the locks of several buffers, taken in one order by everybody.

        Returns:
            A context manager: the locks are held inside `with`.
        """
        return HeldLocks(self.ordered(buffers))

    def ordered(self, buffers: Sequence[Any]) -> list[threading.RLock]:
        """Return the locks of several buffers, each once, in the one order."""
        locks = {id(lock): lock for lock in map(self._lock_of, buffers)}
        return [lock for _, lock in sorted(locks.items())]

    def _lock_of(self, buffer: Any) -> Any:
        if not isinstance(buffer, np.ndarray):
            return self.of_device(buffer.ordinal)
        key = id(buffer)
        known = self._locks.get(key)
        if known is not None and known[0]() is buffer:
            return known[1]
        with self._table:
            known = self._locks.get(key)
            if known is None or known[0]() is not buffer:
                known = (weakref.ref(buffer), threading.RLock())
                self._locks[key] = known
                weakref.finalize(buffer, self._drop, key, known).atexit = False
            return known[1]

    def _drop(self, key: int, entry: Any) -> None:
        if self._locks.get(key) is entry:
            del self._locks[key]


VARIABLE_LOCKS: Final = VariableLocks()


class ProgramLocks:
    """The locks of the variables of one program, looked up anew where a buffer is another.

    Args:
        ordinal: the device that all of them lie on, None where the host has some.

    Attributes:
        every: the one lock of them all, where they lie on one device.
    """

    def __init__(self, ordinal: int | None = None) -> None:
        self.every = None if ordinal is None else VARIABLE_LOCKS.of_device(ordinal)
        self._buffers: list[Any] = []
        self._locks: list[threading.RLock] = []

    def held(self, buffers: list[Any], *, is_lasting: bool) -> HeldLocks:
        """Return a context manager that holds the locks of the buffers of a run.

        Args:
            buffers: those that it reads and writes.
            is_lasting: whether they may be kept until the next run, which likely has the same.
        """
        known = self._buffers
        if len(known) != len(buffers) or not all(map(is_, buffers, known)):
            self._locks = VARIABLE_LOCKS.ordered(buffers)
            self._buffers = buffers if is_lasting else []
        return HeldLocks(self._locks)
