"""What a compile cache has to say: collected in any thread, given where kernels were asked for."""

from __future__ import annotations

import threading

from softcuda.forks import renew_in_child
from softcuda.warn import warn

__all__ = ["Notices"]


class Notices:
    """Warnings that wait for the thread of the caller, whose line they name. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._said: set[str] = set()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.Lock()

    def add(self, text: str, topic: str = "") -> None:
        """Keep a warning until `give`; of a topic the first one only.

        Args:
            text: what happened, and what to do.
            topic: "" for a warning that is given whenever it is added.
        """
        with self._lock:
            if topic in self._said:
                return
            if topic:
                self._said.add(topic)
            self._waiting.append(text)

    def give(self) -> None:
        """Give the warnings that wait, at the nearest calling line outside softcuda."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for text in waiting:
            warn(text)
