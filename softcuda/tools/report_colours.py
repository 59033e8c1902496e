"""The colours and lines of drawings, for light and for dark grounds: one set of CSS rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.tools.report_curves import HOST_NAME, Figure

__all__ = ["band_colours", "curve_classes", "drawing_rules", "light_colours"]

# Colours that differ in lightness too; for light and for dark grounds. A backend has one colour in
# every drawing, and those that share a panel have colours far apart.
_OWN: Final = {
    "cpu_blas": ("#1f5fae", "#7fb2f5"),
    "cpu_fallback": ("#2c8a57", "#74d3a0"),
    "cpu_fused": ("#7a4ea3", "#c6a1ee"),
    "cuda_contract": ("#c62a1f", "#ff8a80"),
    "cuda_elementwise": ("#b35600", "#ffc061"),
    "cuda_naive": ("#5f6b00", "#d3de6b"),
    "cuda_permute": ("#6d4c41", "#d7b5a6"),
    "cuda_reduce": ("#b0307f", "#f29bcb"),
    "cuda_tiled": ("#007f8c", "#6fd9e3"),
}
_OTHERS: Final = (("#37474f", "#b0bec5"), ("#4527a0", "#b39ddb"), ("#827717", "#e6ee9c"))
_HOST_COLOURS: Final = ("#555555", "#bdbdbd")
# The crossings and their bands: data on the host, data resident.
_BANDS: Final = {"host": ("#c77700", "#ffb74d"), "resident": ("#2f6fd0", "#90b8f8")}
_LIGHT: Final = "--ground: #ffffff; --text: #1c1c1c; --soft: #5a5a5a; --line: #dcdcdc;"
_DARK: Final = "--ground: #161616; --text: #ececec; --soft: #a8a8a8; --line: #3a3a3a;"
_LINES: Final = """\
.grid { stroke: var(--line); fill: none; } .tick { fill: var(--soft); font-size: 11px; }
.mark { fill: var(--text); font-size: 11px; }
.curve { fill: none; stroke-width: 2; } .curve.cpu { stroke-dasharray: 6 3; }
.curve.copied { stroke-dasharray: 2 3; }
.cross { fill: none; stroke-width: 1.5; } .cross.host { stroke-dasharray: 2 3; }
.cross.host { stroke: var(--host); } .cross.resident { stroke: var(--resident); }
.band { opacity: .16; } .band.host { fill: var(--host); } .band.resident { fill: var(--resident); }
"""


def curve_classes(found: Sequence[Figure]) -> dict[str, str]:
    """Return the name of every curve -> the CSS class of its colour."""
    names = sorted({curve.name for figure in found for curve in figure.curves} - {HOST_NAME})
    own = {name: f"s{place}" for place, name in enumerate(_OWN)}
    others = [name for name in names if name not in own]
    classes = {name: f"o{place % len(_OTHERS)}" for place, name in enumerate(others)}
    return {**{name: own.get(name, classes.get(name, "")) for name in names}, HOST_NAME: "sh"}


def light_colours(found: Sequence[Figure]) -> dict[str, str]:
    """Return the name of every curve -> its colour on a light ground, as the pages have it."""
    pairs = _pairs()
    return {name: pairs[css][0] for name, css in curve_classes(found).items()}


def band_colours() -> dict[str, str]:
    """Return "host" and "resident" -> the colour of such a crossing on a light ground."""
    return {word: pair[0] for word, pair in _BANDS.items()}


def _pairs() -> dict[str, tuple[str, str]]:
    """Return every class -> its colours for light and for dark grounds."""
    pairs = {f"s{place}": pair for place, pair in enumerate(_OWN.values())}
    pairs.update({f"o{place}": pair for place, pair in enumerate(_OTHERS)})
    return {**pairs, "sh": _HOST_COLOURS}


def drawing_rules() -> str:
    """Return the CSS rules of curves, axes and marks; dark where the reader's system is."""
    pairs = _pairs()
    variables = {**pairs, **_BANDS}
    light = "".join(f"--{css}: {pair[0]};" for css, pair in variables.items())
    dark = "".join(f"--{css}: {pair[1]};" for css, pair in variables.items())
    rules = "".join(
        f".curve.{css} {{ stroke: var(--{css}); }} circle.{css} {{ fill: var(--{css}); }}\n"
        for css in pairs
    )
    return (
        f":root {{ color-scheme: light dark; {_LIGHT} {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} {dark} }} }}\n{_LINES}{rules}"
    )
