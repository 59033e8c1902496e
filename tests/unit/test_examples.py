"""The examples run, and say what a reader is told they say."""

from __future__ import annotations

import ast
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
EXECUTED = (
    "quickstart.py",
    "own_backend.py",
    "xor.py",
    "digits.py",
    "characters.py",
    "coupled_cluster.py",
)


def run(name: str, cwd: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
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


def test_xor(tmp_path: Path) -> None:
    printed = run("xor.py", tmp_path)
    assert "in place" in printed
    answers = re.findall(r"^(\d) xor (\d) = (\S+)$", printed, re.MULTILINE)
    assert len(answers) == 4
    assert all(round(float(y)) == int(a) ^ int(b) for a, b, y in answers)


def test_digits(tmp_path: Path) -> None:
    for needed in ("sklearn", "matplotlib"):
        pytest.importorskip(needed, reason="the extra `examples` is not installed")
    printed = run("digits.py", tmp_path)
    [share] = re.findall(r"^right on (\S+)% of 360 images", printed, re.MULTILINE)
    assert float(share) >= 97
    assert (tmp_path / "digits_loss.png").read_bytes().startswith(b"\x89PNG")


def test_characters(tmp_path: Path) -> None:
    printed = run("characters.py", tmp_path, "--steps", "16")
    bits = [float(x) for x in re.findall(r"^step \d+: (\S+) bits", printed, re.MULTILINE)]
    assert len(bits) == 8
    assert bits[-1] < bits[0] < 8
    assert len(ast.literal_eval(printed.splitlines()[-1])) == 160


def test_coupled_cluster(tmp_path: Path) -> None:
    printed = run("coupled_cluster.py", tmp_path)
    [energy] = re.findall(r"^energy (\S+), largest", printed, re.MULTILINE)
    example = runpy.run_path(str(EXAMPLES / "coupled_cluster.py"))
    system = example["model_system"]()
    by_numpy = example["solved_by_numpy"](system)
    assert_close(np.array(float(energy)), by_numpy, softcuda.f64, "matmul", k_extent=1 << 20)


def test_every_example_is_executed() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXECUTED)
