"""Code blocks of pages that run, and the text that they print.

`python tests/shown_blocks.py` writes what they print into the pages, where only line numbers of the
shipped profiles and widths of columns have changed. Blocks marked `py` need NVRTC, `python` do not.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

__all__ = ["PAGES", "WITH_NVRTC", "blocks", "check_blocks", "printed_by", "squeezed"]

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALONE = ("python",)
WITH_NVRTC = ("python", "py")

# Pages, and how many blocks run in each of them at least.
PAGES = {
    "README.md": 5,
    "docs/named_axes.md": 10,
    "docs/gradients.md": 6,
    "docs/training.md": 4,
    "docs/saved.md": 3,
    "docs/pipeline.md": 1,
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return (language, text) of every fenced block, in order."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def squeezed(text: str) -> list[str]:
    """Return the lines that hold something, runs of blanks and of dashes counted as one.

    Where the shipped profiles are installed does not count.
    """
    text = re.sub(r"\S*/(DEFAULT|nvidia-h200)\.soft", r"\1.soft", re.sub("-+", "-", text))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def printed_by(page: Path, languages: Collection[str] = ALONE) -> list[tuple[int, str, str]]:
    """Run the Python blocks of a page; return (number, what it printed, what is shown) of each."""
    scope: dict[str, Any] = {"__name__": page.stem}
    found, made = blocks(page), []
    for number, (language, text) in enumerate(found):
        if language not in languages:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"{page.name}, block {number}", "exec"), scope)
        following = found[number + 1] if number + 1 < len(found) else ("", "")
        made.append((number, printed.getvalue(), following[1] if following[0] == "text" else ""))
    return made


def check_blocks(page: Path, languages: Collection[str] = ALONE) -> int:
    """Fail where a block prints something else than is shown; return how many blocks ran."""
    made = printed_by(page, languages)
    for number, printed, shown in made:
        assert squeezed(printed) == squeezed(shown), (
            f"{page.name}, block {number}; python tests/shown_blocks.py writes line numbers anew"
        )
    return len(made)


def without_numbers(text: str) -> list[str]:
    """Return what must be the same of two texts of which one is written in place of the other."""
    return squeezed(re.sub(r"\.soft:\d+", ".soft", text))


def rewrite(page: Path) -> None:
    """Write what the blocks of a page print into it, where line numbers alone have changed."""
    text = page.read_text(encoding="utf-8")
    for number, printed, shown in printed_by(page, WITH_NVRTC):
        if squeezed(printed) == squeezed(shown):
            continue
        if without_numbers(printed) == without_numbers(shown):
            text = text.replace(shown, printed)
        else:
            print(f"{page.name}, block {number} prints something else:\n{printed}")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ["SOFTCUDA_CONFIG"] = "default"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in PAGES:
            rewrite(ROOT / name)
