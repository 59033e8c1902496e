"""Labels as the user gives them, read and checked before any rank is known.

Two forms: an expression such as "ij,jk->ik" or "...ij,...jk", and lists of labels, one list an
operand. Both become `Subscripts`; a missing output is filled in by the implicit rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from softcuda.contraction.marks import ELLIPSIS, Span, is_label, listed, marked, spell
from softcuda.errors import ArgumentTypeError, ExpressionError

__all__ = ["Subscripts", "parse_expression", "parse_labels"]


@dataclass(frozen=True, slots=True)
class Subscripts:
    """Labels of an operation by name, an ellipsis still standing for any number of axes.

    Attributes:
        inputs: names of the labels of each operand, at most one "..." each.
        output: names of the labels of the result, distinct, each in an input.
        text: the expression, as the user wrote it.
        spans: (start, stop) of each operand in the text.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    text: str
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return spell(self.inputs, self.output).text


class _Token(NamedTuple):
    """A letter, "...", "," or "->", and where it stands."""

    text: str
    span: Span


@lru_cache(maxsize=256)
def parse_expression(text: str) -> Subscripts:
    """Return the labels of an einsum expression.

    White space is ignored. A label is a letter of any script. Without an arrow the output has
    the ellipsis axes, then the labels that occur once, by code point.

    Raises:
        ArgumentTypeError: it is no string.
        ExpressionError: a character that is neither letter, comma, arrow nor ellipsis; a second
            arrow, a second ellipsis in an operand, an output label that is repeated or unknown.

    Example:
        >>> parse_expression("ik, kj").output
        ('i', 'j')
        >>> str(parse_expression("k...i, k..."))
        'k...i,k...->...i'
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"the expression is a {type(text).__name__}; allowed is a string such as 'ij,jk->ik'"
        )
    terms: list[list[_Token]] = [[]]
    commas: list[Span] = []
    arrow: Span | None = None
    for token in _tokens(text):
        if token.text == "->":
            if arrow is not None:
                raise _wrong("a second arrow; allowed is one, before the output", text, token.span)
            arrow = token.span
            terms.append([])
        elif token.text == ",":
            if arrow is not None:
                raise _wrong("a comma after the arrow; the output is one", text, token.span)
            commas.append(token.span)
            terms.append([])
        else:
            terms[-1].append(token)
    output = None if arrow is None else terms.pop()
    ends = [*commas, arrow or (len(text), len(text))]
    spans = tuple(
        (term[0].span[0], term[-1].span[1]) if term else (end[0], end[0])
        for term, end in zip(terms, ends, strict=True)
    )
    names = {t.text: t.text for term in terms for t in term}
    return _checked(terms, output, names, text, spans)


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of an expression without its white space."""
    places = [place for place, char in enumerate(text) if not char.isspace()]
    dense = "".join(text[place] for place in places)
    tokens, at = [], 0
    while at < len(dense):
        char = dense[at]
        length = next((len(word) for word in (ELLIPSIS, "->") if dense.startswith(word, at)), 1)
        if length == 1 and char != "," and not is_label(char):
            what = {
                ".": "a lone dot; an ellipsis has three",
                "-": "a '-' without '>'; an arrow is '->'",
                ">": "a '>' without '-'; an arrow is '->'",
            }.get(char, f"{char!r}, which is no letter")
            allowed = (
                "allowed are letters of any script, ',', '->' and '...'; other labels go in lists, "
                "one behind each operand"
            )
            raise _wrong(f"{what}; {allowed}", text, (places[at], places[at] + 1))
        span = (places[at], places[at + length - 1] + 1)
        tokens.append(_Token(dense[at : at + length], span))
        at += length
    return tokens


