"""The picture of a report: the important ops, drawn by matplotlib where it is installed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

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
    for place, figure in enumerate(chosen):
        axes = canvas.add_subplot(rows, _COLUMNS, place + 1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for curve in figure.curves:
            style = ":" if curve.name == HOST_NAME else "--" if curve.device == "cpu" else "-"
            sizes = [point.size for point in curve.points]
            axes.plot(sizes, [p.median_us for p in curve.points], style, label=curve.name)
        for word, crossing in (("host", figure.host), ("resident", figure.resident)):
            if crossing is not None and crossing.found:
                axes.axvline(crossing.size, color="0.3" if word == "host" else "firebrick", lw=1)
                axes.annotate(
                    f"{word} {crossing.size}",
                    (crossing.size, 0.98 if word == "host" else 0.9),
                    xycoords=("data", "axes fraction"),
                    va="top",
                    fontsize=8,
                )
        axes.set_title(figure.title)
        axes.set_xlabel("size")
        axes.set_ylabel("microseconds")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7)
    file = io.BytesIO()
    canvas.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return file.getvalue()
