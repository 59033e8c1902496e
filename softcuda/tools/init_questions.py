"""What soft_init answers about profiles that are there: --diff, --explain, --check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from softcuda.dtype import REAL_DTYPES
from softcuda.errors import ArgumentError
from softcuda.graph.op import OPS, Kind
from softcuda.profile.check import range_text, token_text
from softcuda.profile.model import Profile, Row, Threshold
from softcuda.tools.cells import BY_IMPORTANCE, Cell, Ledger, Outcome, State
from softcuda.tools.display import crossing_text
from softcuda.tools.profile_rows import was_measured
from softcuda.tools.sweep import CellBench

__all__ = ["checked_rows", "difference_lines", "explanation_lines"]

_POWERS: Final = {True: 13, False: 25}  # sizes compared: contractions up to 2^12, others 2^24
_NEAR: Final = 2.0  # a size this close to where a row ends is near a crossing
_HOLDS: Final = 1.23  # a row holds while its backend is no further behind; as choosing has it
_ROWS_CHECKED: Final = 24
_ALLOWANCE_S: Final = 0.2


def _measured(profile: Profile) -> set[tuple[str, str]]:
    """Return (op, dtype) of the narrow rows that were measured."""
    rows = (row for row in profile.rows if was_measured(row))
    return {(row.op, row.dtype) for row in rows if row.dtype is not None}


class _Span(NamedTuple):
    """Neighbouring sizes that two profiles decide in two ways."""

    low: int
    high: int
    backend_ids: tuple[str, str]


def difference_lines(one: Profile, other: Profile) -> list[str]:
    """Return what two profiles decide differently, as lines of text.

    Sizes are powers of two, of every op and dtype that both have rows for. How far they agree is
    said for all sizes, and for those that are away from where a row ends.
    """
    lines = [
        f"device: {key} is {said or 'not written'!r} in {one.name} and {there or 'not written'!r} "
        f"in {other.name}"
        for key, said, there in zip(one.device._fields, one.device, other.device, strict=True)
        if said != there
    ]
    same = total = near_same = near_total = 0
    for op, dtype in sorted(_measured(one) & _measured(other)):
        spans: list[_Span] = []
        for power in range(_POWERS[OPS[op].kind is Kind.CONTRACTION]):
            size = 1 << power
            rows = (one.lookup(op, dtype, size), other.lookup(op, dtype, size))
            if rows[0] is None or rows[1] is None:
                continue
            ids = (rows[0].backend_id, rows[1].backend_id)
            agree, is_near = ids[0] == ids[1], any(_is_near(row, size) for row in rows if row)
            total, same = total + 1, same + agree
            near_total, near_same = near_total + is_near, near_same + (is_near and agree)
            if agree:
                continue
            if spans and spans[-1].backend_ids == ids and spans[-1].high == size // 2:
                spans[-1] = spans[-1]._replace(high=size)
            else:
                spans.append(_Span(size, size, ids))
        lines += [
            f"{token_text(op, dtype)}, sizes {span.low} to {span.high}: "
            f"{span.backend_ids[0]} -> {span.backend_ids[1]}"
            for span in spans
        ]
    lines += list(_moved(one.thresholds, other.thresholds))
    lines.append(f"{_share(same, total)} sizes agree")
    away = (same - near_same, total - near_total)
    lines.append(f"{_share(*away)} sizes away from the crossings agree")
    return lines


def _is_near(row: Row, size: int) -> bool:
    return (row.low > 0 and size < _NEAR * row.low) or (
        row.high is not None and size * _NEAR >= row.high
    )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none of no"


def _moved(one: Sequence[Threshold], other: Sequence[Threshold]) -> Iterator[str]:
    """Yield the crossings that differ by more than both uncertainties."""
    there = {(line.op, line.dtype): line for line in other}
    for line in one:
        second = there.get((line.op, line.dtype))
        if second is None:
            continue
        for word, a, b in (("host", line.host, second.host),
                           ("resident", line.resident, second.resident)):  # fmt: skip
            if a is None or b is None:
                continue
            error = (a.uncertainty or 0) + (b.uncertainty or 0)
            if a.found != b.found or abs(a.size - b.size) > error:
                token = token_text(line.op, line.dtype)
                yield f"{token}, crossing {word}: {crossing_text(a)} -> {crossing_text(b)}"


def explanation_lines(profile: Profile, ledger: Ledger | None, token: str, size: int) -> list[str]:
    """Return why an op goes where at a size: its row, and the samples behind it.

    Args:
        profile: the profile.
        ledger: its samples; None where there is no file of them.
        token: `op` (which stands for f32) or `op[dtype]`.
        size: the row's size.

    Raises:
        ArgumentError: the profile has no row for it.
    """
    op, _, rest = token.partition("[")
    dtype = rest.rstrip("]") or "f32"
    row = profile.lookup(op, dtype, size)
    if row is None:
        raise ArgumentError(
            f"--explain: {profile.path} has no row for {op}; DEFAULT.soft decides it"
        )
    decided = f"{token_text(row.op, row.dtype)} | {range_text(row.low, row.high)}"
    lines = [f"{op}[{dtype}] of size {size} runs on {row.backend_id}"]
    lines.append(f"decided by {profile.label(row)}: {decided} = {row.backend_id}")
    if row.comment:
        lines.append(f"it says: {row.comment}")
    for line in profile.thresholds:
        if (line.op, line.dtype) == (op, dtype):
            lines.append(
                f"the GPU is faster from: {crossing_text(line.host) or 'unknown'} with the data "
                f"on the host, {crossing_text(line.resident) or 'unknown'} resident"
            )
    cells = ledger.at(op, dtype) if ledger is not None else []
    near = sorted(cells, key=lambda cell: abs(math.log(cell[0] / size)))[:3]
    for measured, outcomes in sorted(near):
        lines.append(f"at size {measured} [us]:")
        lines += [f"  {name}: {_outcome_text(outcome)}" for name, outcome in outcomes.items()]
    if not cells:
        lines.append("there are no samples of it")
    return lines


def _outcome_text(outcome: Outcome) -> str:
    if outcome.state is not State.MEASURED:
        return f"{outcome.state.value}: {outcome.reason}"
    samples = ", ".join(f"{time:g}" for time in sorted(outcome.samples))
    host = outcome.host_us
    beside = f"; with the data on the host {host:.4g}" if outcome.host and host else ""
    return f"{outcome.microseconds:g} of {samples or 'no samples'}{beside}"


class RowCheck(NamedTuple):
    """A row, measured again at a size: whether it holds, and what was found."""

    holds: bool
    text: str


def checked_rows(
    profile: Profile, bench: CellBench, report: Callable[[Cell], None]
) -> list[RowCheck]:
    """Measure a sample of the rows again and return which hold.

    A row holds while its backend takes at most 1.23 times what the fastest one does.

    Args:
        profile: one of this machine.
        bench: what measures.
        report: is told each cell before it is measured.
    """
    found = []
    for row in _sample(profile):
        size = _inside(row)
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


def _sample(profile: Profile) -> list[Row]:
    """Return measured rows at equal distances, the important ops first."""
    rank = {op: place for place, op in enumerate(BY_IMPORTANCE)}
    rows = [r for r in profile.rows if r.dtype in REAL_DTYPES and r.comment.startswith("us at")]
    rows.sort(key=lambda r: (rank[r.op], r.dtype or "", r.low))
    step = max(len(rows) / _ROWS_CHECKED, 1.0)
    return [rows[int(k * step)] for k in range(min(_ROWS_CHECKED, len(rows)))]


def _inside(row: Row) -> int:
    """Return a power of two in the middle of a row, by logarithm; its low end where none is."""
    top = _POWERS[OPS[row.op].kind is Kind.CONTRACTION] - 3
    low = max(row.low, 1)
    high = min(row.high or 1 << top, 1 << top)
    middle = 1 << max(round(math.log2(math.sqrt(low * max(high, low)))), 0)
    return middle if row.low <= middle and (row.high is None or middle < row.high) else low
