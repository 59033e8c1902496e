"""The page of the finding and its model: a made-up machine that keeps to the model is recovered."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from softcuda.profile.machine import device_hash
from softcuda.profile.model import Crossing, DeviceFacts, Profile
from softcuda.profile.writer import write
from softcuda.tools.cells import Cell, Ledger, Outcome, Scope, State, scopes_of
from softcuda.tools.init_profile import Origin, made_profile
from softcuda.tools.report_agreement import Pair, beside_model
from softcuda.tools.report_curves import Figure, figures, important
from softcuda.tools.report_markdown import finding
from softcuda.tools.report_model import Constants, constants_of, fit_of, work_of
from softcuda.tools.report_sheet import sheet
from softcuda.tools.samples import measured_path, samples_text
from softcuda.tools.soft_init import main

GPU = DeviceFacts("cuda", "Example <GPU>", "9.0", "1024", "13.0", "132", "227", "60", "Abacus", "4")
CPU = DeviceFacts(type="cpu", cpu="Abacus", cpu_cores="4")
RIGHT = {"cpu": Constants(4.0, 1e-4, 1e-5), "cuda": Constants(7.0, 1e-6, 2e-7)}
LATENCY_US, GB_PER_S = 10.0, 8.0  # of copies
OPS = ("matmul", "add", "relu", "sum", "where", "take", "scatter_add")
SCOPES = scopes_of(dict.fromkeys(OPS, ("f32",)), device="cuda")
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def ledger(
    devices: tuple[str, ...] = ("cpu", "cuda"), scopes: tuple[Scope, ...] = SCOPES
) -> Ledger:
    """Return samples of a machine whose times are those of the model."""
    made = Ledger()
    for scope in scopes:
        for size in scope.sizes:
            work = work_of(scope.op, scope.dtype, size)
            copies = (work.operands + 1) * LATENCY_US
            copies += (work.read_bytes + work.written_bytes) * 1e-3 / GB_PER_S
            found = {}
            for device in devices:
                time_us = RIGHT[device].time_us(work)
                times = tuple(share * time_us for share in SPREAD)
                host = tuple(share * (time_us + copies) for share in SPREAD)
                name = "cpu_fused" if device == "cpu" else "cuda_elementwise"
                beside = host if device == "cuda" else ()
                found[name] = Outcome(State.MEASURED, time_us, "", device, times, beside)
            if scope.op == "take" and "cuda" in devices:
                found["cuda_naive"] = Outcome(State.WRONG, reason="all wrong", device="cuda")
            made.note(Cell(scope.op, scope.dtype, size), found)
    if "cuda" in devices:
        for direction in ("h2d", "d2h"):
            for memory in ("pageable", "pinned"):
                made.copies[direction, memory] = {
                    n: (LATENCY_US + n * 1e-3 / GB_PER_S,) for n in (1 << 10, 1 << 20, 1 << 28)
                }
    return made


def profile(path: str = "here.soft") -> Profile:
    return made_profile(ledger(), SCOPES, Origin(path, GPU, "2026-03-18T09:00:00Z"))


def drawn() -> list[Figure]:
    return figures(ledger(), profile())


def test_work_counts_what_an_op_moves() -> None:
    assert work_of("add", "f32", 1000) == (2, 8000, 4000, 0)
    assert work_of("matmul", "f64", 100) == (2, 160_000, 80_000, 2e6)
    assert work_of("sum", "f64", 1 << 20).read_bytes == 8 << 20


def test_the_constants_of_a_machine_are_found() -> None:
    for device, found in constants_of(ledger(), "f32").items():
        assert found == pytest.approx(RIGHT[device], rel=0.01)
    assert constants_of(ledger(), "f64") == {}


def test_a_line_through_the_times_of_an_op() -> None:
    fit = fit_of(ledger(), "add", "f32", "cpu")
    assert fit is not None
    assert fit == pytest.approx((4.0, 10.0), rel=0.01)
    assert fit_of(ledger(), "add", "f64", "cpu") is None


def test_a_machine_that_keeps_to_the_model_crosses_where_it_says() -> None:
    rows = beside_model(profile(), ledger(), {"f32": constants_of(ledger(), "f32")}, drawn())
    assert {row.op for row in rows} == set(OPS)
    assert all(row.resident.measured and row.resident.measured.found for row in rows)
    for row in rows:
        for pair in (row.host, row.resident):
            assert pair.measured is not None and pair.model is not None
            assert pair.measured.found == pair.model.found, row
            assert abs(math.log2(pair.ratio or 1.0)) < 0.1, row
        for own in (row.own_host, row.own_resident):  # a product's line leaves its bytes out
            assert own.measured is not None and own.model is not None
            assert own.measured.found == own.model.found, row
            assert abs(own.measured.size - own.model.size) <= (own.measured.uncertainty or 0), row


def test_a_crossing_on_one_side_has_no_ratio() -> None:
    none, some = Crossing(1 << 24, None, False), Crossing(64, 8)
    assert Pair(some, none).ratio is None and Pair(None, some).ratio is None
    assert Pair(Crossing(128, 3), some).texts() == ("128 ± 3", "64 (2)")
    assert Pair(None, none).texts() == ("", "none below 16777216")


def test_the_page_tells_the_finding() -> None:
    made = profile()
    text = finding(made, ledger(), drawn(), "example")
    assert text == finding(made, ledger(), drawn(), "example")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# Where the GPU begins to pay: Example &lt;GPU&gt;",
        *("## Method", "## Machine", "## Curves", "## Crossings", "### f32"),
        *("## What explains them", "## Agreement with the model", "## Threats to validity"),
        "## Again, on another machine",
    ]
    (add,) = (line for line in made.thresholds if line.op == "add")
    assert add.resident is not None and f"| {add.resident.size} ± " in text
    assert "(example.svg)" in text and "(example.html)" in text
    assert "| h2d, pageable | 10 | 8 |" in text
    assert f"has {GPU.cpu_cores} logical processors" in text
    assert "f32, data resident: the GPU is ahead for good in 6 of 6" in text
    (product,) = (line for line in made.thresholds if line.op == "matmul")
    assert product.host is not None and product.resident is not None
    answered = " ".join(text.split("\n\n")[2].split())
    assert answered.startswith(
        f"**With its data on the host, a square product of f32 pays on the GPU from an extent of "
        f"{product.host.size} on and "
    )
    assert f"from an extent of {product.resident.size} on and 6 of 6 other" in answered
    assert "medians count" in text and "A crossing at the smallest size, 1" in text
    assert "Disqualified, since a result was not right: `cuda_naive` take[f32]." in text
    tables = [line.count("|") for line in text.splitlines() if line.startswith("| ")]
    assert tables and min(tables) >= 3
    agreed = [line for line in text.splitlines() if line.startswith("| f32, data resident")]
    assert agreed[0] == "| f32, data resident | the device's | 7 | 0 | 1 | 100% | 100% |"
    assert agreed[1].startswith("| f32, data resident | the operation's own | 7 | 0 | ")
    assert agreed[1].endswith(" | 100% | 100% |") and len(agreed) == 2


def test_the_page_says_where_sizes_ended_and_what_is_rough_or_modelled() -> None:
    measured = ledger()
    for op in ("add", "relu"):
        for size in [size for size in measured.outcomes[op, "f32"] if size > 1 << 20]:
            del measured.outcomes[op, "f32"][size]
    product = measured.outcomes["matmul", "f32"]
    last = max(product)
    for size in [size for size in product if 16 < size < last]:
        del product[size]
    slow = Outcome(State.SKIPPED, reason="a call would take about 0.3 s")
    product[last] = {**product[last], "cpu_fused": slow}
    made = made_profile(measured, SCOPES, Origin("x", GPU, "2026-03-18T09:00:00Z"))
    text = " ".join(finding(made, measured, figures(measured, made), "x").split())
    assert (
        "of 6 curves of operations other than products 2 end below 16777216 (2 at 1048576)" in text
    )
    assert "crossings with the data on the host are orders of magnitude (~)" in text
    assert "lie where the CPU was not tried (*modelled*)" in text
    assert re.search(r"\| matmul \| ~\d+ ± \d+, modelled \|", text)
    whole = finding(profile(), ledger(), drawn(), "x")
    assert "end below" not in whole and ", modelled" not in whole


def test_dtypes_of_most_programs_come_first_and_empty_columns_say_why() -> None:
    scopes = scopes_of({"sum": ("bf16", "f32"), "add": ("f32", "f64")}, device="cuda")
    measured = ledger(scopes=scopes)
    made = made_profile(measured, scopes, Origin("x", GPU, "2026-03-18T09:00:00Z"))
    text = finding(made, measured, figures(measured, made), "x")
    assert re.findall(r"^### (\w+)", text, re.MULTILINE) == ["f32", "f64", "bf16"]
    after = text.split("### bf16")[1].split("## What")[0]
    assert (
        "it predicts nothing here" in after and "| op | data on the host | data resident |" in after
    )
    assert "it predicts nothing" not in text.split("### bf16")[0]


def test_a_machine_without_a_gpu_has_no_crossing() -> None:
    alone = scopes_of(dict.fromkeys(OPS, ("f32",)))
    measured = ledger(("cpu",), alone)
    made = made_profile(measured, alone, Origin("x", CPU, "2026-03-18T09:00:00Z"))
    text = finding(made, measured, figures(measured, made), "x")
    assert "there is no crossing" in text and "| h2d" not in text
    assert "| cpu, f32 | 4 | 10 | 100 |" in text


def test_the_picture_is_one_whole_file() -> None:
    found = drawn()
    text = sheet("softcuda on <this>", found)
    root = ET.fromstring(text)
    assert root.attrib["aria-label"] == "softcuda on <this>"
    panels = root.findall("{http://www.w3.org/2000/svg}svg")
    assert len(panels) == len(important(found)) == 6
    wide, high = (float(root.attrib[key]) for key in ("width", "height"))
    for panel in panels:
        assert float(panel.attrib["x"]) + float(panel.attrib["width"]) <= wide
        assert float(panel.attrib["y"]) + float(panel.attrib["height"]) <= high
    assert text.count("http") == 1 and "prefers-color-scheme: dark" in text


def test_one_command_writes_page_picture_and_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(profile("gpu.soft"), "gpu.soft")
    owner = (device_hash(GPU), "cpu_fused", "cuda_elementwise")
    measured_path("gpu.soft").write_text(samples_text(ledger(), owner), encoding="utf-8")
    Path("docs").mkdir()
    assert main(["report", "gpu.soft", "--output", "docs", "--markdown", "threshold"]) == 0
    written = {path.name for path in Path("docs").iterdir()} - {"gpu.png"}
    assert written == {"gpu.html", "gpu.svg", "threshold.md"}
    assert "threshold.md: the finding" in capsys.readouterr().out
    assert "(gpu.svg)" in Path("docs/threshold.md").read_text(encoding="utf-8")
