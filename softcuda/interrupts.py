"""Signals that wait: a few calls are made all or none of them."""

from __future__ import annotations

import _thread
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Final

__all__ = ["Uninterrupted"]

# The signals that people and other libraries give handlers that raise; Windows has some of them.
_HELD: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)

_LATER_S: Final = 0.01


class Uninterrupted:
    """A context manager that holds Ctrl-C and other signals back until its end, then gives them.

    Python gives signals to the main thread alone; in other threads there is nothing to hold back.

    Args:
        is_finalizer: whether the caller is one, where Python would swallow what a handler raises:
            the handlers are called a moment later then.
    """

    __slots__ = ("_before", "_caught", "_is_finalizer")

    def __init__(self, *, is_finalizer: bool = False) -> None:
        self._is_finalizer = is_finalizer
        self._before: dict[int, Any] = {}
        self._caught: list[tuple[Any, int, FrameType | None]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _HELD:
                before = signal.getsignal(number)
                if callable(before):
                    self._before[number] = before
                    signal.signal(number, self._catch)
        except BaseException:  # of a handler that was not held back yet
            self._restore()
            raise

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught.append((self._before[number], number, frame))

    def __exit__(self, *error: object) -> None:
        if self._before:
            try:
                self._restore()
            finally:
                self._give()

    def _restore(self) -> None:
        """Set the handlers again; one that raises meanwhile keeps none of the others from it."""
        left = list(self._before.items())
        try:
            while left:
                signal.signal(*left[-1])
                left.pop()
        except BaseException:
            self._before = dict(left)
            self._restore()
            raise

    def _give(self) -> None:
        """Call the handlers of what was caught; one that raises keeps none of the others from it.

        The same signal, caught twice, is given once, as the machine does.
        """
        while self._caught:
            before, number, frame = self._caught.pop()
            self._caught = [each for each in self._caught if each[1] != number]
            try:
                if self._is_finalizer:
                    _give_later(number)
                else:
                    before(number, frame)
            finally:
                self._give()


def _give_later(number: int) -> None:
    """Let the main thread be given a signal when the finalizer that it is in has ended."""
    later = threading.Timer(_LATER_S, _thread.interrupt_main, (number,))
    later.daemon = True
    with suppress(RuntimeError):  # the interpreter ends: no thread can be started
        later.start()
