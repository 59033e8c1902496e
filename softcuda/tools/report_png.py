"""The picture of a report: the important ops, drawn by matplotlib where it is installed."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from softcuda.profile.model import Crossing
from softcuda.tools.report_colours import band_colours, light_colours
from softcuda.tools.report_curves import HOST_NAME, Figure, important

__all__ = ["picture"]

_COLUMNS: Final = 3


def picture(title: str, found: Sequence[Figure]) -> bytes | None:
    """Return a PNG of the first ops of a report, None where matplotlib is not installed.

    Args:
        title: stands above the panels.
        found: the important ops first; of each op one dtype is drawn, f32 where it was measured.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - optional
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415
    except ImportError:
        return None
    chosen = important(found)
    rows = max(1, -(-len(chosen) // _COLUMNS))
    canvas = Canvas(figsize=(5.2 * _COLUMNS, 3.9 * rows), layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(title)
    colours = light_colours(found)
    for place, figure in enumerate(chosen):
        _panel(canvas.add_subplot(rows, _COLUMNS, place + 1), figure, colours)
    file = io.BytesIO()
    canvas.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return file.getvalue()


def _panel(axes: Any, figure: Figure, colours: Mapping[str, str]) -> None:
    """Draw the curves of a figure, their quartiles, and the crossings with their uncertainty."""
    sizes = sorted({point.size for curve in figure.curves for point in curve.points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(sizes[0], max(sizes[-1], 2 * sizes[0]))
    for curve in figure.curves:
        style = ":" if curve.name == HOST_NAME else "--" if curve.device == "cpu" else "-"
        colour, points = colours[curve.name], curve.points
        at = [point.size for point in points]
        axes.plot(at, [p.median_us for p in points], style, label=curve.name, color=colour)
        low, high = [p.low_us for p in points], [p.high_us for p in points]
        axes.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
    for word, crossing in (("host", figure.host), ("resident", figure.resident)):
        if crossing is not None and crossing.found:
            _mark(axes, word, crossing, sizes)
    axes.set_title(figure.title)
    axes.set_xlabel("size")
    axes.set_ylabel("microseconds")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7)


def _mark(axes: Any, word: str, crossing: Crossing, sizes: Sequence[int]) -> None:
    """Draw a crossing, its uncertainty, and its size on the side where there is room."""
    colour, error = band_colours()[word], crossing.uncertainty or 0
    low, high = (
        min(max(size, sizes[0]), sizes[-1])
        for size in (crossing.size - error, crossing.size + error)
    )
    axes.axvspan(low, high, color=colour, alpha=0.1, lw=0)
    axes.axvline(crossing.size, color=colour, lw=1, ls=":" if word == "host" else "-")
    is_right = crossing.size > math.sqrt(sizes[0] * sizes[-1])
    axes.annotate(
        f" {word} {crossing.size} ",
        (crossing.size, 0.98 if word == "host" else 0.9),
        xycoords=("data", "axes fraction"),
        va="top",
        ha="right" if is_right else "left",
        fontsize=8,
    )
