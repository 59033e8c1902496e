"""From a ledger to the rows of a whole profile: those of what was measured, and of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from softcuda.graph.op import OPS
from softcuda.profile.model import Profile, Row
from softcuda.tools.cells import Ledger, Scope, State
from softcuda.tools.choose import NOT_MEASURED, Point, choose_rows, until
from softcuda.tools.modelled import Paces, beyond, paces_of
from softcuda.tools.preferences import default_backend, handicaps

__all__ = ["profile_rows", "was_measured"]

_LIKE: Final = "as measured of "  # and a dtype
_LIKEST: Final = ("f32", "f64", "f16", "bf16", "i32", "i64", "bool")


def profile_rows(
    ledger: Ledger, scopes: Sequence[Scope], default: Profile, kept: Iterable[Row] = ()
) -> list[Row]:
    """Return the rows of the whole profile, in the order of the op table.

    An op's own rows are for dtypes that were not measured; `op[dtype]` rows follow. They are the
    default's, or where a GPU was measured those of a dtype that was: masks and counts stay on the
    device of the floats they belong to.

    Args:
        ledger: what was measured.
        scopes: what was asked for.
        default: the shipped profile.
        kept: rows of an earlier profile, which stand where nothing was measured.
    """
    measured = {(scope.op, scope.dtype): scope for scope in scopes}
    base = Profile(default.path, default.meta, default.device, tuple(_base_rows(default, kept)))
    paces = paces_of(ledger, scopes)
    rows: list[Row] = []
    for op in OPS:
        of_op = {dtype: scope for (name, dtype), scope in measured.items() if name == op}
        found = {
            dtype: _scope_rows(ledger, scope, default, base, paces)
            for dtype, scope in of_op.items()
        }
        rows += _other_rows(ledger, of_op, found, [row for row in base.rows if row.op == op])
        for of_dtype in found.values():
            rows += of_dtype
    return rows


def _other_rows(
    ledger: Ledger,
    scopes: Mapping[str, Scope],
    found: Mapping[str, Sequence[Row]],
    base: Iterable[Row],
) -> list[Row]:
    """Return the rows of an op for the dtypes beside those that were found."""
    others = [row for row in base if row.dtype not in found]
    like = [d for d in _LIKEST if d in scopes and "cuda" in _devices(ledger, scopes[d]).values()]
    if not like:
        return others
    others = [row for row in others if was_measured(row)]
    if any(row.dtype is None for row in others):
        return others
    comment = f"{_LIKE}{like[0]}"
    return [*(row._replace(dtype=None, comment=comment) for row in found[like[0]]), *others]


def was_measured(row: Row) -> bool:
    """Return whether a row of a profile that soft_init wrote stands on measurements of its own."""
    return row.comment != NOT_MEASURED and not row.comment.startswith(_LIKE)


def _base_rows(default: Profile, kept: Iterable[Row]) -> list[Row]:
    """Return the kept rows, and the default's where these leave an op or a dtype open."""
    rows = [until(row, row.high) for row in kept]
    there = {(row.op, row.dtype) for row in rows}
    for row in default.rows:
        if (row.op, row.dtype) not in there and (row.op, None) not in there:
            rows.append(until(row, row.high, NOT_MEASURED))
    return rows


def _scope_rows(
    ledger: Ledger, scope: Scope, default: Profile, base: Profile, paces: Paces
) -> list[Row]:
    points = _points(ledger, scope, default)
    if not points:
        return [row for row in base.rows if (row.op, row.dtype) == (scope.op, scope.dtype)]
    reached = [size for size, _ in ledger.at(scope.op, scope.dtype)]
    complete = scope.whole and reached[-1] == scope.sizes[-1]
    open_from = None if complete else 2 * points[-1].size
    devices = _devices(ledger, scope)
    if open_from is not None and not _is_kept(base, scope, open_from):
        further = beyond(points, scope, devices, paces)
        open_from = None if further else open_from
        points += further
    lasting = {name for name, device in devices.items() if device == "cuda"}
    return choose_rows(scope.op, scope.dtype, points, default, open_from, base, lasting)


def _is_kept(base: Profile, scope: Scope, size: int) -> bool:
    """Return whether an earlier profile has a measured row for a size."""
    row = base.lookup(scope.op, scope.dtype, size)
    return row is not None and was_measured(row)


def _devices(ledger: Ledger, scope: Scope) -> dict[str, str]:
    """Return backend -> device type of the backends that were tried at all."""
    return {
        name: outcome.device
        for _, outcomes in ledger.at(scope.op, scope.dtype)
        for name, outcome in outcomes.items()
    }


def _points(ledger: Ledger, scope: Scope, default: Profile) -> list[Point]:
    """Return what was measured of an op and a dtype, sizes ascending."""
    points: list[Point] = []
    for size, outcomes in ledger.at(scope.op, scope.dtype):
        times = {n: o.microseconds for n, o in outcomes.items() if o.state is State.MEASURED}
        if times:
            skipped = tuple(n for n, o in outcomes.items() if o.state is State.SKIPPED)
            favourite = default_backend(default, scope.op, scope.dtype, size)
            on_device = any(outcomes[name].device == "cuda" for name in times)
            taken = "" if on_device else _taken(skipped, points, favourite)
            handicap = handicaps(outcomes, favourite, scope.op)
            points.append(Point(size, times, skipped, taken, handicap))
    return points


def _taken(skipped: Sequence[str], before: Sequence[Point], favourite: str) -> str:
    """Return the skipped backend to choose at the next point, "" for none.

    That is one that was the fastest where it was tried last; else the favourite, unless it was
    behind at the last two sizes where it was tried: one size alone may have been disturbed.
    """
    for name in skipped:
        if _led(name, before)[-1:] == [True]:
            return name
    if favourite in skipped and _led(favourite, before)[-2:] != [False, False]:
        return favourite
    return ""


def _led(name: str, points: Sequence[Point]) -> list[bool]:
    """Return for each size where a backend was tried whether it was the fastest."""
    return [p.times[name] <= min(p.times.values()) for p in points if name in p.times]
