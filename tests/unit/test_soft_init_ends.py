"""How soft_init ends: signals, readers that leave, places that take no file, earlier profiles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import softcuda
from softcuda.profile.resolve import read
from softcuda.tools.init_output import Output
from softcuda.tools.init_stop import stoppable
from softcuda.tools.soft_init import main

ROOT = Path(softcuda.__file__).parents[1]
FEW = ["--ops", "add", "--max-size", "16", "--dtypes", "f32"]
CODE = """
import softcuda.tools.display
from softcuda.tools.soft_init import main
softcuda.tools.display._LINE_EVERY_S = 0.0
raise SystemExit(main())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def started(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize(("number", "times"), [("SIGTERM", 1), ("SIGINT", 3)])
def test_signals_keep_the_samples(number: str, times: int) -> None:
    signum = getattr(signal, number)
    process = started()
    assert process.stdout is not None
    while "measured 2 of" not in process.stdout.readline():
        assert process.poll() is None
    for _ in range(times):
        process.send_signal(signum)
        time.sleep(0.01)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signum
    assert "Traceback" not in errors and "interrupted" in errors
    assert ("SIGTERM" in errors) == (number == "SIGTERM")
    assert "measurements are kept for --resume in" in errors
    assert os.listdir() == ["CONFIG.soft.samples"]


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe of POSIX")
def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    process = started(*FEW)
    assert process.stdout is not None and process.stderr is not None
    assert "machine" in process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert read("CONFIG.soft").rows


def test_the_first_signal_counts_and_is_not_lost() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stoppable(is_last=False) as stop:
        stop.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        assert (stop.status, stop.text) == (130, "interrupted")
    assert signal.getsignal(signal.SIGINT) is before


def test_samples_are_not_lost_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("CONFIG.soft.samples").write_text("precious", encoding="utf-8")
    for force in ([], ["--force"]):
        assert main([*FEW, *force]) == 1
        said = capsys.readouterr().err
        assert "CONFIG.soft.samples: " in said and "--resume goes on from them" in said
    assert Path("CONFIG.soft.samples").read_text(encoding="utf-8") == "precious"


def test_what_is_not_measured_again_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--max-size", "4", "--dtypes", "f32"]
    assert main([*few, "--ops", "add,mul,sum"]) == 0
    first = {row.op: row for row in read("CONFIG.soft").rows if row.dtype == "f32"}
    capsys.readouterr()
    assert main([*few, "--ops", "add", "--force"]) == 0
    assert "of them are the earlier profile's, which fits this machine" in capsys.readouterr().out
    again = {row.op: row for row in read("CONFIG.soft").rows if row.dtype == "f32"}
    assert first.keys() == again.keys()
    for op in ("mul", "sum"):
        assert "us at" in again[op].comment
        assert again[op]._replace(line=0) == first[op]._replace(line=0)


def test_a_profile_that_does_not_fit_is_replaced_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Path("CONFIG.soft").write_text(
        "[meta]\nsoft_version = 0.1.0\ndevice_hash = 00\n[ops]\nmul | any = cpu_fallback # mine\n",
        encoding="utf-8",
    )
    assert main([*FEW, "--force"]) == 0
    printed = capsys.readouterr().out
    assert "CONFIG.soft is replaced whole: the profile does not fit this machine" in printed
    assert "the earlier profile's" not in printed
    assert "mine" not in Path("CONFIG.soft").read_text(encoding="utf-8")


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_folder_is_no_output(
    force: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--output", str(folder), *force]) == 1
    said = capsys.readouterr().err
    assert said == f"soft_init: {folder}: this is a folder; allowed is the name of a file in it\n"
    if sys.platform != "win32":
        os.mkfifo("pipe")
        assert main(["--output", "pipe", *force]) == 1
        assert "no regular file" in capsys.readouterr().err


def test_a_place_that_takes_no_file_is_noticed_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("softcuda.tools.init_run.Meter", None)  # nothing is measured
    assert main(["--output", "x" * 300]) == 1
    assert "cannot be written" in capsys.readouterr().err
    if Path("/proc").is_dir():
        assert main(["--output", "/proc/CONFIG.soft"]) == 1
        assert "cannot be written" in capsys.readouterr().err
    assert not os.listdir()


def test_sizes_without_time_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ops", "add", "--dtypes", "f32", "--max-size", "64", "--budget", "0"]) == 0
    printed = capsys.readouterr().out
    assert "7 of 7 sizes were not reached in time" in printed
    assert main([*FEW, "--force"]) == 0
    assert "not reached" not in capsys.readouterr().out


def test_long_facts_go_on_below_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    Output().fact("note", "word " * 40)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("note         word word") and len(first) <= 100
    assert others and all(line.startswith(" " * 13 + "word") for line in others)


def test_a_report_of_an_unknown_op_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--ops", "matmul,subtract"]) == 2
    assert "'subtract' is unknown (its token here is 'sub')" in capsys.readouterr().err
