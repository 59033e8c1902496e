"""Files and words that are damaged: an error that names the place, and never a traceback."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from unit.test_soft_init_finding import CPU, GPU, OPS, ledger, profile, scopes_of

from softcuda.errors import ConfigError
from softcuda.profile.machine import device_hash
from softcuda.profile.model import Crossing, PoolSettings, Profile
from softcuda.profile.writer import write
from softcuda.tools.init_output import Output
from softcuda.tools.init_profile import Origin, made_profile
from softcuda.tools.init_questions import difference_lines
from softcuda.tools.report_curves import figures
from softcuda.tools.report_markdown import finding
from softcuda.tools.samples import measured_path, read_samples, samples_text
from softcuda.tools.soft_init import main
from softcuda.tools.thresholds import Race, crossing_of

WHOLE = samples_text(ledger(), ("me",))
ROW = "add,f32,1,cpu_fused,cpu,measured,"


def changed(column: int, text: str) -> str:
    """Return the samples with another word in the first line of add."""
    lines = WHOLE.splitlines(keepends=True)
    place = next(k for k, line in enumerate(lines) if line.startswith(ROW))
    words = lines[place].rstrip("\n").split(",")
    words[column] = text
    lines[place] = ",".join(words) + "\n"
    return "".join(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WHOLE[:-5], r"line \d+: the file ends in the middle of a line"),
        (changed(0, "subtract"), r"line \d+: op is 'subtract', which is unknown"),
        (changed(1, "f33"), r"line \d+: dtype is 'f33'"),
        (changed(2, "0"), r"line \d+: size is '0'"),
        (changed(2, "-3"), r"line \d+: size is '-3'"),
        (changed(2, "1" + 400 * "0"), r"line \d+: size is '10000"),
        (changed(4, "tpu"), r"line \d+: device is 'tpu'"),
        (changed(8, "0"), r"line \d+: a time is '0'"),
        (changed(8, "1 nan 2"), r"line \d+: a time is '1 nan 2'"),
        (changed(8, "inf"), r"line \d+: a time is 'inf'"),
        (changed(8, ""), ""),
        (changed(9, "1,2"), r"line \d+: the line has another number of columns"),
        ("# " + 20000 * "[" + "\n", "line 1: "),
        ("# []\n", "line 1: "),
        ("", "line 1: "),
        (WHOLE.replace('"owner": ["me"]', '"owner": ["me"], "load": {"x": 1}'), "line 1: load is"),
        (WHOLE.replace("op,dtype,size", "op,dtype", 1), "line 2: the columns are"),
    ],
)
def test_damaged_samples_name_their_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    if not told:  # without samples the median that is written counts
        assert read_samples(path)[0].times("add", "f32")
        return
    with pytest.raises(ConfigError, match=f"the samples cannot be read, {told}"):
        read_samples(path)


@pytest.mark.parametrize("command", [["report", "g.soft"], ["--explain", "add", "8", "g.soft"]])
def test_commands_say_what_is_damaged(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(profile("g.soft"), "g.soft")
    measured_path("g.soft").write_text(WHOLE[:-5], encoding="utf-8")
    assert main(command) == 1
    assert "the samples cannot be read, line " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--explain", "add", "1" + 400 * "0"],
        ["--max-size", 5000 * "1"],
        ["--sizes", 5000 * "1"],
        ["--sizes", ""],
    ],
)
def test_words_that_are_no_sizes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "soft_init: --" in said and "whole number" in said and len(said) < 200


def test_output_without_a_sign_for_plus_minus(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    Output().say("host 384 ± 20 µs")
    shown.seek(0)
    assert shown.read() == "host 384 +- 20 ?s\n"


def test_a_crossing_at_the_smallest_size_may_be_at_any_below() -> None:
    ahead = [Race(size, (9.0,) * 3, (3.0,) * 3) for size in (256, 512)]
    assert crossing_of(ahead, 1) == Crossing(256, 255)
    assert crossing_of([Race(1, (9.0,) * 3, (3.0,) * 3)], 1) == Crossing(1, 0)


def test_differences_of_policy_and_pool_and_what_is_not_compared() -> None:
    one = profile("a.soft")
    rows = tuple(row for row in one.rows if row.op != "relu")
    other = Profile(
        "b.soft", one.meta, GPU, rows, policy="min_cut", pool=PoolSettings("cuda", 4096)
    )
    lines = difference_lines(one, other)
    assert "policy is table in a.soft and min_cut in b.soft" in lines
    assert any(line.startswith("pool: block_size is ") for line in lines)
    assert "measured in a.soft alone, and not compared: relu[f32]" in lines


def test_the_finding_of_a_cpu_has_a_title_of_its_own() -> None:
    scopes = scopes_of(dict.fromkeys(OPS, ("f32",)))
    measured = ledger(("cpu",), scopes)
    here = CPU._replace(cpu="Abacus <1>")
    made = made_profile(measured, scopes, Origin("x", here, "2026-03-18T09:00:00Z"))
    text = finding(made, measured, figures(measured, made), "x")
    assert "# What a call takes: Abacus &lt;1&gt;\n" in text
    assert device_hash(here) == made.meta["device_hash"]
