"""The compile cache: runtimes of graphs that `evaluate` met, by structure."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

from softcuda.forks import renew_in_child
from softcuda.graph.lines import Graph
from softcuda.graph.params import Constant
from softcuda.warn import warn

__all__ = ["CAPACITY", "IDLE_BYTES", "RECOMPILES_HINTED", "CompileCache"]

CAPACITY: Final = 256
IDLE_BYTES: Final = 1 << 30  # idle output buffers that all cached runtimes may hold together
RECOMPILES_HINTED: Final = 8


class Kept(Protocol):
    """What a cache keeps: a runtime, or what has one."""

    @property
    def held_bytes(self) -> int:
        """Bytes of buffers that nobody but it holds."""

    def release_idle(self) -> None:
        """Give back the output buffers that nobody uses."""


R = TypeVar("R", bound=Kept)


class _Entry(Generic[R]):
    """A runtime, and when it was asked for last."""

    __slots__ = ("runtime", "used")

    def __init__(self, runtime: R, used: int) -> None:
        self.runtime = runtime
        self.used = used


class CompileCache(Generic[R]):
    """Runtimes by (graph, settings), the least recently used one dropped first.

    Dropping a runtime frees its buffers. One hint is given when a structure is compiled 8 times
    for the numbers in it alone.
    """

    def __init__(self, capacity: int = CAPACITY, idle_bytes: int = IDLE_BYTES) -> None:
        self._capacity = capacity
        self._idle_bytes = idle_bytes
        self._lock = threading.RLock()  # a signal handler may evaluate too
        self._clock = itertools.count()
        self._entries: dict[Hashable, _Entry[R]] = {}
        self._skeletons: OrderedDict[int, set[int]] = OrderedDict()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.RLock()

    def get(self, key: Hashable) -> R | None:
        """Return the runtime of a key: a structure, and what else its compilation depends on."""
        known = self._entries.get(key)
        if known is None:
            return None
        known.used = next(self._clock)
        return known.runtime

    def add(self, key: Hashable, graph: Graph, made: R) -> R:
        """Return the runtime of a key that was not known: `made`, or another thread's."""
        entry = _Entry(made, next(self._clock))
        with self._lock:
            entry = self._entries.setdefault(key, entry)
            while len(self._entries) > self._capacity:
                oldest = min(self._entries.items(), key=lambda item: item[1].used)
                del self._entries[oldest[0]]
        self._hint(graph)
        self.trim()
        return entry.runtime

    def trim(self) -> None:
        """Let idle output buffers go, oldest first, until they fit the allowance."""
        with self._lock:
            entries = sorted(self._entries.values(), key=lambda entry: -entry.used)
        held = 0
        for entry in entries:
            held += entry.runtime.held_bytes
            if held > self._idle_bytes:
                entry.runtime.release_idle()

    def clear(self) -> None:
        """Forget every runtime."""
        with self._lock:
            self._entries.clear()
            self._skeletons.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def _hint(self, graph: Graph) -> None:
        """Warn once when only the numbers of a structure differ from compile to compile."""
        blank = Constant("", graph.lines[0].dtype)
        if not any(line.op.name == "constant" for line in graph.lines):
            return
        skeleton = hash(
            tuple(
                line._replace(params=blank) if line.op.name == "constant" else line
                for line in graph.lines
            )
        )
        with self._lock:
            seen = self._skeletons.pop(skeleton, set())
            self._skeletons[skeleton] = seen
            while len(self._skeletons) > self._capacity:
                self._skeletons.popitem(last=False)
            if len(seen) >= RECOMPILES_HINTED or hash(graph) in seen:
                return  # hinted already, or compiled again for another reason than its numbers
            seen.add(hash(graph))
        if len(seen) == RECOMPILES_HINTED:
            warn(
                f"a graph of {len(graph.lines)} nodes was compiled {len(seen)} times and only the "
                "numbers in it differed; numbers are part of a graph's structure: make what "
                "changes from run to run a softcuda.input, or a rank-0 tensor"
            )
