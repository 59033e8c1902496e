"""The examples run, and say what a reader is told they say."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tolerance import assert_close

import softcuda

EXAMPLES = Path(softcuda.__file__).parents[1] / "examples"
EXECUTED = ("quickstart.py", "own_backend.py")


def run(name: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "SOFTCUDA_CONFIG": "default"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_quickstart(tmp_path: Path) -> None:
    printed = run("quickstart.py", tmp_path)
    table, results = printed.split("\n\n", 1)
    steps = re.findall(r"^(?:\d+)? +[a-z]\w* .*->.*$", table, re.MULTILINE)
    assert len(steps) >= 20
    assert all(re.search(r"DEFAULT\.soft:\d+", step) for step in steps)
    assert "after q: most likely u" in results
    assert not list(tmp_path.iterdir())


def test_quickstart_against_numpy() -> None:
    example = runpy.run_path(str(EXAMPLES / "quickstart.py"))
    codes = example["letter_codes"]("the quick brown fox jumps over the lazy dog " * 50)
    found = softcuda.compile(example["bigram_model"](len(codes)), "default").run(text=codes)
    counts = np.zeros((27, 27))
    np.add.at(counts, (codes[:-1], codes[1:]), 1)
    p = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    entropy = -(p * np.log2(np.where(p > 0, p, 1))).sum(axis=1)
    assert_close(found["p"].numpy(), p, softcuda.f32, "div")
    assert np.array_equal(found["follower"].numpy(), p.argmax(axis=1))
    terms = len(example["LETTERS"])
    assert_close(
        found["entropy"].numpy(), entropy, softcuda.f32, "log2", k_extent=terms, scale=entropy.max()
    )


def test_quickstart_finds_english_without_help_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    example = runpy.run_path(str(EXAMPLES / "quickstart.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert len(example["letter_codes"](example["english"]())) > 20_000


def test_own_backend(tmp_path: Path) -> None:
    lines = run("own_backend.py", tmp_path).splitlines()
    (relu,) = [line for line in lines if " relu " in line]
    assert " own_backend " in relu
    assert re.search(r"own_backend\.soft:\d+", relu)
    assert lines[-1] == "9.0"


def test_every_example_is_executed() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXECUTED)
