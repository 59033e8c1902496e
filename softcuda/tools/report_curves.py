"""Curves of a report: time against size, for each backend, from the samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from softcuda.profile.check import token_text
from softcuda.profile.model import Crossing, Profile
from softcuda.tools.cells import BY_IMPORTANCE, Ledger, State
from softcuda.tools.spread import quantile_of

__all__ = ["HOST_NAME", "Curve", "Figure", "PlotPoint", "figures", "important"]

HOST_NAME: Final = "CUDA, data on the host"
_PANELS: Final = 6


class PlotPoint(NamedTuple):
    """A median and its quartiles [microseconds] at a size."""

    size: int
    low_us: float
    median_us: float
    high_us: float


class Curve(NamedTuple):
    """The points of a backend, sizes ascending.

    Attributes:
        name: the backend, or HOST_NAME for the fastest CUDA backend with its copies.
        device: "cpu" or "cuda".
        points: what was measured.
    """

    name: str
    device: str
    points: tuple[PlotPoint, ...]


class Figure(NamedTuple):
    """What was measured of an op and a dtype.

    Attributes:
        op: token of the op.
        dtype: name of the row's dtype.
        curves: those of the CPU first.
        host: the crossing with the data on the host; None if not measured.
        resident: the crossing with the data resident.
    """

    op: str
    dtype: str
    curves: tuple[Curve, ...]
    host: Crossing | None
    resident: Crossing | None

    @property
    def title(self) -> str:
        """The token of the rows, such as matmul[f32]."""
        return token_text(self.op, self.dtype)


def figures(ledger: Ledger, profile: Profile, ops: Sequence[str] = ()) -> list[Figure]:
    """Return a figure for each op and dtype that was measured, the important ops first.

    Args:
        ledger: the samples.
        profile: the profile made of them, whose [thresholds] are marked.
        ops: these ops only; () for all.
    """
    crossings = {(line.op, line.dtype): line for line in profile.thresholds}
    rank = {op: place for place, op in enumerate(BY_IMPORTANCE)}
    found = []
    for op, dtype in sorted(ledger.outcomes, key=lambda key: (rank.get(key[0], 0), key[0])):
        curves = tuple(_curves(ledger, op, dtype))
        if curves and (not ops or op in ops):
            line = crossings.get((op, dtype))
            host, resident = (line.host, line.resident) if line else (None, None)
            found.append(Figure(op, dtype, curves, host, resident))
    return found


def important(found: Sequence[Figure]) -> list[Figure]:
    """Return the figures of a picture: of the first six ops one each, f32 where it was measured."""
    first: dict[str, Figure] = {}
    for figure in found:
        if figure.op not in first or figure.dtype == "f32":
            first[figure.op] = figure
    return list(first.values())[:_PANELS]


def _curves(ledger: Ledger, op: str, dtype: str) -> Iterable[Curve]:
    points: dict[tuple[str, str], list[PlotPoint]] = {}
    host: dict[int, PlotPoint] = {}
    for size, outcomes in ledger.at(op, dtype):
        for name, outcome in outcomes.items():
            if outcome.state is not State.MEASURED:
                continue
            times = outcome.samples or (outcome.microseconds,)
            points.setdefault((outcome.device, name), []).append(_point(size, times))
            if outcome.host:
                point = _point(size, outcome.host)
                if size not in host or point.median_us < host[size].median_us:
                    host[size] = point
    for (device, name), of_backend in sorted(points.items()):
        yield Curve(name, device, tuple(of_backend))
    if host:
        yield Curve(HOST_NAME, "cuda", tuple(host[size] for size in sorted(host)))


def _point(size: int, times: Sequence[float]) -> PlotPoint:
    low, middle, high = (quantile_of(times, share) for share in (0.25, 0.5, 0.75))
    return PlotPoint(size, low, middle, high)
