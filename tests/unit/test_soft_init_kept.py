"""What a run may not lose or replace: samples of other runs, other files; interrupts, no memory."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from softcuda.errors import ConfigError
from softcuda.profile.resolve import read
from softcuda.tools import init_run
from softcuda.tools.cells import Cell, State
from softcuda.tools.init_stop import Stop
from softcuda.tools.measure import Meter
from softcuda.tools.samples import read_samples
from softcuda.tools.soft_init import main

FEW = ["--dtypes", "f32", "--device", "cpu", "--quiet"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sizes(op: str) -> set[int]:
    return {size for size, _ in read_samples(Path("CONFIG.csv"))[0].at(op, "f32")}


def test_sizes_that_are_not_measured_again_keep_their_samples_and_decide() -> None:
    assert main([*FEW, "--ops", "add,mul", "--max-size", "32"]) == 0
    first = read_samples(Path("CONFIG.csv"))[0]
    assert main([*FEW, "--ops", "add", "--sizes", "64", "--force"]) == 0
    again = read_samples(Path("CONFIG.csv"))[0]
    assert sizes("add") == {1, 2, 4, 8, 16, 32, 64} and sizes("mul") == {1, 2, 4, 8, 16, 32}
    assert dict(again.at("add", "f32"))[8] == dict(first.at("add", "f32"))[8]
    row = read("CONFIG.soft").lookup("add", "f32", 1)
    assert row is not None and row.comment.startswith("us at 1: ")


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    real, left = Meter.measure, [after]

    def measure(meter: Meter, *how: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(meter, *how)

    with monkeypatch.context() as patch:
        patch.setattr(Meter, "measure", measure)
        assert main([*FEW, "--ops", "add,mul", "--max-size", "32"]) == 130


def test_resuming_with_other_options_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupted(monkeypatch, 5)
    assert main([*FEW, "--resume", "--ops", "sin", "--sizes", "7"]) == 0
    assert sizes("sin") == {7} and sizes("add") and sizes("mul")
    profile = read("CONFIG.soft")
    for op in ("sin", "add", "mul"):
        row = profile.lookup(op, "f32", 7)
        assert row is not None and row.comment.startswith("us at"), op


def test_a_signal_while_the_profile_is_written_does_not_end_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = init_run.write

    def write(*how: Any) -> None:
        real(*how)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(init_run, "write", write)
    assert main([*FEW, "--ops", "add", "--max-size", "8"]) == 0
    assert sorted(os.listdir()) == ["CONFIG.csv", "CONFIG.soft"]
    assert "no profile was written" not in capsys.readouterr().err


def test_a_signal_before_the_profile_is_written_leaves_none_and_can_be_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = init_run.place_file

    def place(*how: Any) -> None:
        real(*how)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(init_run, "place_file", place)
        assert main([*FEW, "--ops", "add", "--max-size", "8"]) == 130
    assert "no profile was written" in capsys.readouterr().err
    assert not Path("CONFIG.soft").exists() and Path("CONFIG.soft.samples").exists()
    assert main([*FEW, "--ops", "add", "--max-size", "8", "--resume"]) == 0
    assert sorted(os.listdir()) == ["CONFIG.csv", "CONFIG.soft"]


def test_a_full_disk_names_the_file_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if "CONFIG.csv" in str(path) and "x" in mode:
            raise OSError(28, "No space left on device")
        return open(path, mode, *rest, **more)

    monkeypatch.setattr("softcuda.profile.place.open", full, raising=False)
    assert main([*FEW, "--ops", "add", "--max-size", "8"]) == 1
    assert "the file of samples cannot be written: No space" in capsys.readouterr().err
    assert not Path("CONFIG.soft").exists() and Path("CONFIG.soft.samples").exists()


def test_a_delayed_signal_is_noted() -> None:
    stop = Stop()
    with stop.delayed():
        stop.take(signal.SIGINT)
    assert stop.number == signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        stop.check()


def test_a_file_of_something_else_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("CONFIG.csv").write_text("precious\n", encoding="utf-8")
    few = [*FEW, "--ops", "add", "--sizes", "4"]
    assert main(few) == 1
    assert "CONFIG.csv: this file holds no samples" in capsys.readouterr().err
    assert Path("CONFIG.csv").read_text(encoding="utf-8") == "precious\n"
    assert main([*few, "--force"]) == 0
    assert sizes("add") == {4}


@pytest.mark.parametrize("error", [MemoryError("no room"), ValueError("too large")])
def test_inputs_that_cannot_be_made_are_refused(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typical(op: str, size: int, *rest: Any) -> Any:
        if size == 16:
            raise error
        return real(op, size, *rest)

    from softcuda.tools import measure

    real = measure.typical
    monkeypatch.setattr(measure, "typical", typical)
    found = Meter().measure(Cell("add", "f32", 16), ["cpu_fused"], 0.0)["cpu_fused"]
    assert found.state is State.REFUSED  # and not tried again
    assert found.reason == f"add[f32] of size 16 cannot be made here: {error}"
    assert main([*FEW, "--ops", "add", "--sizes", "4,16"]) == 0
    assert read_samples(Path("CONFIG.csv"))[0].times("add", "f32")[-1][0] == 4


def test_a_check_of_rows_that_cannot_be_measured_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FEW, "--ops", "add", "--max-size", "8"]) == 0

    def typical(*how: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr("softcuda.tools.measure.typical", typical)
    assert main(["--check", "--ops", "add", "--dtypes", "f32"]) == 1
    assert "is out: add[f32] of size" in capsys.readouterr().out
    with pytest.raises(ConfigError):
        read("none.soft")
