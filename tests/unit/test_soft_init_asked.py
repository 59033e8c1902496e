"""What is asked of a profile that is there: by name, of some ops, around a size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from softcuda.profile.files import shipped_file
from softcuda.profile.model import Profile, Row
from softcuda.profile.resolve import default_profile, read, resolve
from softcuda.tools.cells import Cell, Ledger, Outcome, State
from softcuda.tools.init_check import Asked, checked_rows
from softcuda.tools.init_questions import difference_lines, explanation_lines
from softcuda.tools.samples import measured_path, read_samples
from softcuda.tools.soft_init import main


class Bench:
    """A bench on which every backend is as fast as its name is short."""

    backend_ids: tuple[str, ...] = ("cpu_blas", "cpu_fused", "cpu_fallback")

    def __init__(self) -> None:
        self.asked: list[Cell] = []

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Have nothing to do ahead."""

    def measure(
        self, cell: Cell, backend_ids: Iterable[str], allowance_s: float
    ) -> dict[str, Outcome]:
        self.asked.append(cell)
        return {name: Outcome(State.MEASURED, float(len(name))) for name in backend_ids}


def profile_of(*rows: Row) -> Profile:
    return Profile("x.soft", {"soft_version": "0.1.0"}, default_profile().device, rows)


OPS = ("add", "sub", "mul", "div", "exp", "log", "sum", "max", "tanh", "relu", "sqrt", "where")
MEASURED = tuple(
    Row(op, dtype, low, high, "cpu_blas", comment="us at 64: cpu_blas 8, cpu_fused 9")
    for op in OPS
    for dtype in ("f32", "f64")
    for low, high in ((0, 512), (512, None))
)
EDITED = Row("softmax", "f32", 0, None, "cpu_fallback", 7, "us at 1: cpu_fused 2, cpu_fallback 9")
BY_HAND = Row("gelu", None, 0, None, "cpu_fallback", 8, "mine")
NOT = Row("cumsum", None, 0, None, "cpu_fallback", 9, "not measured")


def checked(asked: Asked = Asked()) -> tuple[list[Cell], list[str]]:  # noqa: B008
    bench = Bench()
    profile = profile_of(*MEASURED, EDITED, BY_HAND, NOT)
    found = checked_rows(profile, bench, lambda cell: None, asked)
    return bench.asked, [check.text for check in found if not check.holds]


def test_rows_that_were_edited_are_among_those_that_are_checked() -> None:
    cells, broken = checked()
    assert len(cells) == 24
    assert {cell.op for cell in cells} >= {"softmax", "gelu"} and "cumsum" not in {
        cell.op for cell in cells
    }
    assert sorted(text.split(":")[1] for text in broken) == ["7", "8"]


def test_a_check_looks_at_all_rows_of_what_is_named() -> None:
    cells, broken = checked(Asked(ops=("softmax",)))
    assert [cell.op for cell in cells] == ["softmax"] and len(broken) == 1
    cells, _ = checked(Asked(dtypes=("f64",)))
    assert len(cells) == 2 * len(OPS) and {cell.dtype for cell in cells} == {"f64"}
    cells, _ = checked(Asked(ops=("add",), sizes=(64, 100, 4096)))
    assert sorted({cell.size for cell in cells}) == [64, 100, 4096] and len(cells) == 6


def test_a_check_of_what_the_profile_has_no_rows_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--ops", "add", "--dtypes", "f32", "--max-size", "8", "--device", "cpu", "--quiet"]
    assert main([*few, "--output", "here.soft"]) == 0
    assert main(["--check", "here.soft", "--ops", "add"]) == 0
    printed = capsys.readouterr().out
    assert "measuring add[f32]" in printed and printed.rstrip().endswith("rows hold")
    assert main(["--check", "--ops", "mul", "here.soft"]) == 1
    assert "here.soft has no measured row of what --ops" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["here.soft"], "--output names the file to write"),
        (["--diff", "a", "b", "--explain", "add", "8"], "--diff and --explain are given"),
        (["--check", "--diff", "a", "b"], "--check and --diff are given"),
        (["--check", "a.soft", "--output", "b.soft"], "allowed is one of them"),
        (["--output", "nvidia-h200"], "the name of a profile that is shipped"),
    ],
)
def test_questions_that_do_not_go_together(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options) == 2
    assert said in capsys.readouterr().err


def test_names_of_shipped_profiles_are_known_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read("nvidia-h200") == resolve("nvidia-h200") and read("default") == default_profile()
    assert shipped_file("nvidia-h200") and not shipped_file("nvidia-h200.soft")
    assert measured_path(read("nvidia-h200").path).is_file()
    assert main(["--diff", "nvidia-h200", "default", "--ops", "add"]) == 0
    printed = capsys.readouterr().out
    assert "nothing was measured for both" in printed and "mul[" not in printed
    assert "add[f32], sizes " in printed and " of 50 (" in printed
    assert main(["--explain", "one_hot", "1000", "nvidia-h200"]) == 0
    printed = capsys.readouterr().out
    assert "one_hot[i64] of size 1000 runs on" in printed and "\nat size " in printed
    assert main(["report", "nvidia-h200", "--ops", "add"]) == 0
    assert Path("nvidia-h200.html").is_file()


def test_profiles_without_a_measured_row_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--diff", "default", "default", "--ops", "tanh"]) == 1
    assert "there is nothing to compare" in capsys.readouterr().err
    assert difference_lines(profile_of(*MEASURED), profile_of(*MEASURED), ("exp",))[0].startswith(
        "50 of 50"
    )


def test_an_explanation_brackets_the_size_and_sets_outliers_apart() -> None:
    path = measured_path(read("nvidia-h200").path)
    ledger, _ = read_samples(path)
    lines = explanation_lines(read("nvidia-h200"), ledger, "matmul", 700, str(path))
    shown = [int(line.split()[2]) for line in lines if line.startswith("at size")]
    sizes = [size for size, _ in ledger.at("matmul", "f32")]
    below, above = max(n for n in sizes if n < 700), min(n for n in sizes if n > 700)
    assert below in shown and above in shown and shown == sorted(shown)
    own = Ledger()
    times = (30.0, 28.4, 28.0, 28.9, 436.1)
    own.note(Cell("add", "f32", 64), {"x": Outcome(State.MEASURED, 28.9, samples=times)})
    profile = profile_of(Row("add", None, 0, None, "cpu_blas", 3))
    assert explanation_lines(profile, own, "add", 64)[-1] == (
        "  x: median 28.9 of 28, 28.4, 28.9, 30; outliers 436.1"
    )
    assert explanation_lines(profile, None, "add", 64, "x.csv")[-1] == (
        "there is no file of samples: x.csv"
    )
    assert explanation_lines(profile, own, "add[f64]", 64, "x.csv")[-1] == (
        "there are no samples of add[f64] in x.csv"
    )
