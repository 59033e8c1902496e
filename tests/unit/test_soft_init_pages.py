"""The drawings of a report: one colour a backend, bands told apart, a page of a CPU alone."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from unit.test_soft_init_finding import CPU, GPU, OPS, ledger, profile, scopes_of

from softcuda.profile.machine import device_hash
from softcuda.profile.model import Crossing
from softcuda.profile.writer import write
from softcuda.tools.init_profile import Origin, made_profile
from softcuda.tools.report_colours import band_colours, curve_classes, light_colours
from softcuda.tools.report_curves import Curve, Figure, PlotPoint, figures
from softcuda.tools.report_html import page
from softcuda.tools.report_png import picture
from softcuda.tools.report_svg import svg_of
from softcuda.tools.samples import measured_path, samples_text
from softcuda.tools.soft_init import main

CPU_SCOPES = scopes_of(dict.fromkeys(OPS, ("f32",)))


def curve(name: str) -> Curve:
    device = "cuda" if name.startswith("cuda") else "cpu"
    points = tuple(PlotPoint(1 << k, 1.0 + k, 2.0 + k, 3.0 + k) for k in range(0, 25, 4))
    return Curve(name, device, points)


def figure(op: str, *names: str) -> Figure:
    curves = tuple(map(curve, names))
    return Figure(op, "f32", curves, Crossing(1795707, 90000), Crossing(4071, 512))


FOUND = [
    figure("matmul", "cpu_blas", "cpu_fallback", "cuda_contract", "cuda_naive", "cuda_tiled"),
    figure("add", "cpu_fused", "cuda_elementwise", "cuda_naive", "mine"),
]


def test_a_backend_has_one_colour_in_every_drawing() -> None:
    both, alone = light_colours(FOUND), light_colours(FOUND[1:])
    assert all(both[name] == colour for name, colour in alone.items())
    assert len(set(both.values())) == len(both)
    assert curve_classes(FOUND)["cuda_naive"] == curve_classes(FOUND[1:])["cuda_naive"]


def brightness(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


@pytest.mark.parametrize("found", FOUND, ids=lambda each: each.op)
def test_the_curves_of_a_panel_have_colours_far_apart(found: Figure) -> None:
    colours = [brightness(light_colours(FOUND)[each.name]) for each in found.curves]
    for place, one in enumerate(colours):
        for other in colours[place + 1 :]:
            assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 90


def test_bands_have_the_colours_of_their_lines_and_labels_are_exact() -> None:
    assert len(set(band_colours().values())) == 2
    text = svg_of(FOUND[0], curve_classes(FOUND))
    assert ">host 1795707</text>" in text and ">resident 4071</text>" in text
    made = page(profile(), figures(ledger(), profile()))
    assert ".band.host { fill: var(--host); }" in made
    assert ".cross.resident { stroke: var(--resident); }" in made


def test_the_picture_marks_uncertainty_and_keeps_to_its_panels() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    from softcuda.tools.report_png import _panel

    canvas = Canvas(figsize=(5, 4))
    drawn = FigureCanvasAgg(canvas)
    axes = canvas.add_subplot(1, 1, 1)
    _panel(axes, FOUND[0], light_colours(FOUND))
    canvas.savefig(io.BytesIO(), format="png")
    assert axes.get_xlim()[0] == 1
    frame = axes.get_window_extent(drawn.get_renderer())
    labels = [t for t in axes.texts if t.get_text().strip().startswith(("host", "resident"))]
    assert len(labels) == 2 and len(axes.patches) == 2  # a band each
    for label in labels:
        box = label.get_window_extent(drawn.get_renderer())
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1
    colours = {line.get_label(): line.get_color() for line in axes.lines}
    assert colours["cuda_tiled"] == light_colours(FOUND)["cuda_tiled"]
    assert picture("x", FOUND)


def test_a_page_of_a_cpu_speaks_of_no_gpu_and_has_links() -> None:
    measured = ledger(("cpu",), CPU_SCOPES)
    made = made_profile(measured, CPU_SCOPES, Origin("x", CPU, "2026-03-18T09:00:00Z"))
    text = page(made, figures(measured, made))
    assert (
        "The CPU alone was measured" in text and "CUDA" not in text.split("<h2")[0].split("<p>")[1]
    )
    links = set(re.findall(r'href="#(\w+)"', text))
    assert links == set(re.findall(r'<h2 id="(\w+)"', text)) == set(OPS)


def report(name: str, *options: str) -> int:
    return main(["report", name, *options])


def test_a_report_prints_what_it_was_asked_for_and_makes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(profile("gpu.soft"), "gpu.soft")
    owner = (device_hash(GPU), "cpu_fused", "cuda_elementwise")
    measured_path("gpu.soft").write_text(samples_text(ledger(), owner), encoding="utf-8")
    assert report("gpu.soft", "--ops", "add", "--output", "a/b") == 0
    printed = capsys.readouterr().out
    assert "add[f32]" in printed and "relu[f32]" not in printed
    assert (tmp_path / "a" / "b" / "gpu.html").is_file()
    Path("file").touch()
    assert report("gpu.soft", "--output", "file/x") == 1
    assert "the folder for the pages cannot be made" in capsys.readouterr().err


def test_a_report_of_a_cpu_says_why_there_are_no_crossings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    measured = ledger(("cpu",), CPU_SCOPES)
    made = made_profile(measured, CPU_SCOPES, Origin("x", CPU, "2026-03-18T09:00:00Z"))
    write(made, "cpu.soft")
    owner = (device_hash(CPU), "cpu_fused")
    measured_path("cpu.soft").write_text(samples_text(measured, owner), encoding="utf-8")
    assert report("cpu.soft") == 0
    assert "no crossings: the CPU alone was measured" in capsys.readouterr().out
