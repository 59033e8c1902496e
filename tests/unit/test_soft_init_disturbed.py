"""Medians everywhere, and what something else disturbed: named, measured again, never obeyed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from unit.test_soft_init_doubts import Disturbed

from softcuda.profile.model import DeviceFacts
from softcuda.profile.writer import render
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.init_busy import Busy, busy_text
from softcuda.tools.init_profile import Origin, made_profile, profile_notes
from softcuda.tools.plausible import disturbances, plausible
from softcuda.tools.report_curves import figures
from softcuda.tools.samples import read_samples, samples_text
from softcuda.tools.spread import median_of, quantile_of
from softcuda.tools.sweep import sweep

SHIPPED = Path(__file__).parents[2] / "configs" / "nvidia-h200.csv"
SIZES = (64, 96, 112, 160, 192, 224, 288, 320, 512)
BUSY = {160: 458.0, 192: 6640.0, 224: 4610.0}  # beside another process


def measured(time_us: float, device: str = "cpu", host: float = 0.0) -> Outcome:
    times, taken = ((t * 0.99, t, t * 1.01) if t else () for t in (time_us, host))
    return Outcome(State.MEASURED, median_of(times), "", device, times, taken)


def beside_a_busy_process() -> Ledger:
    ledger = Ledger()
    for size in SIZES:
        blas_us = 2.0 + size**3 * 8e-6
        found = {"cpu_blas": measured(BUSY.get(size, blas_us)),
                 "cpu_fallback": measured(2.0 + size**3 * 6e-5)}  # fmt: skip
        ledger.note(Cell("matmul", "f32", size), found)
    return ledger


SCOPES = scopes_of({"matmul": ("f32",)}, sizes_asked=SIZES)
ORIGIN = Origin("x.soft", DeviceFacts(cpu="Abacus", cpu_cores="2"), "2026-03-18T09:00:00Z")


def test_every_time_of_the_shipped_samples_is_the_median_between_its_quartiles() -> None:
    ledger, _ = read_samples(SHIPPED)
    written = dict[tuple[str, str, int, str], float]()
    for line in SHIPPED.read_text(encoding="utf-8").splitlines()[2:]:
        op, dtype, size, backend, _, state, time_us, *_ = line.split(",")
        if state == "measured" and time_us:
            written[op, dtype, int(size), backend] = float(time_us)
    seen = 0
    for (op, dtype), cells in ledger.outcomes.items():
        for size, outcomes in cells.items():
            for name, outcome in outcomes.items():
                if outcome.state is not State.MEASURED:
                    continue
                low, high = (quantile_of(outcome.samples, share) for share in (0.25, 0.75))
                assert written[op, dtype, size, name] == outcome.microseconds
                assert low * 0.9999 <= outcome.microseconds <= high * 1.0001
                seen += 1
    assert seen == len(written) > 9000


def test_a_file_whose_column_holds_something_else_is_read_by_its_samples(tmp_path: Path) -> None:
    ledger = Ledger()
    times = (13.281, 28.0, 28.4, 28.9, 29.0)
    ledger.note(Cell("abs", "f32", 64), {"x": Outcome(State.MEASURED, 13.281, samples=times)})
    path = tmp_path / "x.csv"
    path.write_text(samples_text(ledger, ("me",)), encoding="utf-8")
    assert read_samples(path)[0].times("abs", "f32") == [(64, {"x": 28.4})]


def test_a_doubted_cell_keeps_the_smaller_median_and_the_smaller_times_of_the_host() -> None:
    machine = Disturbed(lambda now, times: times == 1)
    taken = iter(((40.0,) * 3, (30.0, 30.0, 1.0), (50.0,) * 3))
    real = machine.measure

    def measure(cell: Cell, names: list[str], allowance_s: float) -> dict[str, Outcome]:
        found = real(cell, names, allowance_s)
        if cell.size == 128:
            found["cpu_blas"] = found["cpu_blas"]._replace(host=next(taken))
        return found

    machine.measure = measure  # type: ignore[assignment, method-assign]
    scopes = scopes_of({"matmul": ("f32",)})
    ledger = sweep(scopes, machine, math.inf, lambda moment: None, clock=machine.clock)
    outcome = dict(ledger.at("matmul", "f32"))[128]["cpu_blas"]
    assert outcome.host == (30.0, 30.0, 1.0)


def test_what_takes_longer_than_twice_a_larger_size_is_named() -> None:
    found = disturbances(beside_a_busy_process())
    assert [(each.cell.size, each.backend_id, each.larger) for each in found] == [
        (160, "cpu_blas", 288),
        (192, "cpu_blas", 288),
        (224, "cpu_blas", 288),
    ]
    assert disturbances(plausible(beside_a_busy_process())) == []


def test_a_busy_process_hands_no_size_to_another_backend() -> None:
    made = made_profile(beside_a_busy_process(), SCOPES, ORIGIN)
    rows = {made.lookup("matmul", "f32", size) for size in range(64, 513, 16)}
    assert {row.backend_id for row in rows if row} == {"cpu_blas"}
    times = [made.cost_us("matmul", "f32", size, "cpu") or 0.0 for size in SIZES]
    assert max(times[k] / max(times[k:]) for k in range(len(times))) <= 1.0


def test_the_head_of_the_profile_says_what_was_disturbed_and_how_busy_the_machine_was() -> None:
    ledger = beside_a_busy_process()
    ledger.load.update({"others": 1.04, "processors": 2.0})
    text = render(made_profile(ledger, SCOPES, ORIGIN), profile_notes(ledger))
    assert "# Load: other processes kept 1.0 of 2 processors busy meanwhile." in text
    assert "# Disturbed: matmul[f32] 1" in text and "matmul[f32] 224 cpu_blas" in text
    quiet = Ledger({("matmul", "f32"): {64: {"cpu_blas": measured(4.0)}}})
    assert not [note for note in profile_notes(quiet) if note.startswith(("Load", "Disturbed"))]


def test_the_load_is_kept_with_the_samples(tmp_path: Path) -> None:
    ledger = beside_a_busy_process()
    ledger.load.update({"others": 1.04, "processors": 2.0})
    path = tmp_path / "x.csv"
    path.write_text(samples_text(ledger, ("me",)), encoding="utf-8")
    again, owner = read_samples(path)
    assert again.load == ledger.load and owner == ["me"]
    assert samples_text(again, owner) == path.read_text(encoding="utf-8")


def test_times_with_the_data_on_the_host_are_looked_at_too() -> None:
    ledger = Ledger()
    for size, host in ((64, 30.0), (128, 900.0), (256, 60.0)):
        ledger.note(Cell("add", "f32", size), {"cuda_naive": measured(8.0, "cuda", host)})
    host = [found["cuda_naive"].host_us for _, found in plausible(ledger).at("add", "f32")]
    assert host == [30.0, 60.0, 60.0]
    assert [found["cuda_naive"].host_us for _, found in ledger.at("add", "f32")][1] == 900.0


def test_a_gross_disturbance_is_measured_again_until_it_is_over() -> None:
    machine = Disturbed(lambda now, times: times <= 5, (512,))
    ledger = sweep(scopes_of({"matmul": ("f32",)}), machine, math.inf, lambda m: None,
                   clock=machine.clock)  # fmt: skip
    sizes = [size for size, _ in machine.asked]
    assert sizes.count(512) <= 7
    assert dict(ledger.times("matmul", "f32"))[128]["cpu_blas"] == pytest.approx(27.2, rel=0.01)


def test_others_are_counted_where_the_kernel_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("softcuda.tools.init_busy.time.monotonic", lambda: now[0])
    monkeypatch.setattr("softcuda.tools.init_busy.os.cpu_count", lambda: 2)
    monkeypatch.setattr("softcuda.tools.init_busy.os.sysconf", lambda name: 100)
    table = tmp_path / "stat"
    table.write_text("cpu  100000 0 0 7 0 0 0 0 0 0\n")
    busy = Busy(str(table))
    assert busy.load() == {}
    now[0] = 100.0
    table.write_text("cpu  110000 0 0 9 0 0 0 0 0 0\n")
    load = busy.load()
    assert load["processors"] == 2 and load["others"] == pytest.approx(1.0, abs=0.02)
    assert "kept 1.0 of 2 processors busy" in busy_text(load)
    table.write_text("cpu  100000 0 0 7 0 0 0 0 0 0\n")
    assert busy.load()["others"] == 0 and busy_text(busy.load()) == ""
    assert Busy(str(tmp_path / "none")).load() == {}


def test_a_point_of_a_figure_lies_between_its_quartiles() -> None:
    ledger = beside_a_busy_process()
    for figure in figures(ledger, made_profile(ledger, SCOPES, ORIGIN)):
        for curve in figure.curves:
            assert all(p.low_us <= p.median_us <= p.high_us for p in curve.points)
