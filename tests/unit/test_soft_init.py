"""The console script soft_init, end to end, on few ops and small sizes."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcuda.executor.executable import Executable
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.profile.machine import device_hash, this_machine
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile as compile_nodes
from softcuda.tools.cells import Cell
from softcuda.tools.measure import Meter
from softcuda.tools.soft_init import main

FEW = ["--ops", "add,sum,matmul", "--max-size", "32", "--dtypes", "f32"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled() -> Executable:
    x = Node.leaf(np.ones(8, np.float32))
    return compile_nodes(Node.apply(OPS["add"], (x, x)), "CONFIG.soft")


def test_a_profile_is_measured_and_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FEW) == 0
    printed = capsys.readouterr().out
    machine = this_machine()
    assert machine.cpu in printed and device_hash(machine) in printed
    assert re.search(r"^add\[f32\] +32 .*\*", printed, re.MULTILINE)
    assert "wrote CONFIG.soft" in printed and "left, now" in printed
    profile = read("CONFIG.soft")
    assert profile.meta["device_hash"] == device_hash(machine)
    assert {row.op for row in profile.rows} == set(work_ops())
    row = profile.lookup("add", "f32", 8)
    assert row is not None and row.comment.startswith("us at ")
    told = [int(size) for size in re.findall(r"\bat (\d+): cpu_\w+ [\d.]+", row.comment)]
    assert told and row.low <= told[0] <= told[-1] <= 32  # the first and last size of the row
    assert row.high is None or told[-1] < row.high
    untouched = profile.lookup("tanh", "f32", 8)
    assert untouched is not None and untouched.comment == "not measured"
    assert f"CONFIG.soft:{row.line}" in str(compiled())


def test_a_second_run_ends_well_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--budget", "0.2"]) == 0
    before = Path("CONFIG.soft").read_bytes()
    capsys.readouterr()
    assert main(FEW) == 0
    assert "CONFIG.soft fits this machine; --force measures again" in capsys.readouterr().out
    assert Path("CONFIG.soft").read_bytes() == before
    Path("CONFIG.soft").write_text("nothing of worth")
    assert main([*FEW, "--budget", "0.2", "--force"]) == 0
    assert read("CONFIG.soft").meta["device_hash"] == device_hash(this_machine())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[meta]\nsoft_version = 0.1.0\n[ops]\nadd | size < 5 = cpu_fused\n", "uncovered"),
        ("[meta]\nsoft_version = 0.1.0\n[ops]\nadd | any = cpu_magic\n", "cpu_magic"),
        (
            "[meta]\nsoft_version = 0.1.0\ndevice_hash = " + "0" * 64 + "\n[device]\ntype = cpu\n"
            "cpu = Abacus\ncpu_cores = 3\n[ops]\nadd | any = cpu_fused\n",
            "'Abacus' in the profile",
        ),
        (
            "[meta]\nsoft_version = 0.1.0\n[device]\ntype = cuda\nname = H200\n"
            "compute_capability = 9.0\n[ops]\nadd | any = cpu_fused\n",
            "H200",
        ),
    ],
)
def test_a_profile_that_does_not_fit_is_an_error_and_kept(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("CONFIG.soft").write_text(text)
    assert main(FEW) == 1
    shown = capsys.readouterr().err
    assert said in shown and "--force" in shown and "CONFIG.soft" in shown
    assert Path("CONFIG.soft").read_text() == text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ops", "add,frobnicate"], "'frobnicate' is unknown; allowed are"),
        (["--ops", "subtract"], "its token here is 'sub'"),
        (["--ops", "reshape"], "it is a view"),
        (["--ops", ","], "--ops is empty"),
        (["--ops", "mutmul"], "'mutmul' is unknown, the closest is 'matmul'; allowed are"),
        (["--ops", "Add"], "'Add' is unknown, the closest is 'add'"),
        (["--dtypes", "f33"], "'f33' is unknown, the closest is 'f32'; allowed are bool, i32"),
        (["--dtypes", "bool", "--ops", "add"], "takes these dtypes"),
        (["--budget", "soon"], "--budget is 'soon'"),
        (["--budget", "-1"], "--budget is '-1'"),
        (["--budget", "0"], "--budget is '0'; allowed is a number of seconds above 0"),
        (["--budget", "nan"], "--budget is 'nan'"),
        (["--max-size", "0"], "--max-size is '0'"),
        (["--max-size", "1e3"], "--max-size is '1e3'"),
        (["--sizes", "8,x"], "--sizes is 'x'"),
        (["--device", "tpu"], "--device is 'tpu'; allowed are auto, cpu, cuda"),
        (["--explain", "mutmul", "8"], "'mutmul' is unknown, the closest is 'matmul'"),
        (["--explain", "add[f33]", "8"], "'add[f33]' names no dtype"),
        (["--explain", "add", "big"], "--explain is 'big'"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_options(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options) == 2
    assert said in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_help_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in (
        *("ops", "dtypes", "sizes", "max-size", "device", "budget", "full", "output", "force"),
        *("resume", "check", "diff", "explain", "quiet"),
    ):
        assert f"--{name}" in shown


def test_what_is_not_measured_is_the_default() -> None:
    assert main([*FEW, "--quiet"]) == 0
    profile, shipped = read("CONFIG.soft"), default_profile()
    for op in set(work_ops()) - {"add", "sum", "matmul"}:
        ours, theirs = (p.lookup(op, "f32", 1 << 15) for p in (profile, shipped))
        assert ours is not None and theirs is not None
        assert (ours.backend_id, ours.comment) == (theirs.backend_id, "not measured")
    assert "CONFIG.soft:" in str(compiled())


def test_a_budget_is_kept() -> None:
    begin = time.monotonic()
    assert main(["--budget", "1", "--quiet"]) == 0
    assert time.monotonic() - begin < 3
    measured = {row.op for row in read("CONFIG.soft").rows if "us at" in row.comment}
    assert {"matmul", "add", "mul", "relu"} <= measured


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--budget", "2", "--quiet"]) == 0
    assert main([*FEW, "--quiet"]) == 0
    assert tuple(capsys.readouterr()) == ("", "")


def test_output_is_checked_before_anything_is_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = time.monotonic()
    assert main(["--output", "missing/CONFIG.soft"]) == 1
    assert f"the folder {folder / 'missing'} is missing" in capsys.readouterr().err
    assert main(["--output", str(folder), "--force"]) == 1
    assert "this is a folder" in capsys.readouterr().err
    assert main([*FEW, "--budget", "1", "--quiet", "--output", "other.soft"]) == 0
    assert Path("other.soft").is_file()
    assert time.monotonic() - begin < 3


class Interrupting:
    """A meter that is interrupted at its third measurement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Cell] = []
        self.left = 2
        real = Meter.measure

        def measure(meter: Meter, cell: Cell, names: Any, allowance_s: float) -> Any:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            if allowance_s < 0.1:  # more is for what is doubted
                self.asked.append(cell)
            return real(meter, cell, names, allowance_s)

        monkeypatch.setattr(Meter, "measure", measure)


def test_an_interrupt_keeps_the_samples_and_writes_no_profile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meter = Interrupting(monkeypatch)
    assert main(FEW) == 130
    assert "interrupted; no profile was written" in capsys.readouterr().err
    assert os.listdir() == ["CONFIG.soft.samples"]
    first = list(meter.asked)
    meter.left = -1
    assert main([*FEW, "--resume"]) == 0
    assert sorted(os.listdir()) == ["CONFIG.csv", "CONFIG.soft"]
    assert not set(first) & set(meter.asked[len(first) :])


def test_samples_that_do_not_fit_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--resume"]) == 1
    assert "no samples to resume from" in capsys.readouterr().err
    samples = Path("CONFIG.soft.samples")
    samples.write_text("{")
    assert main([*FEW, "--resume"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    samples.write_text("# " + json.dumps({"format": "softcuda samples 2", "owner": []}) + "\n")
    assert main([*FEW, "--resume"]) == 1
    assert "remove the file to measure anew" in capsys.readouterr().err
