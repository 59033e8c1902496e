"""What soft_init shows: progress as a bar or as lines, and the table of medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TextIO

from softcuda.profile.check import token_text
from softcuda.profile.model import Crossing, Threshold
from softcuda.tools.cells import Ledger, Outcome, Scope, State
from softcuda.tools.spread import quantile_of
from softcuda.tools.sweep import Moment

__all__ = ["crossing_text", "medians_table", "progress", "thresholds_table"]

Report = Callable[[Moment], None]

_LINE_EVERY_S: Final = 5.0
_MOST_ROWS: Final = 60  # of a table that is printed unasked
_BLANK: Final = {State.REFUSED: "-", State.SKIPPED: "slow", State.WRONG: "wrong"}


def progress(stream: TextIO, *, quiet: bool) -> AbstractContextManager[Report]:
    """Return a context that gives what to tell how far a sweep is.

    A bar with the time left on a terminal, a line every few seconds elsewhere, nothing where
    `quiet`.
    """
    if quiet:
        return _silent()
    return _bar(stream) if stream.isatty() else _lines(stream)


@contextmanager
def _silent() -> Iterator[Report]:
    yield lambda moment: None


@contextmanager
def _lines(stream: TextIO) -> Iterator[Report]:
    last = float("-inf")

    def report(moment: Moment) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _LINE_EVERY_S:
            return
        last = now
        print(
            f"measured {moment.done} of {moment.total}, {_left(moment)} left, "
            f"{'again' if moment.again else 'now'} {_label(moment)}",
            file=stream,
            flush=True,
        )

    yield report


@contextmanager
def _bar(stream: TextIO) -> Iterator[Report]:
    from rich.console import Console  # noqa: PLC0415 - loaded where a bar is drawn
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total}, {task.fields[left]} left"),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("measuring", visible=False, left="")  # until there is something to say

        def report(moment: Moment) -> None:
            bar.update(
                task,
                description=_label(moment),
                completed=moment.done,
                total=moment.total,
                left=_left(moment),
                visible=True,
            )

        yield report


def _label(moment: Moment) -> str:
    return f"{token_text(moment.cell.op, moment.cell.dtype)} {moment.cell.size}"


def _left(moment: Moment) -> str:
    minutes, seconds = divmod(round(max(moment.left_s, 0)), 60)
    return f"{minutes}:{seconds:02}"


def medians_table(
    ledger: Ledger, scopes: Sequence[Scope], backend_ids: Sequence[str], *, is_whole: bool = True
) -> str:
    """Return the medians [microseconds] of every cell as text, the fastest marked with *.

    Where it is not to be whole, one of more than 60 rows shows the largest size of each op alone.
    What was not measured says why: "-" refused, "slow" not tried, "wrong" disqualified (each with
    its reason below the table), "" not reached. Where a GPU was measured, "host" is its best time
    with the data on the host; "spread" is the distance of the fastest one's quartiles over its
    median.
    """
    on_device = any(
        outcome.device == "cuda"
        for scope in scopes
        for _, outcomes in ledger.at(scope.op, scope.dtype)
        for outcome in outcomes.values()
    )
    heading = ("op", "size", *backend_ids, *(("host",) if on_device else ()), "spread")
    rows: list[tuple[str, ...]] = []
    faults: dict[str, str] = {}
    for scope in scopes:
        token = token_text(scope.op, scope.dtype)
        for size, outcomes in ledger.at(scope.op, scope.dtype):
            best = _fastest(outcomes)
            cells = [_cell(outcomes.get(name), name == best) for name in backend_ids]
            if on_device:
                cells.append(_host(outcomes))
            cells.append(_spread(outcomes.get(best)))
            rows.append((token, str(size), *cells))
            for name, outcome in outcomes.items():
                if outcome.state is State.WRONG:
                    faults.setdefault(f"{name}, {token}, size {size}", outcome.reason)
    shown = rows if is_whole or len(rows) <= _MOST_ROWS else _last_of_each(rows)
    lines = _columns([heading, *shown])
    lines.insert(0, "medians in microseconds; * fastest, - refused, slow: too far behind to try")
    if shown is not rows:
        lines.append(f"the largest size of each op; --medians shows all {len(rows)} rows")
    lines.extend(f"disqualified: {where}: {reason}" for where, reason in faults.items())
    return "\n".join(lines)


def _last_of_each(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the last row of each op."""
    return list({row[0]: row for row in rows}.values())


def thresholds_table(thresholds: Sequence[Threshold]) -> str:
    """Return the sizes at which the GPU overtakes the CPU, as text."""
    rows = [("op", "data on the host", "data resident")]
    for each in thresholds:
        token = token_text(each.op, each.dtype)
        rows.append((token, crossing_text(each.host), crossing_text(each.resident)))
    title = (
        "sizes from which the GPU is faster; an uncertainty is how far the quartiles move it, and "
        "at\nleast half of the gap between the two sizes that it lies between"
    )
    return "\n".join([title, *_columns(rows)])


def crossing_text(crossing: Crossing | None) -> str:
    """Return a crossing as a profile writes it, "" for one that was not measured."""
    if crossing is None:
        return ""
    if not crossing.found:
        return f"none below {crossing.size}"
    error = "" if crossing.uncertainty is None else f" ± {crossing.uncertainty}"
    return f"{crossing.size}{error}"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if k == 0 else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _host(outcomes: dict[str, Outcome]) -> str:
    times = [o.host_us for o in outcomes.values() if o.device == "cuda"]
    known = [time_us for time_us in times if time_us is not None]
    return _number(min(known)) if known else ""


def _spread(outcome: Outcome | None) -> str:
    if outcome is None or not outcome.samples:
        return ""
    low, middle, high = (quantile_of(outcome.samples, share) for share in (0.25, 0.5, 0.75))
    return f"{(high - low) / middle:.0%}"


def _fastest(outcomes: dict[str, Outcome]) -> str:
    times = {n: o.microseconds for n, o in outcomes.items() if o.state is State.MEASURED}
    return min(times, key=lambda name: (times[name], name)) if times else ""


def _cell(outcome: Outcome | None, wins: bool) -> str:
    if outcome is None:
        return ""
    if outcome.state is not State.MEASURED:
        return _BLANK[outcome.state]
    return f"{_number(outcome.microseconds)}{'*' if wins else ' '}"


def _number(time_us: float) -> str:
    return f"{time_us:.0f}" if time_us >= 1000 else f"{time_us:.1f}"
