"""The two commands of the README, on a copy of the tree without an environment, and again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from installs import run


def commands(tree: Path) -> list[str]:
    text = (tree / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_readme_commands_twice(tree: Path) -> None:
    first, second = commands(tree)
    # The budget is the reader's; the test looks at what happens, not at how well it measures.
    first = first.replace("--budget 30", "--budget 5")
    env = {"SOFTCUDA_CONFIG": ""}
    for _ in range(2):
        printed = run("bash", "-c", first, cwd=tree, env=env, seconds=900)
        assert re.search(r"CONFIG\.soft:\d+", printed), printed
        assert "after q" in printed, printed
    assert (tree / "CONFIG.soft").is_file()
    few = {**env, "PYTEST_ADDOPTS": "-k test_floors --ignore=tests/gpu --ignore=tests/compile"}
    for _ in range(2):
        assert " passed" in run("bash", "-c", second, cwd=tree, env=few, seconds=900)


def test_readme_commands_are_valid_shell(tree: Path) -> None:
    for command in commands(tree):
        subprocess.run(["bash", "-n", "-c", command], check=True)
