"""Arenas: memory for intermediates, shared by all programs that do not run at once."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import numpy as np

from softcuda.pool.host import HostPool

__all__ = ["HOST_ARENAS", "Arena", "Arenas"]

Array = np.ndarray[Any, Any]


class Arena:
    """One stretch of pool memory; a run has it for itself from `acquire` to `release`.

    Attributes:
        memory: the bytes.
        users: what to call when the arena is retired, so that nobody keeps its memory.
    """

    __slots__ = ("__weakref__", "_pool", "memory", "users")

    def __init__(self, nbytes: int, block_bytes: int) -> None:
        self._pool = HostPool(block_bytes)
        self.memory: Array = self._pool.allocate(nbytes).memory
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()

    def retire(self) -> None:
        """Tell every user to forget the memory, then give it back."""
        for user in list(self.users):
            user.unbind()
        self._pool.close()


class Arenas:
    """The free arenas of one device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Arena] = []

    def acquire(self, nbytes: int, preferred: Arena | None, block_bytes: int) -> Arena:
        """Return an arena of at least `nbytes`: the preferred one, another free one, or a new one.

        A new one, of at least `block_bytes`, takes the place of the free ones, which were all too
        small.

        Raises:
            PoolExhausted: the memory cannot be had.
        """
        with self._lock:
            free = self._free
            if preferred is not None and preferred in free:
                free.remove(preferred)
                return preferred
            fitting = [arena for arena in free if arena.memory.nbytes >= nbytes]
            if fitting:
                chosen = min(fitting, key=lambda arena: arena.memory.nbytes)
                free.remove(chosen)
                return chosen
            retired, self._free = free, []
        for arena in retired:
            arena.retire()
        return Arena(nbytes, block_bytes)

    def release(self, arena: Arena) -> None:
        """Give an arena back; what it holds is dead."""
        with self._lock:
            self._free.append(arena)

    def trim(self) -> None:
        """Give every free arena's memory back."""
        with self._lock:
            retired, self._free = self._free, []
        for arena in retired:
            arena.retire()


HOST_ARENAS: Final = Arenas()
