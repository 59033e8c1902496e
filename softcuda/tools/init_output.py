"""What soft_init prints, also where nobody reads it any more."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from softcuda.tools.standard_output import to_nowhere

__all__ = ["Output"]

_WIDTH: Final = 100
_NAMES: Final = 13


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
                print(_printable(text), flush=True)

    def fact(self, name: str, text: str) -> None:
        """Print a named fact; one that is long goes on in the next line, below itself."""
        self.say(
            textwrap.fill(
                text,
                _WIDTH,
                initial_indent=f"{name:<{_NAMES}}",
                subsequent_indent=" " * _NAMES,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

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
            to_nowhere()
            if not isinstance(error, BrokenPipeError):
                reason = error.strerror or error
                print(f"soft_init: standard output: {reason}; nothing more is shown",
                      file=sys.stderr)  # fmt: skip


def _printable(text: str) -> str:
    """Return a text as standard output can show it: what it has no sign for is shown by "?"."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("±", "+-").encode(encoding, "replace").decode(encoding)
    return text
