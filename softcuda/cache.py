"""The compile cache: runtimes of graphs that `evaluate` met, by structure."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from softcuda.executor.runtime import Runtime
from softcuda.forks import renew_in_child
from softcuda.graph.lines import Graph
from softcuda.graph.params import Constant
from softcuda.warn import warn

__all__ = ["CAPACITY", "IDLE_BYTES", "RECOMPILES_HINTED", "CompileCache"]

CAPACITY: Final = 256
IDLE_BYTES: Final = 1 << 30  # idle output buffers that all cached runtimes may hold together
RECOMPILES_HINTED: Final = 8

R = TypeVar("R", bound=Runtime)


class CompileCache(Generic[R]):
    """Runtimes by (graph, settings), the least recently used one dropped first.

    Dropping a runtime frees its buffers. One hint is given when a structure is compiled 8 times
    for the numbers in it alone.
    """

    def __init__(self, capacity: int = CAPACITY, idle_bytes: int = IDLE_BYTES) -> None:
        self._capacity = capacity
        self._idle_bytes = idle_bytes
        self._lock = threading.RLock()  # a signal handler may evaluate too
        self._runtimes: OrderedDict[Hashable, R] = OrderedDict()
        self._skeletons: OrderedDict[int, int] = OrderedDict()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.RLock()

    def get(self, graph: Graph, settings: Hashable, make: Callable[[], R]) -> R:
        """Return the runtime of a structure; `make` compiles it where it is not known."""
        key = (graph, settings)
        with self._lock:
            known = self._runtimes.get(key)
            if known is not None:
                self._runtimes.move_to_end(key)
                return known
        made = make()
        with self._lock:
            known = self._runtimes.setdefault(key, made)
            self._runtimes.move_to_end(key)
            while len(self._runtimes) > self._capacity:
                self._runtimes.popitem(last=False)
        self._hint(graph)
        self.trim()
        return known

    def trim(self) -> None:
        """Let idle output buffers go, oldest first, until they fit the allowance."""
        with self._lock:
            runtimes = list(self._runtimes.values())
        held = 0
        for runtime in reversed(runtimes):
            held += runtime.held_bytes
            if held > self._idle_bytes:
                runtime.release_idle()

    def clear(self) -> None:
        """Forget every runtime."""
        with self._lock:
            self._runtimes.clear()
            self._skeletons.clear()

    def __len__(self) -> int:
        return len(self._runtimes)

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
            count = self._skeletons.pop(skeleton, 0) + 1
            self._skeletons[skeleton] = count
            while len(self._skeletons) > self._capacity:
                self._skeletons.popitem(last=False)
        if count == RECOMPILES_HINTED:
            warn(
                f"a graph of {len(graph.lines)} nodes was compiled {count} times and only the "
                "numbers in it differed; numbers are part of a graph's structure: make what "
                "changes from run to run a softcuda.input, or a rank-0 tensor"
            )
