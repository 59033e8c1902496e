"""The picture of a report as SVG: the important ops on one sheet, which a page can show."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from softcuda.tools.report_colours import curve_classes, drawing_rules
from softcuda.tools.report_curves import HOST_NAME, Figure, important
from softcuda.tools.report_svg import HEIGHT, WIDTH, svg_of

__all__ = ["sheet"]

_COLUMNS: Final = 2
_TITLE: Final = 24  # above each panel
_HEAD: Final = 36
_KEY: Final = 210  # wide


def sheet(title: str, found: Sequence[Figure]) -> str:
    """Return an SVG of the first ops of a report, with their curves and both crossings.

    Args:
        title: stands above the panels.
        found: the important ops first.
    """
    chosen = important(found)
    classes = curve_classes(found)
    names = sorted({curve.name for figure in chosen for curve in figure.curves})
    across = _COLUMNS * WIDTH // _KEY
    rows, keys = -(-len(chosen) // _COLUMNS), -(-len(names) // across)
    wide, high = _COLUMNS * WIDTH, _HEAD + rows * (HEIGHT + _TITLE) + 20 * keys + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-label="{html.escape(title)}">',
        f"<style>{drawing_rules()}text {{ fill: var(--text); font-family: system-ui, sans-serif; }}"
        "</style>",
        '<rect width="100%" height="100%" style="fill: var(--ground)"/>',
        f'<text x="16" y="24" font-size="17">{html.escape(title)}</text>',
    ]
    for place, figure in enumerate(chosen):
        left = place % _COLUMNS * WIDTH
        top = _HEAD + place // _COLUMNS * (HEIGHT + _TITLE)
        parts.append(
            f'<text x="{left + 64}" y="{top + 16}" font-size="14" font-weight="600">'
            f"{html.escape(figure.title)}</text>"
        )
        where = f'<svg x="{left}" y="{top + _TITLE}" width="{WIDTH}" height="{HEIGHT}" '
        parts.append(svg_of(figure, classes).replace("<svg ", where, 1))
    parts += _keys(names, classes, chosen, _HEAD + rows * (HEIGHT + _TITLE))
    return "\n".join([*parts, "</svg>\n"])


def _keys(
    names: Sequence[str], classes: Mapping[str, str], found: Sequence[Figure], top: int
) -> Iterator[str]:
    devices = {curve.name: curve.device for figure in found for curve in figure.curves}
    across = _COLUMNS * WIDTH // _KEY
    for place, name in enumerate(names):
        left, middle = 64 + place % across * _KEY, top + 12 + place // across * 20
        kind = "copied" if name == HOST_NAME else devices[name]
        yield f'<path class="curve {classes[name]} {kind}" d="M{left} {middle}h36"/>'
        yield f'<text x="{left + 44}" y="{middle + 4}" font-size="12">{html.escape(name)}</text>'
