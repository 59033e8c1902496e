"""Checks that need more than one line: duplicates, and rows that tile every size."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from typing import Final

from softcuda.profile.model import CostPoint, Row, Threshold
from softcuda.profile.text import Spot

__all__ = ["check_costs", "check_rows", "check_thresholds", "range_text", "token_text"]

_BY_SIZE: Final = attrgetter("low", "line")


def token_text(op: str, dtype: str | None) -> str:
    """Return the token of rows, `op` or `op[dtype]`."""
    return op if dtype is None else f"{op}[{dtype}]"


def range_text(low: int, high: int | None) -> str:
    """Return a range as a profile writes it.

    Example:
        >>> range_text(0, None), range_text(128, 512)
        ('any', '128 <= size < 512')
    """
    if low == 0:
        return "any" if high is None else f"size < {high}"
    return f"size >= {low}" if high is None else f"{low} <= size < {high}"


def check_rows(rows: Iterable[Row], path: str) -> None:
    """Check that the rows of each op, and of each op[dtype], cover 0 to infinity once.

    Raises:
        ConfigError: a gap, an overlap or a duplicate; names both lines.
    """
    grouped: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.op, row.dtype), []).append(row)
    for group in grouped.values():
        _check_group(sorted(group, key=_BY_SIZE), path)


def _check_group(ordered: list[Row], path: str) -> None:
    token = token_text(ordered[0].op, ordered[0].dtype)
    for row, following in pairwise(ordered):
        _check_pair(row, following, token, path)
    first, last = ordered[0], ordered[-1]
    for row, low, high in ((first, 0, first.low), (last, last.high, None)):
        if low == high or low is None:
            continue
        Spot(path, row.line).fail(
            f"the rows of {token} leave {range_text(low, high)} uncovered: the "
            f"{'first' if low == 0 else 'last'} is {_shown(row)}, on line {row.line}; they must "
            f"cover every size from 0 on; add a row '{token} | {range_text(low, high)} = BACKEND'"
        )


def _check_pair(row: Row, following: Row, token: str, path: str) -> None:
    early, late = sorted((row, following), key=lambda r: r.line)
    spot = Spot(path, late.line)
    if (row.low, row.high) == (following.low, following.high):
        spot.fail(
            f"duplicate: {_shown(late)} on this line {late.line}, and {_shown(early)} on line "
            f"{early.line}; allowed is one row a range of sizes; remove one of them"
        )
    if row.high is None or following.low < row.high:
        spot.fail(
            f"overlap: {_shown(late)} on this line {late.line}, and {_shown(early)} on line "
            f"{early.line}, both hold size {following.low}; allowed is one row a size, and ranges "
            "are half-open; change one of the bounds"
        )
    if following.low > row.high:
        missing = range_text(row.high, following.low)
        Spot(path, following.line).fail(
            f"the rows of {token} leave {missing} uncovered, between {_shown(row)} on line "
            f"{row.line} and {_shown(following)} on this line {following.line}; they must cover "
            f"every size from 0 on; add a row '{token} | {missing} = BACKEND'"
        )


def _shown(row: Row) -> str:
    return f"'{token_text(row.op, row.dtype)} | {range_text(row.low, row.high)}'"


def check_costs(costs: Iterable[CostPoint], path: str) -> None:
    """Check that no point of [costs] stands twice.

    Raises:
        ConfigError: one does; names both lines.
    """
    seen: dict[tuple[str, str | None, int], int] = {}
    for cost in costs:
        key = (cost.op, cost.dtype, cost.size)
        if key in seen:
            Spot(path, cost.line).fail(
                f"duplicate: the costs of {token_text(cost.op, cost.dtype)} at size {cost.size} "
                f"stand on this line {cost.line} and on line {seen[key]}; allowed is once"
            )
        seen[key] = cost.line


def check_thresholds(thresholds: Iterable[Threshold], path: str) -> None:
    """Check that no op has two lines in [thresholds].

    Raises:
        ConfigError: one has; names both lines.
    """
    seen: dict[tuple[str, str | None], int] = {}
    for threshold in thresholds:
        key = (threshold.op, threshold.dtype)
        if key in seen:
            Spot(path, threshold.line).fail(
                f"duplicate: the thresholds of {token_text(*key)} stand on this line "
                f"{threshold.line} and on line {seen[key]}; allowed is once"
            )
        seen[key] = threshold.line
