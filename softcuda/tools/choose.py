"""From medians to rows: pure functions; the same medians, the same rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from softcuda.profile.model import Profile, Row
from softcuda.tools.lines import growth_of, met_at
from softcuda.tools.preferences import MARGIN, default_backend
from softcuda.tools.spread import short_text

__all__ = [
    "CHANGE",
    "NOT_MEASURED",
    "Point",
    "choose_rows",
    "until",
    "winners",
]

CHANGE: Final = 0.15  # what a change must save: 15 % at one size, or 5 % at three
NOT_MEASURED: Final = "not measured"

Times = Mapping[str, float]
_NONE: Final[Times] = MappingProxyType({})


class Point(NamedTuple):
    """The medians at a size.

    Attributes:
        size: the row's size.
        times: backend -> microseconds; at least one.
        skipped: the backends that were not tried there.
        taken: the one of them that counts as the fastest all the same; "" for none.
        handicaps: backend -> what it must be ahead by to be chosen, as log(time / time).
        modelled: the times were not measured but follow from those of smaller sizes.
    """

    size: int
    times: Times
    skipped: tuple[str, ...] = ()
    taken: str = ""
    handicaps: Times = _NONE
    modelled: bool = False


def winners(points: Sequence[Point], preferred: Sequence[str]) -> list[str]:
    """Return the backend chosen at each point.

    Of all choices the one whose sum of log(time / fastest time) is least, where each change from
    one size to the next costs CHANGE and a backend costs its handicap, or MARGIN where it has none
    and is not the preferred one. So what is hardly ahead of the preferred one does not replace it,
    and one disturbed size makes no row of its own. A backend that is taken without a median is
    chosen at its point.

    Args:
        points: sizes ascending.
        preferred: for each point the backend that a near tie goes to.

    Source:
        The dynamic programme of Viterbi, "Error bounds for convolutional codes", 1967.
    """
    paths: dict[str, tuple[float, tuple[str, ...]]] = {}
    for point, favourite in zip(points, preferred, strict=True):
        fastest = min(point.times.values())
        longer: dict[str, tuple[float, tuple[str, ...]]] = {}
        for name in [point.taken] if point.taken else sorted(point.times):
            own = 0.0
            if name in point.times:
                handicap = point.handicaps.get(name, MARGIN if name != favourite else 0.0)
                own = math.log(point.times[name] / fastest) + handicap
            before = [
                (cost + (CHANGE if last != name else 0.0), path)
                for last, (cost, path) in paths.items()
            ]
            cost, path = min(before, default=(0.0, ()))
            longer[name] = (cost + own, (*path, name))
        paths = longer
    return list(min(paths.values())[1]) if paths else []


def choose_rows(
    op: str,
    dtype: str,
    points: Sequence[Point],
    default: Profile,
    open_from: int | None = None,
    base: Profile | None = None,
    lasting: Collection[str] = (),
) -> list[Row]:
    """Return the rows `op[dtype]` that cover every size.

    Neighbouring points with one winner share a row; medians at its ends stand beside it.

    Args:
        op: token of the op.
        dtype: name of the row's dtype.
        points: what was measured, sizes ascending; at least one.
        default: the shipped profile; decides ties.
        open_from: the first size that was not reached; None where every size was.
        base: decides sizes from `open_from` on; None for the default.
        lasting: backends that keep what lies beyond the last size, as a GPU that was ahead does.
    """
    chosen = winners(points, [default_backend(default, op, dtype, p.size) for p in points])
    groups: list[list[int]] = []
    for place, backend_id in enumerate(chosen):
        if groups and chosen[groups[-1][-1]] == backend_id:
            groups[-1].append(place)
        else:
            groups.append([place])
    bounds: list[int | None] = [0]
    for left, right in pairwise(groups):
        ids = (chosen[left[-1]], chosen[right[0]])
        bounds.append(_crossing(points[left[-1]], points[right[0]], ids, growth_of(op)))
    bounds.append(None)
    rows = []
    for place, group in enumerate(groups):
        comment = _medians([points[k] for k in group])
        low, high = bounds[place] or 0, bounds[place + 1]
        rows.append(Row(op, dtype, low, high, chosen[group[0]], comment=comment))
    if open_from is None or rows[-1].backend_id in lasting:
        return rows
    rows[-1] = until(rows[-1], max(open_from, rows[-1].low + 1))
    rest = _rows_from(base or default, op, dtype, rows[-1].high or 0)
    if rest and rest[0].backend_id == rows[-1].backend_id:
        said = NOT_MEASURED if rest[0].comment == NOT_MEASURED else "kept"
        comment = f"{rows[-1].comment}; {said} from {rows[-1].high} on"
        rows[-1] = until(rows[-1], rest[0].high, comment)
        rest = rest[1:]
    return rows + rest


def until(row: Row, high: int | None, comment: str | None = None) -> Row:
    """Return a row that ends before `high`, of no line; with another comment where one is given."""
    said = row.comment if comment is None else comment
    return Row(row.op, row.dtype, row.low, high, row.backend_id, comment=said)


def _rows_from(base: Profile, op: str, dtype: str, low: int) -> list[Row]:
    """Return the rows of an op and dtype from a size on."""
    found: list[Row] = []
    at: int | None = low
    while at is not None:
        row = base.lookup(op, dtype, at)
        if row is None:
            return found
        said = row.comment or NOT_MEASURED
        found.append(Row(op, dtype, at, row.high, row.backend_id, comment=said))
        at = row.high
    return found


def _crossing(left: Point, right: Point, ids: tuple[str, str], growth: int) -> int:
    """Return the size at which the winner of `right` takes over, above left.size.

    Where both backends were measured at both sizes, their times are taken as latency + work / rate
    between them; else the change is half way. Between a power of two and the next it is that one.
    """
    share = 0.5
    if all(name in point.times for name in ids for point in (left, right)):
        before = left.times[ids[1]] - left.times[ids[0]]
        after = right.times[ids[0]] - right.times[ids[1]]
        if before > 0 and after > 0:
            size = met_at(left.size, right.size, before, after, growth)
            share = math.log(size / left.size) / math.log(right.size / left.size)
        elif before <= 0 < after:  # a near tie, which it has won
            share = 0.0
    if right.size != 2 * left.size or not _is_power(left.size):
        whole = round(math.exp(math.log(left.size) + share * math.log(right.size / left.size)))
        return min(max(whole, left.size + 1), right.size)
    return right.size


def _is_power(size: int) -> bool:
    return size & (size - 1) == 0


def _medians(points: Sequence[Point]) -> str:
    """Return the medians at the ends of a row, the fastest first, and who was skipped."""
    ends = points[:1] if len(points) == 1 else (points[0], points[-1])
    return "us " + "; ".join(
        f"{'modelled ' if point.modelled else ''}at {point.size}: "
        + ", ".join(
            f"{name} {short_text(time)}"
            for name, time in sorted(point.times.items(), key=lambda item: (item[1], item[0]))
        )
        + "".join(f", {name} skipped" for name in point.skipped)
        for point in ends
    )
