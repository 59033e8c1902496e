"""The benchmarks hold together: cases, comparison, tables. Nothing is timed here."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import compare, tolerance
from benchmarks.machine import Machine, Rates, floor_of
from benchmarks.report import (
    replace_between_markers,
    suite_json,
    suite_tables,
    time_text,
    write_text,
)
from benchmarks.results import Check, Floor, Ratio, Row, Timing, at_least, at_most
from benchmarks.run import SUITES, main, suite_cases
from benchmarks.timing import OURS, Contestant, Samples, Schedule, ratios, take_turns, timings

RATES = Rates(1e10, {"f32": 1e11, "f64": 5e10})
MACHINE = Machine("Abacus", "abacus-4-cores", 4, 2, {"numpy": "2"}, "2026-03-18", "Linux")
BRIEF = Schedule(budget_s=0.0, sample_s=0.0, rounds=(2, 2))


@pytest.mark.parametrize("suite", SUITES)
def test_cases_have_names_of_their_own(suite: str) -> None:
    cases = suite_cases(suite)
    names = [(case.group, case.name) for case in cases]
    assert names
    assert len(set(names)) == len(names)
    assert all(callable(case.measure) for case in cases)


def test_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cpu", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(suite_cases("cpu"))


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gpu-of-tomorrow"])
    assert "cpu" in capsys.readouterr().err


def test_compare_counts_nan_mismatches_and_measures_the_rest() -> None:
    reference = np.array([3.0, 4.0, np.nan, np.inf])
    out = np.array([3.0, 4.0, np.nan, np.inf], np.float32)
    assert compare(out, reference) == (0.0, 0)
    out[0] = np.nan
    assert compare(out, reference).nan_mismatches == 1
    assert compare(np.array([3.0, 4.5]), np.array([3.0, 4.0])).error == pytest.approx(0.1)
    assert not compare(np.array([np.inf, 4.0]), np.array([3.0, 4.0])).within(1.0)
    assert compare(np.zeros(3), np.zeros(4)).error == math.inf
    assert compare(np.zeros((0,)), np.zeros((0,))) == (0.0, 0)


def test_tolerance_grows_with_the_sum() -> None:
    assert tolerance("f64") < tolerance("f32") < tolerance("f32", summed=100)


def test_a_wrong_result_has_no_time() -> None:
    right = Contestant("right", "f()", {"f": int}, result=lambda: np.ones(3))
    wrong = Contestant("wrong", "f()", {"f": int}, result=lambda: np.zeros(3))
    absent = Contestant("absent", absent=True)
    made, taken = timings((wrong, right, absent), BRIEF, np.ones(3), 1e-6)
    assert [t.status for t in made] == ["wrong", "ok", "absent"]
    assert [t.us is None for t in made] == [True, False, True]
    assert list(taken) == ["right"]


def test_a_stale_result_is_wrong() -> None:
    out = np.ones(3)
    stale = Contestant("stale", "f()", {"f": int}, lambda: out, lambda: out.fill(np.nan))
    made, _ = timings((stale,), BRIEF, np.ones(3), 1e-6)
    assert made[0].status == "wrong"
    assert made[0].nan_mismatches == 3


def test_contestants_take_turns() -> None:
    order: list[str] = []
    contestants = [Contestant(n, "log(n)", {"log": order.append, "n": n}) for n in "abc"]
    taken = take_turns(contestants, Schedule(budget_s=0.0, sample_s=0.0, rounds=(3, 3)))
    assert all(len(samples.seconds) == 3 for samples in taken.values())
    assert "".join(order[-9:]) == "abcbcacab"


def test_ratios_are_paired_by_round() -> None:
    taken = {OURS: Samples(1, [1.0, 2.0, 4.0]), "peer": Samples(1, [2.0, 4.0, 8.0])}
    assert ratios(taken) == {"peer": Ratio(2.0, 2.0, 2.0)}
    assert ratios({"peer": Samples(1, [1.0])}) == {}


def test_the_floor_is_the_larger_bound() -> None:
    assert floor_of(RATES, 10_000) == Floor(1.0, "bytes", 10_000, 0)
    assert floor_of(RATES, 10_000, 10**6, "f64") == Floor(20.0, "flops", 10_000, 10**6)


def test_checks_say_whether_they_are_met() -> None:
    assert at_least("x", 2.0, 2.0).met is True
    assert at_most("x", 0.31, 0.3) == Check("x", "at most 0.3", 0.31, False)
    assert at_most("x", None, 0.3).met is None


def sample_rows() -> list[Row]:
    timed = Row("G", "timed", floor=Floor(5.0, "bytes", 1, 0), fraction_of_floor=0.5)
    timed.timings = [
        Timing(OURS, 10.0, 9.0, 11.0, 5, 1, 1e-7),
        Timing("NumPy", 20.0, 20.0, 20.0, 5, 1, 1e-7),
        Timing("PyTorch", status="absent"),
        Timing("other", error=math.inf, nan_mismatches=2, status="wrong"),
    ]
    timed.ratios = {"NumPy": Ratio(2.0, 1.9, 2.1)}
    timed.checks = [at_least("a", 2.0, 2.0), at_least("b", 1.0, 2.0), at_least("c", None, 2.0)]
    return [timed, Row("H", "facts", facts={"peak [MiB]": 32.0})]


def test_tables_show_losses_absence_and_errors() -> None:
    section = suite_tables("cpu", MACHINE, RATES, sample_rows())
    assert "| a | at least 2 | 2 | yes |" in section
    assert "| b | at least 2 | 1 | **no** |" in section
    assert "| c | at least 2 | - | not measured |" in section
    assert "10 us ±10% | 20 us ±0% (2.00x, 1.90 to 2.10) | absent | wrong (error inf" in section
    assert "| facts | 32 |" in section


def test_tables_say_that_the_machine_was_busy() -> None:
    quiet = suite_tables("cpu", replace(MACHINE, busy=0.1), RATES, sample_rows())
    busy = suite_tables("cpu", replace(MACHINE, busy=1.5), RATES, sample_rows())
    assert "not quiet" not in quiet
    assert "**The machine was not quiet**: other programs kept 1.5 cores" in busy


def test_json_is_json() -> None:
    found = json.loads(suite_json("cpu", MACHINE, RATES, sample_rows()))
    assert found["machine"]["slug"] == "abacus-4-cores"
    assert found["rows"][0]["timings"][3]["error"] is None


def test_a_section_is_replaced_between_its_markers() -> None:
    once = replace_between_markers("# B\n", "cpu", "old")
    twice = replace_between_markers(once, "cpu", "new")
    assert "old" not in twice
    assert twice == replace_between_markers(twice, "cpu", "new")
    assert twice.startswith("# B\n")


def test_the_readme_has_the_markers_of_every_suite() -> None:
    text = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for suite in SUITES:
        assert text.count(f"<!-- suite {suite} begins -->") == 1
        assert text.count(f"<!-- suite {suite} ends -->") == 1


def test_files_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cpu.json"
    write_text(path, "one")
    write_text(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert [p.name for p in path.parent.iterdir()] == ["cpu.json"]


def test_times_have_units() -> None:
    assert [time_text(us) for us in (0.0125, 0.9996, 250.0, 2.5e6)] == [
        "12.5 ns",
        "1 us",
        "250 us",
        "2.5 s",
    ]
