"""The README and pages of docs keep their word: code blocks run, and print what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shown_blocks import PAGES, blocks, check_blocks

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_code_blocks_run_and_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOFTCUDA_CONFIG", "default")
    for page, least in PAGES.items():
        assert check_blocks(ROOT / page) >= least


def test_two_commands_of_one_line_each() -> None:
    commands = [text for language, text in blocks(README) if language == "sh"]
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
