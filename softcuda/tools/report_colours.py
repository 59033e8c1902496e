"""The colours and lines of drawings, for light and for dark grounds: one set of CSS rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.tools.report_curves import HOST_NAME, Figure

__all__ = ["curve_classes", "drawing_rules"]

# Colours that differ in lightness too; for light and for dark grounds.
_COLOURS: Final = (
    ("#1f5fae", "#7fb2f5"),
    ("#2c8a57", "#74d3a0"),
    ("#7a4ea3", "#c6a1ee"),
    ("#b3261e", "#ff8a80"),
    ("#b36b00", "#ffc061"),
    ("#8a3b6b", "#f29bcb"),
    ("#5f6b00", "#d3de6b"),
    ("#006f7a", "#6fd9e3"),
    ("#6d4c41", "#d7b5a6"),
)
_HOST_COLOURS: Final = ("#555555", "#bdbdbd")
_LIGHT: Final = "--ground: #ffffff; --text: #1c1c1c; --soft: #5a5a5a; --line: #dcdcdc;"
_DARK: Final = "--ground: #161616; --text: #ececec; --soft: #a8a8a8; --line: #3a3a3a;"
_LINES: Final = """\
.grid { stroke: var(--line); fill: none; } .tick { fill: var(--soft); font-size: 11px; }
.mark { fill: var(--text); font-size: 11px; }
.curve { fill: none; stroke-width: 2; } .curve.cpu { stroke-dasharray: 6 3; }
.curve.copied { stroke-dasharray: 2 3; }
.cross { fill: none; stroke-width: 1.3; stroke: var(--text); }
.cross.host { stroke-dasharray: 2 3; }
.band { opacity: .14; fill: var(--text); }
"""


def curve_classes(found: Sequence[Figure]) -> dict[str, str]:
    """Return the name of every curve -> the CSS class of its colour."""
    names = sorted({curve.name for figure in found for curve in figure.curves} - {HOST_NAME})
    classes = {name: f"s{place % len(_COLOURS)}" for place, name in enumerate(names)}
    return {**classes, HOST_NAME: "sh"}


def drawing_rules() -> str:
    """Return the CSS rules of curves, axes and marks; dark where the reader's system is."""
    pairs = {f"s{place}": pair for place, pair in enumerate(_COLOURS)}
    pairs["sh"] = _HOST_COLOURS
    light = "".join(f"--{css}: {pair[0]};" for css, pair in pairs.items())
    dark = "".join(f"--{css}: {pair[1]};" for css, pair in pairs.items())
    rules = "".join(
        f".curve.{css} {{ stroke: var(--{css}); }} circle.{css} {{ fill: var(--{css}); }}\n"
        for css in pairs
    )
    return (
        f":root {{ color-scheme: light dark; {_LIGHT} {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} {dark} }} }}\n{_LINES}{rules}"
    )
