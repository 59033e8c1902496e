"""Whether a file is still the one that was read: asked at each evaluation, in little time.

os.stat makes Python objects of all that the kernel tells, in as much time as asking it takes; this
compares bytes. Source: POSIX, stat().
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p
from functools import cache, partial
from typing import Any, Final

__all__ = ["Watch", "watch_of"]

_ROOM: Final = 256  # bytes, more than any Linux's struct stat; those behind it stay 0


class Watch:
    """A file as it was when this was made, and the question whether it still is that.

    Args:
        ask: asks the system, and returns 0 where it answered.
        answer: what it writes: device, inode, size, times and more.
    """

    __slots__ = ("_answer", "_ask", "_seen")

    def __init__(self, ask: Callable[[], int], answer: Any) -> None:
        self._ask = ask
        self._answer = answer
        self._seen: bytes | None = None if ask() else answer.raw

    def is_same(self) -> bool:
        """Return whether the file is there, and nothing about it is different.

        False also where it was only read in between, if the file system notes that.
        """
        return not self._ask() and self._answer.raw == self._seen


@cache
def _stat() -> Any:
    """Return the function of the C library, None where it has none of this name."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        # No other thread asks meanwhile, as that would write its answer to the same place.
        return ctypes.PyDLL(None).stat
    except (OSError, AttributeError):
        return None


def watch_of(path: str) -> Watch | None:
    """Return the watch over a file as it is now; None where the system offers none."""
    stat = _stat()
    if stat is None:
        return None
    answer = ctypes.create_string_buffer(_ROOM)
    return Watch(partial(stat, c_char_p(os.fsencode(path)), byref(answer)), answer)
