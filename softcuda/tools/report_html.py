"""The page of a report: one file that needs no other, no network and no script."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from softcuda.profile.model import Profile
from softcuda.tools.display import crossing_text
from softcuda.tools.report_colours import curve_classes, drawing_rules
from softcuda.tools.report_curves import HOST_NAME, Figure
from softcuda.tools.report_svg import svg_of
from softcuda.tools.spread import OUTLIER_RULE

__all__ = ["page"]

_BOTH: Final = """\
Time of one operation against its size, on every backend that takes it: medians, with quartiles
under the pointer. Dashed: the CPU. Solid: CUDA with the data on the device. Dotted: CUDA with the
data on the host before and after, copies included. Vertical lines mark the size from which CUDA is
faster: solid with the data resident, dotted with the data on the host; a band of the colour of its
line is how far the quartiles move it, and at least half of the gap between the two sizes that it
lies between.
"""
_ALONE: Final = """\
Time of one operation against its size, on every backend that takes it: medians, with quartiles
under the pointer. The CPU alone was measured: there is no crossing.
"""
_STYLE: Final = """\
body { background: var(--ground); color: var(--text); margin: 2rem auto; max-width: 72rem;
  padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
thead th { position: sticky; top: 0; background: var(--ground); }
.scroll { overflow: auto; max-height: 32rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr));
  gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
.keys { font-size: .85rem; color: var(--soft); }
.keys span { margin-right: 1rem; white-space: nowrap; }
.keys svg { width: 1.8rem; height: .8rem; vertical-align: middle; margin-right: .3rem; }
svg { width: 100%; height: auto; }
nav { font-size: .85rem; columns: 7rem; margin: 1rem 0; } nav a { display: block; }
a { color: inherit; } details { font-size: .9rem; }
"""


def page(profile: Profile, found: Sequence[Figure]) -> str:
    """Return the page; the same profile and figures give the same page."""
    classes = curve_classes(found)
    device = profile.device
    title = f"softcuda on {device.name or device.cpu or 'this machine'}"
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>",
        f"<style>\n{drawing_rules()}{_STYLE}</style>\n</head>\n<body>",
        f"<h1>{html.escape(title)}</h1>",
        *_head(profile, found),
        *_links(found),
        *_summary(found),
        *_sections(found, classes),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _head(profile: Profile, found: Sequence[Figure]) -> Iterator[str]:
    facts = "".join(
        f"<tr><td>{html.escape(key)}</td><td>{html.escape(text)}</td></tr>"
        for key, text in (*profile.device.written(), *sorted(profile.meta.items()))
    )
    copies = "".join(
        f"<tr><td>{line.direction}</td><td>{line.latency_us:g} us + {line.gb_per_s:g} GB/s</td>"
        "</tr>"
        for line in profile.transfer
    )
    devices = {curve.device for figure in found for curve in figure.curves}
    words = (_BOTH if "cuda" in devices else _ALONE).replace("\n", " ").strip()
    rule = OUTLIER_RULE[0].upper() + OUTLIER_RULE[1:]
    yield f"<p>{words} {html.escape(rule)}.</p>"
    yield f"<details><summary>Machine</summary><table>{facts}{copies}</table></details>"


def _links(found: Sequence[Figure]) -> Iterator[str]:
    """Yield a link to each section."""
    ops = dict.fromkeys(html.escape(figure.op) for figure in found)
    if len(ops) > 1:
        links = " ".join(f'<a href="#{op}">{op}</a>' for op in ops)
        yield f'<nav aria-label="operations">{links}</nav>'


def _summary(found: Sequence[Figure]) -> Iterator[str]:
    rows = "".join(
        f'<tr><td><a href="#{html.escape(figure.op)}">{html.escape(figure.title)}</a></td>'
        f"<td>{crossing_text(figure.host)}</td><td>{crossing_text(figure.resident)}</td></tr>\n"
        for figure in found
        if figure.host is not None or figure.resident is not None
    )
    if rows:
        yield "<h2>From which size CUDA is faster</h2>"
        yield (
            '<div class="scroll"><table><thead><tr><th>op</th><th>data on the host</th>'
            f"<th>data resident</th></tr></thead><tbody>\n{rows}</tbody></table></div>"
        )


def _sections(found: Sequence[Figure], classes: Mapping[str, str]) -> Iterator[str]:
    for op, of_op in groupby(found, key=lambda figure: figure.op):
        yield f'<h2 id="{html.escape(op)}">{html.escape(op)}</h2>\n<div class="pair">'
        for figure in of_op:
            yield f"<figure><figcaption>{html.escape(figure.title)}</figcaption>"
            yield svg_of(figure, classes)
            yield _keys(figure, classes)
            yield f"<details><summary>Medians [us]</summary>{_table(figure)}</details></figure>"
        yield "</div>"


def _keys(figure: Figure, classes: Mapping[str, str]) -> str:
    keys = []
    for curve in figure.curves:
        kind = "copied" if curve.name == HOST_NAME else curve.device
        line = f'<path class="curve {classes[curve.name]} {kind}" d="M0 6H36"/>'
        keys.append(
            f'<span><svg viewBox="0 0 36 12" aria-hidden="true">{line}</svg>'
            f"{html.escape(curve.name)}</span>"
        )
    return f'<p class="keys">{"".join(keys)}</p>'


def _table(figure: Figure) -> str:
    sizes = sorted({point.size for curve in figure.curves for point in curve.points})
    at = [{point.size: point for point in curve.points} for curve in figure.curves]
    head = "".join(f"<th>{html.escape(curve.name)}</th>" for curve in figure.curves)
    rows = []
    for size in sizes:
        cells = "".join(
            f"<td>{points[size].median_us:.4g}</td>" if size in points else "<td></td>"
            for points in at
        )
        rows.append(f"<tr><td>{size}</td>{cells}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr><th>size</th>{head}</tr></thead><tbody>'
        f"{''.join(rows)}</tbody></table></div>"
    )
