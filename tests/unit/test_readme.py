"""The README keeps its word: its code blocks run, and print what it says they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Return (language, text) of every fenced block, in order."""
    return BLOCK.findall(README.read_text(encoding="utf-8"))


def squeezed(text: str) -> list[str]:
    """Return the lines that hold something, runs of blanks and of dashes counted as one.

    The line numbers of the shipped profile may change, and so may where it is installed.
    """
    text = re.sub(r"\S*DEFAULT\.soft(:\d+)?", "DEFAULT.soft", re.sub("-+", "-", text))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_code_blocks_run_and_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOFTCUDA_CONFIG", "default")
    scope: dict[str, Any] = {"__name__": "readme"}
    found = blocks()
    assert sum(language == "python" for language, _ in found) >= 5
    for number, (language, text) in enumerate(found):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"README.md, block {number}", "exec"), scope)
        following = found[number + 1] if number + 1 < len(found) else ("", "")
        shown = following[1] if following[0] == "text" else ""
        assert squeezed(printed.getvalue()) == squeezed(shown), f"block {number}:\n{text}"


def test_two_commands_of_one_line_each() -> None:
    commands = [text for language, text in blocks() if language == "sh"]
    assert len(commands) == 2
    first, second = commands
    assert all(len(command.strip().splitlines()) == 1 for command in commands)
    assert "soft_init --budget 30" in first
    assert "examples/quickstart.py" in first
    assert "SOFTCUDA_CONFIG=default" in second
    assert "pytest" in second


def test_links_point_to_files() -> None:
    for path in [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, absent"
