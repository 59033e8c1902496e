"""What soft_init prints, also where nobody reads it any more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Output"]


class Output:
    """Standard output for as long as it takes text; where it ends, the run goes on without it.

    Attributes:
        quiet: nothing is printed.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet or sys.stdout is None

    def say(self, text: str) -> None:
        """Print a line."""
        if not self.quiet:
            with self.guarded():
                print(text, flush=True)

    def flush(self) -> None:
        """Write out what was printed by whomever."""
        if sys.stdout is not None:
            with self.guarded():
                sys.stdout.flush()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Return a context in which standard output may end."""
        try:
            yield
        except OSError as error:
            _to_nowhere()
            if not isinstance(error, BrokenPipeError):
                reason = error.strerror or error
                print(f"soft_init: standard output: {reason}; nothing more is shown",
                      file=sys.stderr)  # fmt: skip


def _to_nowhere() -> None:
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
