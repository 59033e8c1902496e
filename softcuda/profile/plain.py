"""Sections as soft_init writes them, read whole: one expression checks all lines of a section.

Whatever is not as it should be, or written in another way, is left to the line grammar, which tells
what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from softcuda.dtype import DTYPES
from softcuda.profile.cost_lines import CostLines, plain_costs
from softcuda.profile.records import Crossing, Row, Threshold

__all__ = ["PlainSections", "plain_sections"]

_PLAIN: Final = ("ops", "thresholds", "costs")
_LONGEST: Final = 20  # characters of a section's name, with room
_COMMENTS: Final = re.compile(r"(?:#[ -~]*\n)*")
_TOKEN: Final = r"^(\w+)(?:\[(\w+)\])? *"
_BOUND: Final = r"([0-9]{1,18})"
_ROW: Final = re.compile(
    rf"{_TOKEN}\| (?:any|size < {_BOUND}|{_BOUND} <= size < {_BOUND}|size >= {_BOUND}) *= "
    r"(\w+)(?: +# ([!-~](?:[ -~]*[!-~])?))?$",
    re.ASCII | re.MULTILINE,
)
_CROSSING: Final = rf"(?:none below {_BOUND}|{_BOUND} ± {_BOUND})"
_CROSSINGS: Final = re.compile(
    rf"{_TOKEN}= host {_CROSSING}, resident {_CROSSING}$", re.ASCII | re.MULTILINE
)


class PlainSections(NamedTuple):
    """What was taken from a text, and the text with those lines left blank.

    Attributes:
        rows: of [ops]; they cover every size once.
        thresholds: of [thresholds].
        costs: of [costs].
        rest: the text, with as many lines.
    """

    rows: list[Row]
    thresholds: list[Threshold]
    costs: CostLines
    rest: str


class _Span(NamedTuple):
    """The lines of a section behind its first comments: where they begin and end in a text.

    Attributes:
        first: place of the first character.
        last: place behind the last one.
        number: that of the first line.
        lines: how many lines there are.
    """

    first: int
    last: int
    number: int
    lines: int


def plain_sections(text: str, ops: Collection[str], backend_ids: Collection[str]) -> PlainSections:
    """Return the lines of [ops], [thresholds] and [costs] where all of a section are plain.

    Args:
        text: of a whole profile.
        ops: tokens that may have rows.
        backend_ids: the backends that may be named.
    """
    sections = _sections(text)
    rows = thresholds = costs = None
    if span := sections.get("ops"):
        rows = _rows(text, span, ops, backend_ids)
    if span := sections.get("thresholds"):
        thresholds = _thresholds(text, span, ops)
    if span := sections.get("costs"):
        costs = plain_costs(text[span.first : span.last], span.number, span.lines, ops)
    read = {"ops": rows, "thresholds": thresholds, "costs": costs}
    rest, place = "", 0
    for name, span in sections.items():
        if read[name]:
            rest += text[place : span.first] + "\n" * (span.lines - 1)
            place = span.last
    return PlainSections(rows or [], thresholds or [], costs or CostLines(), rest + text[place:])


def _sections(text: str) -> dict[str, _Span]:
    """Return where the lines of plain sections stand; nothing where one is there twice."""
    found: dict[str, _Span] = {}
    number, counted = 1, 0
    opened = text.find("\n[")
    while opened >= 0:
        following = text.find("\n[", opened + 1)
        name = text[opened + 2 : opened + _LONGEST].partition("]\n")[0]
        if name in found:
            return {}
        head = _COMMENTS.match(text, opened + len(name) + 4) if name in _PLAIN else None
        if head is not None:
            first, last = head.end(), len(text) if following < 0 else following
            while last > first and text[last - 1] == "\n":
                last -= 1
            number, counted = number + text.count("\n", counted, first), first
            if last > first:
                found[name] = _Span(first, last, number, text.count("\n", first, last) + 1)
        opened = following
    return found


def _rows(
    text: str, span: _Span, ops: Collection[str], backend_ids: Collection[str]
) -> list[Row] | None:
    """Return the rows, None unless each op's stand together and tile every size in their order."""
    found = _ROW.findall(text, span.first, span.last)
    if len(found) != span.lines:
        return None
    rows: list[Row] = []
    ended: set[tuple[str, str]] = set()
    open_token, reached = ("", ""), ""  # the op whose rows go on, and up to where
    for number, parts in enumerate(found, start=span.number):
        op, dtype, below, first, last, start, backend_id, comment = parts
        if (op, dtype) != open_token:
            known = op in ops and (not dtype or dtype in DTYPES)
            if reached or (op, dtype) in ended or not known:
                return None
            open_token, reached = (op, dtype), "0"
            ended.add(open_token)
        low, high = first or start or "0", below or last
        if low != reached or backend_id not in backend_ids:
            return None
        reached = high
        begin, end = int(low), int(high) if high else None
        if end is not None and end <= begin:
            return None
        rows.append(Row(op, dtype or None, begin, end, backend_id, number, comment))
    return None if reached else rows


def _thresholds(text: str, span: _Span, ops: Collection[str]) -> list[Threshold] | None:
    """Return the thresholds, None unless all are plain and no op has two."""
    found = _CROSSINGS.findall(text, span.first, span.last)
    if len(found) != span.lines or len({parts[:2] for parts in found}) != len(found):
        return None
    made = []
    for number, (op, dtype, *host, below, size, error) in enumerate(found, start=span.number):
        if op not in ops or (dtype and dtype not in DTYPES):
            return None
        crossings = _crossing(*host), _crossing(below, size, error)
        made.append(Threshold(op, dtype or None, *crossings, number))
    return made


def _crossing(below: str, size: str, error: str) -> Crossing:
    return Crossing(int(below), None, False) if below else Crossing(int(size), int(error))
