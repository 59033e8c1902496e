"""From samples to thresholds, costs, files and reports: made-up samples, no clock, no device."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from softcuda.errors import ConfigError
from softcuda.profile.machine import device_hash
from softcuda.profile.model import Crossing, DeviceFacts, Profile
from softcuda.profile.resolve import read
from softcuda.profile.writer import render, write
from softcuda.tools.cells import Ledger, Outcome, Scope, State, scopes_of
from softcuda.tools.costs import cost_points, fitted, transfers
from softcuda.tools.init_profile import Origin, made_profile, profile_notes
from softcuda.tools.init_questions import difference_lines, explanation_lines
from softcuda.tools.report_curves import HOST_NAME, figures
from softcuda.tools.report_html import page
from softcuda.tools.samples import measured_path, read_samples, samples_text
from softcuda.tools.soft_init import main
from softcuda.tools.spread import kept_times, quantile_of
from softcuda.tools.thresholds import thresholds

FACTS = DeviceFacts(
    "cuda", "Example <GPU>", "9.0", "1024", "13.0", "132", "227", "60", "Abacus", "4"
)
OWNER = (device_hash(FACTS), "cpu_fused", "cuda_elementwise")
SCOPES = scopes_of({"add": ("f32",), "matmul": ("f32",)}, device="cuda")


def samples(rng: np.random.Generator, time_us: float, noise: float) -> tuple[float, ...]:
    return tuple(float(f"{t:.5g}") for t in time_us * rng.lognormal(0.0, noise, 9))


def ledger(noise: float = 0.02, scopes: tuple[Scope, ...] = SCOPES) -> Ledger:
    """Return samples of a CPU of 4 us + size / 1000 us, and of a GPU of 8 us, with copies 40."""
    rng = np.random.default_rng(5)
    made = Ledger()
    for scope in scopes:
        cells = made.outcomes.setdefault((scope.op, scope.dtype), {})
        for size in scope.sizes:
            work = size**scope.growth
            cpu = samples(rng, 4 + work * 1e-3, noise)
            cuda, host = samples(rng, 8 + work * 1e-6, noise), samples(rng, 40 + work * 1e-4, noise)
            cells[size] = {
                "cpu_fused": Outcome(State.MEASURED, quantile_of(cpu, 0.5), samples=cpu),
                "cuda_elementwise": Outcome(
                    State.MEASURED, quantile_of(cuda, 0.5), "", "cuda", cuda, host
                ),
                "cuda_naive": Outcome(State.WRONG, reason="3 of 8, all wrong", device="cuda"),
            }
    for direction, latency in (("h2d", 8.0), ("d2h", 12.0)):
        for memory in ("pageable", "pinned"):
            made.copies[direction, memory] = {
                n: samples(rng, latency + n / 2e4, noise) for n in (1024, 1 << 16, 1 << 24)
            }
    return made


def profile(noise: float = 0.02, path: str = "here.soft") -> Profile:
    return made_profile(ledger(noise), SCOPES, Origin(path, FACTS, "2026-03-18T09:00:00Z"))


def test_outliers_count_for_nothing() -> None:
    times = (1.0, 1.1, 0.9, 2.3, 50.0)
    assert kept_times(times) == [0.9, 1.0, 1.1]
    assert quantile_of(times, 0.5) == 1.0
    assert kept_times(()) == []


def test_crossings_are_found_with_their_uncertainty() -> None:
    (product, add) = thresholds(ledger(), SCOPES)
    # 4 + size / 1000 passes 8 at 4000, and 40 + size / 10000 at 40000; a product's size cubed.
    for found, right in (
        (add.resident, 4000),
        (add.host, 40000),
        (product.resident, 4000 ** (1 / 3)),
        (product.host, 40000 ** (1 / 3)),
    ):
        assert found is not None and found.found and found.uncertainty is not None
        assert abs(found.size - right) <= found.uncertainty + 0.15 * right
        assert found.uncertainty <= right / 2


def test_more_noise_makes_crossings_less_certain() -> None:
    calm, noisy = (thresholds(ledger(noise), SCOPES)[1].resident for noise in (0.005, 0.1))
    assert calm is not None and noisy is not None
    assert (calm.uncertainty or 0) < (noisy.uncertainty or 0)


def test_a_gpu_that_never_leads_has_no_crossing() -> None:
    made = ledger()
    for outcomes in made.outcomes["add", "f32"].values():
        slow = outcomes["cuda_elementwise"]
        outcomes["cuda_elementwise"] = slow._replace(host=tuple(1e6 * t for t in slow.host))
    (_, add) = thresholds(made, SCOPES)
    assert add.host == Crossing(1 << 24, None, False)


def test_few_costs_say_what_all_medians_said() -> None:
    made = profile()
    points = [p for p in made.costs if p.op == "add"]
    assert 3 <= len(points) <= 12
    for size, outcomes in ledger().at("add", "f32"):
        for device, name in (("cpu", "cpu_fused"), ("cuda", "cuda_elementwise")):
            found = made.cost_us("add", "f32", size, device)
            assert found == pytest.approx(outcomes[name].microseconds, rel=0.2)
    assert cost_points(Ledger(), SCOPES) == []


def test_copies_are_a_latency_and_a_rate() -> None:
    lines = {line.direction: line for line in transfers(ledger(0.0))}
    assert lines["h2d"].latency_us == pytest.approx(8.0, rel=0.05)
    assert lines["d2h"].latency_us == pytest.approx(12.0, rel=0.05)
    assert lines["h2d"].gb_per_s == pytest.approx(20.0, rel=0.05)
    latency, rate = fitted({1024: (5.0,), 2048: (4.0,)})
    assert latency > 0 and rate > 0


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    text = samples_text(ledger(), OWNER)
    path = tmp_path / "here.csv"
    path.write_text(text, encoding="utf-8")
    again, owner = read_samples(path)
    assert (again.outcomes, again.copies) == (ledger().outcomes, ledger().copies)
    made = ledger(scopes=scopes_of({"copy": ("f32",)}, device="cuda"))  # an op, and a transfer
    path.write_text(samples_text(made, OWNER), encoding="utf-8")
    assert read_samples(path)[0] == made
    assert samples_text(again, owner) == text
    origin = Origin("here.soft", FACTS, "2026-03-18T09:00:00Z")
    first, second = (made_profile(led, SCOPES, origin) for led in (ledger(), again))
    assert render(first, profile_notes(ledger())) == render(second, profile_notes(again))


def test_damaged_samples_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "here.csv"
    path.write_text(
        samples_text(ledger(), OWNER).replace("cpu,measured", "cpu,guessed", 1), "utf-8"
    )
    with pytest.raises(
        ConfigError, match=r"here\.csv: the samples cannot be read, line 15: .*guessed"
    ):
        read_samples(path)


def test_rows_of_a_gpu_last_beyond_the_largest_size() -> None:
    few = scopes_of({"add": ("f32",)}, 1 << 16, device="cuda")
    made = made_profile(ledger(0.02, few), few, Origin("x", FACTS, "2026-03-18T09:00:00Z"))
    row = made.lookup("add", "f32", 1 << 40)
    assert row is not None and row.backend_id == "cuda_elementwise"


def test_differences_are_named_and_counted() -> None:
    one, same = profile(), profile()
    assert difference_lines(one, same) == [
        "38 of 38 (100.0%) sizes agree",
        "34 of 34 (100.0%) sizes away from the crossings agree",
    ]
    rows = tuple(
        row._replace(backend_id="cuda_naive") if row.high is None and row.op == "add" else row
        for row in one.rows
    )
    lines = difference_lines(one, Profile("b.soft", one.meta, FACTS._replace(vram_mb="2"), rows))
    assert lines[0] == "device: vram_mb is '1024' in here.soft and '2' in b.soft"
    assert "add[f32], sizes 8192 to 16777216: cuda_elementwise -> cuda_naive" in lines


def test_an_explanation_names_the_row_and_the_samples() -> None:
    text = "\n".join(explanation_lines(profile(), ledger(), "add", 9000))
    for part in (
        "add[f32] of size 9000 runs on cuda_elementwise",
        "decided by here.soft:",
        "the GPU is faster from: ",
        "at size 8192 [us]:",
        "cuda_naive: wrong: 3 of 8, all wrong",
        "with the data on the host",
    ):
        assert part in text
    assert "there is no file of samples" in explanation_lines(profile(), None, "matmul", 8)[-1]


class Balance(HTMLParser):
    """Collects the text of a page, and whether its elements are closed in order."""

    VOID = ("meta", "path", "circle", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(v) for k, v in attrs if k in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(v) for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    made = profile()
    found = figures(ledger(), made)
    assert [figure.title for figure in found] == ["matmul[f32]", "add[f32]"]
    assert [curve.name for curve in found[0].curves] == [
        "cpu_fused",
        "cuda_elementwise",
        HOST_NAME,
    ]
    text = page(made, found)
    assert text == page(made, found)
    parser = Balance()
    parser.feed(text)
    assert not parser.open
    assert all(link.startswith("#") for link in parser.links)
    assert "http" not in text and "<script" not in text
    assert "Example &lt;GPU&gt;" in text and "prefers-color-scheme: dark" in text
    assert text.count('<svg viewBox="0 0 640') == len(found)
    medians = ledger().at("add", "f32")[0][1]["cpu_fused"].microseconds
    assert f"<td>{medians:.4g}</td>" in text
    inside = re.findall(r'c[xy]="([\d.-]+)"', text)
    assert inside and all(0 <= float(value) <= 640 for value in inside)


def test_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    write(profile(path="here.soft"), "here.soft")
    measured_path("here.soft").write_text(samples_text(ledger(), OWNER), encoding="utf-8")
    assert main(["report", "here.soft", "--ops", "add"]) == 0
    printed = capsys.readouterr().out
    assert "sizes from which the GPU is faster" in printed
    assert "wrote here.html: 1 figures" in printed and "matplotlib is missing" in printed
    assert "add[f32]" in Path("here.html").read_text(encoding="utf-8")
    assert main(["--output", "here.soft", "--explain", "add", "64"]) == 0
    assert "add[f32] of size 64 runs on cpu_fused" in capsys.readouterr().out
    assert main(["--diff", "here.soft", "here.soft"]) == 0
    assert "(100.0%)" in capsys.readouterr().out


def test_samples_of_another_machine_are_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(profile(), "here.soft")
    assert read("here.soft").thresholds
    assert main(["report", "here.soft"]) == 1
    assert "here.csv: the samples cannot be read" in capsys.readouterr().err
    measured_path("here.soft").write_text(samples_text(ledger(), ("0" * 64,)), encoding="utf-8")
    assert main(["report", "here.soft"]) == 1
    assert "the samples are of the machine 000" in capsys.readouterr().err


def test_check_tells_rows_that_no_longer_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--ops", "add", "--dtypes", "f32", "--max-size", "64", "--device", "cpu", "--quiet"]
    assert main(few) == 0
    text = Path("CONFIG.soft").read_text(encoding="utf-8")
    row = next(
        line for line in text.splitlines() if line.startswith("add[f32]") and "us at" in line
    )
    broken = re.sub(r"= cpu_\w+", "= cpu_blas", row)
    Path("CONFIG.soft").write_text(text.replace(row, broken), encoding="utf-8")
    assert main(["--check"]) == 1
    printed = capsys.readouterr().out
    assert "no longer holds: CONFIG.soft:" in printed and "cpu_blas is out: " in printed
    assert re.search(r"\d of \d rows hold", printed)
