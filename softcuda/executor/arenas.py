"""Arenas: memory for intermediates, shared by all programs that do not run at once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from softcuda.errors import PoolExhausted
from softcuda.forks import renew_in_child
from softcuda.pool.blocks import exact_bytes
from softcuda.pool.bump import BumpPool
from softcuda.pool.host import HostPool

__all__ = ["HOST_ARENAS", "OWN_BYTES", "Arena", "Arenas", "own_arena"]

OWN_BYTES: Final = 16384  # sharing an arena takes 1 us a run; so little memory is not worth it


class Arena:
    """One stretch of pool memory; a run has it for itself from `acquire` to `release`.

    Attributes:
        ptr: its address.
        nbytes: its size.
        memory: on the host a byte array, on a device the owner of the memory.
        users: what to call when the arena is retired, so that nobody keeps its memory.
        is_shared: whether it is the one that all programs of one launch share.
    """

    __slots__ = ("__weakref__", "_pool", "is_shared", "memory", "nbytes", "ptr", "users")

    def __init__(self, pool: BumpPool[Any], nbytes: int) -> None:
        self._pool = pool
        self.ptr, self.nbytes, self.memory = pool.allocate(nbytes)
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.is_shared = False

    def leave(self) -> None:
        """Let the users of a shared arena go to the next one.

        One that is amid a run launches into this one still; the memory is given back when the
        last user has let go of it.
        """
        self.is_shared = False
        for user in list(self.users):
            user.unbind()

    def retire(self) -> None:
        """Tell every user to forget the memory, then give it back."""
        for user in list(self.users):
            user.unbind()
        self._pool.close()
        self.nbytes = 0


def own_arena(nbytes: int) -> Arena:
    """Return host memory of at most OWN_BYTES that one program keeps for itself.

    Raises:
        PoolExhausted: the memory cannot be had.
    """
    return Arena(HostPool(nbytes), nbytes)


class Arenas:
    """The free arenas of one device."""

    def __init__(self, make: Callable[[int, int], Arena]) -> None:
        """Begin without arenas; `make(nbytes, block_bytes)` makes one."""
        self._make = make
        self._lock = threading.RLock()  # a signal handler may run another executable
        self._free: list[Arena] = []
        self._shared: Arena | None = None
        self._made: weakref.WeakSet[Arena] = weakref.WeakSet()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Begin anew in a forked child."""
        self._lock = threading.RLock()
        self._free = []
        self._shared = None

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
            fitting = [arena for arena in free if arena.nbytes >= nbytes]
            if fitting:
                chosen = min(fitting, key=lambda arena: arena.nbytes)
                free.remove(chosen)
                return chosen
            retired, self._free = free, []
        for arena in retired:
            arena.retire()
        return self._noted(self._make(nbytes, block_bytes))

    def _noted(self, made: Arena) -> Arena:
        self._made.add(made)
        return made

    @property
    def held_bytes(self) -> int:
        """Bytes of all arenas, free ones and those of runs."""
        return sum(arena.nbytes for arena in list(self._made))

    def share(self, nbytes: int, block_bytes: int) -> Arena:
        """Return the arena that all programs of one launch share, of at least `nbytes`.

        Their work is ordered by the device's stream, so none of them needs it for itself. It
        grows by another one in its place.

        Raises:
            PoolExhausted: the memory cannot be had.
        """
        with self._lock:
            shared = self._shared
            if shared is not None:
                if shared.nbytes >= nbytes:
                    return shared
                self._shared = None
                shared.leave()
                del shared
            made = self._shared = self._noted(self._make(nbytes, block_bytes))
            made.is_shared = True
            return made

    def release(self, arena: Arena) -> None:
        """Give an arena back; what it holds is dead."""
        with self._lock:
            self._free.append(arena)

    def trim(self) -> None:
        """Give every free arena's memory back."""
        with self._lock:
            retired, self._free = self._free, []
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave()
        for arena in retired:
            arena.retire()


def _host_arena(nbytes: int, block_bytes: int) -> Arena:
    try:
        return Arena(HostPool(block_bytes), nbytes)
    except PoolExhausted:
        raise PoolExhausted(
            f"run: host memory exhausted: the intermediates of the graph need "
            f"{exact_bytes(nbytes)} at once; make the tensors smaller, or compute it in parts"
        ) from None


HOST_ARENAS: Final = Arenas(_host_arena)
