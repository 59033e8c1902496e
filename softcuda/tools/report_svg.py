"""A small writer of SVG: curves on two log axes, marks where one overtakes another.

Colours are classes, which the page sets for light and dark; every mark has a title that a pointer
shows.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from softcuda.profile.model import Crossing
from softcuda.tools.report_curves import HOST_NAME, Curve, Figure

__all__ = ["HEIGHT", "WIDTH", "size_text", "svg_of", "time_text"]

WIDTH, HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 30, 40
_MOST_TICKS: Final = 9
_SIZES: Final = ("", "Ki", "Mi", "Gi", "Ti")
_MARGIN: Final = 1.3  # room above and below the curves


def size_text(size: int) -> str:
    """Return a size as an axis names it.

    Example:
        >>> size_text(96), size_text(4096), size_text(3 << 19)
        ('96', '4 Ki', '1.5 Mi')
    """
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_SIZES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_SIZES[unit]}".strip()


def time_text(microseconds: float) -> str:
    """Return a time with three digits and a unit.

    Example:
        >>> time_text(0.5), time_text(41.23), time_text(12345.0)
        ('0.5 us', '41.2 us', '12.3 ms')
    """
    for unit, factor in (("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        if microseconds < 999.5 * factor:
            return f"{microseconds / factor:.3g} {unit}"
    return f"{microseconds / 1e6:.0f} s"


class _Axis(NamedTuple):
    """Logarithms from low to high, on pixels from first to last."""

    low: float
    high: float
    first: float
    last: float

    def at(self, value: float) -> float:
        share = (math.log(value) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)


def svg_of(figure: Figure, classes: Mapping[str, str]) -> str:
    """Return the drawing of a figure.

    Args:
        figure: what to draw.
        classes: name of a curve -> its class.
    """
    points = [point for curve in figure.curves for point in curve.points]
    sizes = [point.size for point in points]
    low, high = min(p.low_us for p in points), max(p.high_us for p in points)
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    widest = max(*sizes, 2 * min(sizes))
    x = _Axis(math.log(min(sizes)), math.log(widest), _LEFT, right)
    y = _Axis(math.log(low / _MARGIN), math.log(high * _MARGIN), bottom, _TOP)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="time against size of {html.escape(figure.title)}">'
    ]
    parts += _x_ticks(x, min(sizes), widest)
    parts += _y_ticks(y, low / _MARGIN, high * _MARGIN)
    parts += _crossing_marks(figure, x, (min(sizes), max(sizes)))
    for curve in figure.curves:
        parts += _curve_marks(curve, x, y, classes[curve.name])
    parts.append("</svg>")
    return "\n".join(parts)


def _x_ticks(x: _Axis, low: int, high: int) -> Iterator[str]:
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = max(1, math.ceil(len(powers) / _MOST_TICKS))
    bottom = HEIGHT - _BOTTOM
    for power in powers[::step]:
        at = x.at(1 << power)
        yield f'<path class="grid" d="M{at:.1f} {_TOP}V{bottom}"/>'
        yield (
            f'<text class="tick" text-anchor="middle" x="{at:.1f}" y="{bottom + 16}">'
            f"{size_text(1 << power)}</text>"
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text class="tick" text-anchor="middle" x="{middle}" y="{HEIGHT - 6}">size</text>'


def _y_ticks(y: _Axis, low: float, high: float) -> Iterator[str]:
    decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) < 3 else (1,)
    for decade in range(decades.start - 1, decades.stop + 1):
        for step in steps:
            value = step * 10.0**decade
            if not low <= value <= high:
                continue
            at = y.at(value)
            yield f'<path class="grid" d="M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"/>'
            yield (
                f'<text class="tick" text-anchor="end" x="{_LEFT - 6}" y="{at + 4:.1f}">'
                f"{time_text(value)}</text>"
            )


def _crossing_marks(figure: Figure, x: _Axis, sizes: tuple[int, int]) -> Iterator[str]:
    for row, (word, crossing) in enumerate((("resident", figure.resident), ("host", figure.host))):
        if crossing is None or not crossing.found:
            continue
        at = x.at(min(max(crossing.size, sizes[0]), sizes[1]))
        yield _band(crossing, x, sizes, word)
        yield f'<path class="cross {word}" d="M{at:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>'
        side = "end" if at > WIDTH / 2 else "start"
        shift = -4 if side == "end" else 4
        yield (
            f'<text class="mark" text-anchor="{side}" x="{at + shift:.1f}" y="{12 + 13 * row}">'
            f"{word} {crossing.size}</text>"
        )


def _band(crossing: Crossing, x: _Axis, sizes: tuple[int, int], word: str) -> str:
    """Return the uncertainty of a crossing as a band."""
    error = crossing.uncertainty or 0
    low = x.at(min(max(crossing.size - error, sizes[0]), sizes[1]))
    high = x.at(min(max(crossing.size + error, sizes[0]), sizes[1]))
    height = HEIGHT - _BOTTOM - _TOP
    return (
        f'<rect class="band {word}" x="{low:.1f}" y="{_TOP}" width="{high - low:.1f}" '
        f'height="{height}"><title>{word}: {crossing.size} ± {error}</title></rect>'
    )


def _curve_marks(curve: Curve, x: _Axis, y: _Axis, css: str) -> Iterator[str]:
    spots = [(x.at(p.size), y.at(p.median_us)) for p in curve.points]
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in spots)
    dashed = " copied" if curve.name == HOST_NAME else f" {curve.device}"
    yield f'<path class="curve {css}{dashed}" d="M{path}"/>'
    for point, (a, b) in zip(curve.points, spots, strict=True):
        yield (
            f'<circle class="{css}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"><title>'
            f"{html.escape(curve.name)}, size {point.size}: {time_text(point.median_us)} "
            f"({time_text(point.low_us)} to {time_text(point.high_us)})</title></circle>"
        )
