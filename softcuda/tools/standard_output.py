"""Standard output of the console scripts: it may end before they do, as before `| head`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Final

__all__ = ["BROKEN_PIPE", "to_nowhere", "until_pipe_ends"]

BROKEN_PIPE: Final = 141  # 128 + SIGPIPE, as shells report it


def to_nowhere() -> None:
    """Let standard output go nowhere, so that the end of the process does not fail either.

    Source:
        Python's documentation, library/signal, "Note on SIGPIPE".
    """
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)


def until_pipe_ends(work: Callable[[], int]) -> int:
    """Return the exit status that printing work gives; BROKEN_PIPE where nobody reads it any more.

    Args:
        work: prints, and returns the exit status, or ends by SystemExit as argparse does.
    """
    try:
        try:
            status = work()
        except SystemExit as stop:
            status = int(stop.code or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        to_nowhere()
        return BROKEN_PIPE
    return status
