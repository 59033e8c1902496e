"""Rows that are measured again: which are looked at, and which no longer hold."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from softcuda.dtype import REAL_DTYPES
from softcuda.graph.op import OPS, Kind
from softcuda.profile.check import token_text
from softcuda.profile.model import Profile, Row
from softcuda.tools.cells import BY_IMPORTANCE, Cell, Outcome, State
from softcuda.tools.profile_rows import was_measured
from softcuda.tools.sweep import CellBench

__all__ = ["Asked", "RowCheck", "checked_rows"]

_TOP: Final = {True: 10, False: 22}  # powers of two, of a product and of others
_HOLDS: Final = 1.23  # a row holds while its backend is no further behind; as choosing has it
_ODD: Final = 1.5  # a row whose own comment has its backend so far behind was edited
_ROWS_CHECKED: Final = 24
_ALLOWANCE_S: Final = 0.2
_END: Final = re.compile(r"at \d+: ([^;]*)")
_TIME: Final = re.compile(r"(\w+) ([0-9.]+)")


class Asked(NamedTuple):
    """Which rows are to be measured again; of what is empty, all.

    Attributes:
        ops: tokens of ops.
        dtypes: names of dtypes.
        sizes: where to measure, instead of in the middle of each row.
    """

    ops: Collection[str] = ()
    dtypes: Collection[str] = ()
    sizes: Collection[int] = ()


EVERYTHING: Final = Asked()


class RowCheck(NamedTuple):
    """A row, measured again at a size: whether it holds, and what was found."""

    holds: bool
    text: str


def checked_rows(
    profile: Profile, bench: CellBench, report: Callable[[Cell], None], asked: Asked = EVERYTHING
) -> list[RowCheck]:
    """Measure rows again and return which hold.

    A row holds while its backend takes at most 1.23 times what the fastest one does. Where nothing
    is asked for, a sample of 24 rows is looked at: first those that were written by hand or whose
    own comment speaks against them, then others at equal distances.

    Args:
        profile: one of this machine.
        bench: what measures.
        report: is told each cell before it is measured.
        asked: which rows.
    """
    found = []
    for row, size in _places(profile, asked):
        cell = Cell(row.op, row.dtype or "f32", size)
        report(cell)
        outcomes = bench.measure(cell, bench.backend_ids, _ALLOWANCE_S)
        times = {n: o.microseconds for n, o in outcomes.items() if o.state is State.MEASURED}
        own = times.get(row.backend_id)
        best = min(times, key=lambda name: (times[name], name)) if times else ""
        where = f"{profile.label(row)}: {token_text(row.op, row.dtype)} at {size}"
        if own is None:
            reason = outcomes.get(row.backend_id, Outcome(State.SKIPPED)).reason or "not there"
            found.append(RowCheck(False, f"{where}: {row.backend_id} is out: {reason}"))
            continue
        said = f"{row.backend_id} {own:.4g} us, fastest {best} {times[best]:.4g}"
        found.append(RowCheck(own <= _HOLDS * times[best], f"{where}: {said}"))
    return found


def _places(profile: Profile, asked: Asked) -> Iterator[tuple[Row, int]]:
    """Yield the rows to look at, and where."""
    rank = {op: place for place, op in enumerate(BY_IMPORTANCE)}
    rows = [
        row
        for row in profile.rows
        if was_measured(row)
        and (row.dtype or "f32") in REAL_DTYPES
        and (not asked.ops or row.op in asked.ops)
        and (not asked.dtypes or (row.dtype or "f32") in asked.dtypes)
    ]
    rows.sort(key=lambda row: (rank[row.op], row.dtype or "", row.low))
    if not any(asked):
        rows = _sample(rows)
    for row in rows:
        for size in asked.sizes or (_inside(row),):
            if row.low <= size and (row.high is None or size < row.high):
                yield row, size


def _sample(rows: list[Row]) -> list[Row]:
    odd = [row for row in rows if _is_odd(row)][:_ROWS_CHECKED]
    rest = [row for row in rows if row not in odd]
    count = min(_ROWS_CHECKED - len(odd), len(rest))
    return odd + [rest[int(k * len(rest) / count)] for k in range(count)]


def _is_odd(row: Row) -> bool:
    """Return whether a row is not what soft_init writes: without medians, or against them."""
    ends = [
        {name: float(time) for name, time in _TIME.findall(end)}
        for end in _END.findall(row.comment)
    ]
    known = [times for times in ends if times]
    return not known or all(
        times.get(row.backend_id, math.inf) > _ODD * min(times.values())
        for times in known
        if row.backend_id in times or f"{row.backend_id} skipped" not in row.comment
    )


def _inside(row: Row) -> int:
    """Return a power of two in the middle of a row, by logarithm; its low end where none is."""
    top = _TOP[OPS[row.op].kind is Kind.CONTRACTION]
    low = max(row.low, 1)
    high = min(row.high or 1 << top, 1 << top)
    middle = 1 << max(round(math.log2(math.sqrt(low * max(high, low)))), 0)
    return middle if row.low <= middle and (row.high is None or middle < row.high) else low
