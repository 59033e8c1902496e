"""Signals that end soft_init: the first ends it in order, the next do not disturb that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["Stop", "stoppable"]

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class Stop:
    """Which signal ended the run.

    Attributes:
        number: of the signal; 0 before one came.
    """

    def __init__(self) -> None:
        self.number = 0
        self._is_delayed = False

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Return a context that a signal does not end; who asks later is told of it."""
        self._is_delayed = True
        try:
            yield
        finally:
            self._is_delayed = False

    def take(self, number: int) -> None:
        """Note the first signal, and end the run by it unless that is delayed.

        Raises:
            KeyboardInterrupt: it is the first one, and not delayed.
        """
        if not self.number:
            self.number = number
            if not self._is_delayed:
                raise KeyboardInterrupt

    @property
    def status(self) -> int:
        """The exit status, as shells report it."""
        return 128 + (self.number or signal.SIGINT)

    @property
    def text(self) -> str:
        """What happened, such as "interrupted by SIGTERM"."""
        if self.number in (0, signal.SIGINT):
            return "interrupted"
        return f"interrupted by {signal.Signals(self.number).name}"

    def check(self) -> None:
        """Raise again what something may have swallowed.

        Raises:
            KeyboardInterrupt: a signal came.
        """
        if self.number:
            raise KeyboardInterrupt


@contextmanager
def stoppable(*, is_last: bool) -> Iterator[Stop]:
    """Return a context in which the first signal raises KeyboardInterrupt, later ones nothing.

    A signal that is ignored already, as by nohup, stays so. Outside the main thread nothing
    changes.

    Args:
        is_last: the process ends after the context: signals stay ignored once one came, and end it
            without a word where none came.
    """
    stop = Stop()

    def take(number: int, frame: FrameType | None) -> None:
        stop.take(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in _NAMES:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, take)
    try:
        yield stop
    finally:
        last = signal.SIG_IGN if stop.number else signal.SIG_DFL
        for number, handler in before.items():
            signal.signal(number, last if is_last else handler)
