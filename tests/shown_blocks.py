"""Code blocks of a page that run, and the text that they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

__all__ = ["blocks", "check_blocks", "printed_by", "squeezed"]

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return (language, text) of every fenced block, in order."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def squeezed(text: str) -> list[str]:
    """Return the lines that hold something, runs of blanks and of dashes counted as one.

    The line numbers of the shipped profile may change, and so may where it is installed.
    """
    text = re.sub(r"\S*DEFAULT\.soft(:\d+)?", "DEFAULT.soft", re.sub("-+", "-", text))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def printed_by(page: Path) -> list[tuple[int, str, str]]:
    """Run the Python blocks of a page; return (number, what it printed, what is shown) of each."""
    scope: dict[str, Any] = {"__name__": page.stem}
    found, made = blocks(page), []
    for number, (language, text) in enumerate(found):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"{page.name}, block {number}", "exec"), scope)
        following = found[number + 1] if number + 1 < len(found) else ("", "")
        made.append((number, printed.getvalue(), following[1] if following[0] == "text" else ""))
    return made


def check_blocks(page: Path) -> int:
    """Fail where a block prints something else than is shown; return how many blocks ran."""
    made = printed_by(page)
    for number, printed, shown in made:
        assert squeezed(printed) == squeezed(shown), f"{page.name}, block {number}"
    return len(made)