def parse_labels(
    inputs: Sequence[Iterable[Hashable]], output: Iterable[Hashable] | None
) -> Subscripts:
    """Return the labels that are given as lists, one an operand.

    Args:
        inputs: labels of each operand: ints or any hashable objects; `...` for an ellipsis.
        output: labels of the result; None: the ellipsis axes, then the labels that occur once,
            sorted as the objects they are.

    Raises:
        ArgumentTypeError: a list of labels is none, or holds something unhashable.
        ExpressionError: a second ellipsis in an operand, an output label that is repeated or
            unknown, a missing output whose labels have no order.

    Example:
        >>> parse_labels([[26, 25]], None).output
        ('25', '26')
    """
    lists = [_as_labels(f"operand {n}", given) for n, given in enumerate(inputs)]
    out = None if output is None else _as_labels("the output", output)
    keys = list(dict.fromkeys(key for given in (*lists, out or ()) for key in given))
    is_unique = len({str(key) for key in keys}) == len(keys)
    names = {key: str(key) if is_unique else repr(key) for key in keys}
    names |= {key: ELLIPSIS for key in keys if key is ...}
    spelling = spell(
        [[names[key] for key in given] for given in lists],
        None if out is None else [names[key] for key in out],
    )
    terms = [
        [_Token(names[key], span) for key, span in zip(given, spans, strict=True)]
        for given, spans in zip(lists, spelling.labels, strict=False)
    ]
    last = (
        None
        if out is None
        else [_Token(names[key], span) for key, span in zip(out, spelling.labels[-1], strict=True)]
    )
    by_name = {name: key for key, name in names.items()}
    return _checked(terms, last, by_name, spelling.text, spelling.operands)


def _as_labels(who: str, given: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return labels as a tuple of hashable objects."""
    try:
        if isinstance(given, (Set, Mapping)):
            raise TypeError  # which has no order
        labels = tuple(given)
        hash(labels)
    except TypeError:
        raise ArgumentTypeError(
            f"the labels of {who} are {given!r}; allowed is a list of ints or other hashable "
            "labels, such as [0, 1]"
        ) from None
    return labels


def _checked(
    terms: list[list[_Token]],
    output: list[_Token] | None,
    keys: dict[str, Any],
    text: str,
    spans: tuple[Span, ...],
) -> Subscripts:
    """Return the subscripts of terms, after the checks that both forms share.

    Args:
        terms: tokens of each operand.
        output: tokens of the output; None for the implicit one.
        keys: what the names of labels are sorted by.
        text: the expression.
        spans: where each operand stands in it.
    """
    for number, term in enumerate(terms):
        _check_ellipsis(f"operand {number}", term, text)
    known = list(dict.fromkeys(token.text for term in terms for token in term))
    if output is None:
        names = _implicit(terms, keys, text)
    else:
        _check_ellipsis("the output", output, text)
        _check_output(output, known, text)
        names = tuple(token.text for token in output)
    return Subscripts(tuple(tuple(t.text for t in term) for term in terms), names, text, spans)


def _check_ellipsis(who: str, term: list[_Token], text: str) -> None:
    dots = [token for token in term if token.text == ELLIPSIS]
    if len(dots) > 1:
        raise _wrong(f"a second ellipsis in {who}; allowed is one", text, dots[1].span)


def _check_output(output: list[_Token], known: list[str], text: str) -> None:
    seen = set()
    for token in output:
        if token.text in seen:
            raise _wrong(
                f"output label {token.text} is repeated; output labels must be unique",
                text,
                token.span,
            )
        seen.add(token.text)
        if token.text not in known and token.text != ELLIPSIS:
            allowed = listed([name for name in known if name != ELLIPSIS])
            raise _wrong(
                f"output label {token.text} is in no input; allowed are the labels of the "
                f"inputs: {allowed}",
                text,
                token.span,
            )


def _implicit(terms: list[list[_Token]], keys: dict[str, Any], text: str) -> tuple[str, ...]:
    """Return the output of an expression without an arrow."""
    counts = Counter(token.text for term in terms for token in term)
    once = [keys[name] for name, count in counts.items() if count == 1 and name != ELLIPSIS]
    try:
        once.sort()
    except TypeError:
        raise _wrong(
            f"the labels {listed([repr(key) for key in once])} have no common order, so the "
            "output must be given",
            text,
            (0, len(text)),
        ) from None
    by_key = {key: name for name, key in keys.items()}
    return (*((ELLIPSIS,) if ELLIPSIS in counts else ()), *(by_key[key] for key in once))


def _wrong(what: str, text: str, span: Span) -> ExpressionError:
    return ExpressionError(marked(f"expression error: {what}", text, span))
