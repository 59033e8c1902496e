"""How soft_init ends: signals, readers that leave, places that take no file, earlier profiles."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from unit.test_soft_init_doubts import Disturbed

import softcuda
from softcuda.profile.resolve import read
from softcuda.tools.cells import Ledger, scopes_of
from softcuda.tools.estimates import full_cost_s
from softcuda.tools.init_keep import with_earlier
from softcuda.tools.init_output import Output
from softcuda.tools.init_stop import stoppable
from softcuda.tools.measure import Meter
from softcuda.tools.samples import read_samples
from softcuda.tools.soft_init import main
from softcuda.tools.sweep import Moment, sweep

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


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_after_the_last_context_a_signal_ends_the_process_without_a_word() -> None:
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        for number in before:  # a signal that nohup has ignored stays ignored
            signal.signal(number, signal.SIG_DFL)
        with stoppable(is_last=True):
            pass
        assert {signal.getsignal(number) for number in before} == {signal.SIG_DFL}
        with stoppable(is_last=True), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert {signal.getsignal(number) for number in before} == {signal.SIG_IGN}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    assert main(["--ops", "matmul,add", "--dtypes", "f32", "--budget", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\d+ of 35 sizes were not reached in time", printed)
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


def test_samples_of_what_is_not_measured_again_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["--max-size", "4", "--dtypes", "f32"]
    assert main([*few, "--ops", "add,mul,sum"]) == 0
    first, _ = read_samples(Path("CONFIG.csv"))
    assert main([*few, "--ops", "add", "--force"]) == 0
    assert "and so are the samples of 2 ops and dtypes" in capsys.readouterr().out
    again, _ = read_samples(Path("CONFIG.csv"))
    assert again.outcomes.keys() == first.outcomes.keys()
    for op in ("mul", "sum"):
        assert again.at(op, "f32") == first.at(op, "f32")
    assert again.at("add", "f32") != first.at("add", "f32")


def test_samples_of_other_backends_do_not_join() -> None:
    assert main([*FEW, "--quiet"]) == 0
    path = Path("CONFIG.csv")
    head, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    other = json.loads(head[2:])
    other["owner"].append("cpu_own")
    path.write_text("".join(["# " + json.dumps(other) + "\n", *rest]), encoding="utf-8")
    ledger, added = with_earlier(Ledger(), path, other["owner"][:-1])
    assert (ledger.outcomes, added) == ({}, 0)
    assert with_earlier(Ledger(), path, other["owner"])[1] == 1
    assert with_earlier(Ledger(), Path("none.csv"), other["owner"])[1] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_a_run_that_is_killed_has_kept_its_samples() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE.replace("raise", "import softcuda.tools.init_keep as k\n"
         "k._EVERY_S, k._SHARE = 0.0, 1e9\nraise")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    while "measured 9 of" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    kept = read_samples(Path("CONFIG.soft.samples"))[0]
    assert sum(len(cells) for cells in kept.outcomes.values()) >= 5


def test_an_interrupted_run_over_a_profile_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FEW, "--quiet"]) == 0
    real, left = Meter.measure, [2]

    def measure(meter: Meter, *how: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return real(meter, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(Meter, "measure", measure)
    assert main([*FEW, "--force"]) == 130
    assert "1 measurements are kept for --force --resume in" in capsys.readouterr().err
    assert main([*FEW, "--resume"]) == 0
    assert "fits this machine; --force --resume goes on from the samples" in capsys.readouterr().out
    assert main([*FEW, "--force", "--resume"]) == 0
    assert sorted(os.listdir()) == ["CONFIG.csv", "CONFIG.soft"]


def test_a_resumed_sweep_counts_what_it_has_and_begins_with_what_it_lacks() -> None:
    machine = Disturbed(lambda now, times: True)
    scopes = scopes_of({"matmul": ("f32",)})
    told: list[Moment] = []
    ledger = sweep(scopes, machine, 0.15, told.append, clock=machine.clock)
    known = {size for size, _ in ledger.at("matmul", "f32")}
    assert 2 < len(known) < len(scopes[0].sizes) and 128 in known
    machine.now, again = 0.0, list[Moment]()
    sweep(scopes, machine, math.inf, again.append, clock=machine.clock, ledger=ledger)
    assert again[0].done == len(known) and not again[0].again
    assert again[0].cell.size not in known


def test_time_left_without_a_deadline_comes_from_the_estimate() -> None:
    machine = Disturbed(lambda now, times: False)
    scopes = scopes_of({"matmul": ("f32",)}, exhaustive=True)
    told: list[Moment] = []
    sweep(scopes, machine, math.inf, told.append, clock=machine.clock)
    whole = full_cost_s(scopes[0], machine.backend_ids)
    assert told[0].left_s == pytest.approx(whole, rel=0.01)
    lefts = [moment.left_s for moment in told if not moment.again]
    assert lefts[-1] < 0.5 * lefts[0]


def test_sizes_that_no_machine_holds_are_left_out_and_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--sizes", "8,1073741824,2147483648", "--ops", "add,matmul", "--dtypes", "f32"]
    scopes = scopes_of({"add": ("f32",), "matmul": ("f32",)}, None, (8, 1 << 30, 1 << 31))
    assert [(scope.sizes, scope.too_large) for scope in scopes] == [
        ((8,), (1 << 30, 1 << 31)),
        ((8, 1 << 30), (1 << 31,)),
    ]
    assert main([*options, "--budget", "1"]) == 0
    printed = capsys.readouterr().out
    assert "matmul[f32] is not measured at 1073741824, 2147483648" in printed
    assert "1 of 3 sizes were not reached in time" in printed
