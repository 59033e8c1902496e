"""How labels are spelled as text, and how a message marks a place in that text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ELLIPSIS", "Span", "Spelling", "ellipsis_axis", "is_label", "listed", "marked", "spell"]

ELLIPSIS = "..."

# Characters of an expression that a message shows before and after the marked place.
_BEFORE, _AFTER = 40, 40

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spelling:
    """Labels as one line of text.

    Attributes:
        text: the line.
        operands: (start, stop) of each operand in the text.
        labels: (start, stop) of each label of each operand, the output's labels last.
    """

    text: str
    operands: tuple[Span, ...]
    labels: tuple[tuple[Span, ...], ...]


def is_label(char: str) -> bool:
    """Return whether a character names a label: a letter, or a symbol among those of opt_einsum.

    opt_einsum and cotengra count their labels from U+00C0 on, the sign of multiplication included;
    arrows, dashes and quotes, which begin at U+2000, are likelier slips of the pen.

    Example:
        >>> [is_label(char) for char in ("a", "ß", chr(0xD7), "1", "#", chr(0x2192))]
        [True, True, True, False, False, False]
    """
    return char.isalpha() or ("\u00c0" <= char < "\u2000" and unicodedata.category(char)[0] == "S")


def ellipsis_axis(axis: int) -> str:
    """Return the name of an axis that an ellipsis stands for; -1 is the last.

    Example:
        >>> ellipsis_axis(-2)
        '...[-2]'
    """
    return f"{ELLIPSIS}[{axis}]"


def spell(inputs: Sequence[Sequence[str]], output: Sequence[str] | None) -> Spelling:
    """Return label names as an expression; ellipsis axes that stand together become "...".

    Letters are joined. As soon as one name is no single letter, spaces stand between all.

    Example:
        >>> spell([["i", "k"], ["k", "j"]], ["i", "j"]).text
        'ik,kj->ij'
        >>> spell([["12", "3"], ["3", "40"]], None).text
        '12 3, 3 40'
    """
    terms = [_with_ellipsis(names) for names in (*inputs, output or ())]
    is_joined = all(
        (len(text) == 1 and is_label(text)) or text == ELLIPSIS
        for term in terms
        for text, _ in term
    )
    gap, comma, arrow = ("", ",", "->") if is_joined else (" ", ", ", " -> ")
    text, operands, labels = "", [], []
    for number, term in enumerate(terms):
        if number == len(inputs):
            if output is None:
                break
            text += arrow
        elif number:
            text += comma
        start, spans = len(text), []
        for place, (name, count) in enumerate(term):
            text += gap if place else ""
            spans += [(len(text), len(text) + len(name))] * count
            text += name
        labels.append(tuple(spans))
        if number < len(inputs):
            operands.append((start, len(text)))
    return Spelling(text, tuple(operands), tuple(labels))


def _with_ellipsis(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return (name, how many labels it stands for), the last ellipsis axes in order as one."""
    last = ellipsis_axis(-1)
    if last not in names:
        return [(name, 1) for name in names]
    stop = list(names).index(last) + 1
    start = stop - 1
    while start and names[start - 1] == ellipsis_axis(start - 1 - stop):
        start -= 1
    if any(name.startswith(ELLIPSIS) for name in (*names[:start], *names[stop:])):
        return [(name, 1) for name in names]
    return [
        *((n, 1) for n in names[:start]),
        (ELLIPSIS, stop - start),
        *((n, 1) for n in names[stop:]),
    ]


def marked(message: str, text: str, span: Span) -> str:
    """Return a message, below it the text it speaks of, and carets under a place of the text.

    Args:
        message: what is wrong and what is allowed.
        text: the expression.
        span: (start, stop) of the place; an empty one gets one caret.

    Example:
        >>> print(marked("label q is in no input", "ij->iq", (5, 6)))
        label q is in no input
            ij->iq
                 ^
    """
    start, stop = span
    first, last = max(start - _BEFORE, 0), max(start, stop) + _AFTER
    shown = "".join(c if c.isprintable() else " " for c in text[first:last])
    before, inside = shown[: start - first], shown[start - first : stop - first]
    head, tail = "… " if first else "", " …" if last < len(text) else ""
    carets = " " * (len(head) + _columns(before)) + "^" * max(_columns(inside), 1)
    return f"{message}\n    {head}{shown}{tail}\n    {carets}"


def _columns(text: str) -> int:
    """Return the columns that a terminal takes for a text."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence; "none" where there are none.

    Example:
        >>> listed(["i", "j", "k"])
        'i, j and k'
    """
    if len(names) < 2:
        return names[0] if names else "none"
    return f"{', '.join(names[:-1])} and {names[-1]}"
