"""What stands in front of a contraction and may be computed in its loads.

Elementwise lines that make one operand of the contraction, and nothing else, of one value: unary
functions, casts, and ops with numbers of one element. Views may lie between them and the
contraction, as a view of a chain's value is that chain on the same view of what it reads. Whether
the loads are the better place is the backend's answer (`makes`).

Lines are left to the units in front of them where these hold them as well: behind an anchor that
takes epilogues, and behind an elementwise line, whose launch there is anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from softcuda.backends.steps import Verdict
from softcuda.compiler.layout import Layout, seen_through, viewed_lines
from softcuda.compiler.neighbours import Neighbours
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.shapes import numel

__all__ = ["Before", "Readers", "made_operands"]


class Before(NamedTuple):
    """Lines that make an operand of a contraction.

    Attributes:
        lines: in order; the last one is the operand, or what it is a view of.
        verdict: whether the contraction's kernel computes them as it loads the operand, and why;
            of the last one alone where the backend runs no such op.
    """

    lines: tuple[int, ...]
    verdict: Verdict


class Readers(NamedTuple):
    """What is known of the lines of a graph.

    Attributes:
        lines: of the graph.
        users: of every line the lines that read it, once a read.
        roots: lines that must be computed.
        follows: of every line whether an anchor may take it as its epilogue.
        layouts: () -> how every value lies.
    """

    lines: Sequence[Line]
    users: Sequence[Sequence[int]]
    roots: frozenset[int]
    follows: Sequence[bool]
    layouts: Callable[[], Sequence[Layout]]

    def is_alone(self, number: int) -> bool:
        """Return whether one read of a line is all that it is computed for."""
        return len(self.users[number]) == 1 and number not in self.roots


def made_operands(known: Readers, anchor: int, rules: Neighbours) -> Iterator[Before]:
    """Yield the lines that make an operand of a contraction, where there are such.

    Args:
        known: the graph.
        anchor: the contraction.
        rules: what backends declare.
    """
    if not rules.has_made_operands(anchor):
        return
    for number in range(len(known.lines[anchor].inputs)):
        found = _made_operand(known, anchor, number, rules)
        if found is not None:
            yield found


def _made_operand(known: Readers, anchor: int, number: int, rules: Neighbours) -> Before | None:
    """Return the lines that make operand `number`; None where it is no chain of its own."""
    lines = known.lines
    product = lines[anchor]
    last, views = viewed_lines(lines, product.inputs[number])
    if not all(map(known.is_alone, (last, *views))):
        return None
    if lines[last].op.kind is Kind.ELEMENTWISE and not (refused := rules.absorbs(last, anchor)):
        return Before((last,), refused) if refused.reason else None
    chain, reads = _lines_before(known, last, lambda line: bool(rules.absorbs(line, anchor)))
    whole = [source for source in reads if lines[source].dims == lines[last].dims]
    rest = [source for source in reads if source not in whole]
    if not chain or len(whole) != 1 or any(numel(lines[source].dims) != 1 for source in rest):
        return None
    (value,) = whole
    is_computed = lines[value].op.kind is Kind.ELEMENTWISE and not known.follows[value]
    if is_computed or numel(lines[last].dims) == 1:
        return None
    if views and seen_through(views, lines[value], known.layouts()[value], lines) is None:
        return None
    verdict = rules.makes(chain, (value, *rest), anchor, number)
    return Before(tuple(chain), verdict)


def _lines_before(
    known: Readers, last: int, joins: Callable[[int], bool]
) -> tuple[list[int], list[int]]:
    """Return the elementwise lines that only a line is made of, itself included, and their reads.

    Args:
        known: the graph.
        last: the line.
        joins: whether an elementwise line may be among them.

    Returns:
        The lines in order; none where the line itself may not be. Other lines that they read.
    """
    dims = known.lines[last].dims
    chain: set[int] = set()
    reads: dict[int, None] = {}
    waiting = [last]
    while waiting:  # the highest number first: then all users of a line have been seen
        waiting.sort()
        number = waiting.pop()
        if number in chain or number in reads:
            continue
        line = known.lines[number]
        is_inside = (
            line.op.kind is Kind.ELEMENTWISE
            and line.dims == dims
            and not known.follows[number]
            and number not in known.roots
            and (number == last or chain.issuperset(known.users[number]))
            and joins(number)
        )
        if not is_inside:
            reads[number] = None
            continue
        chain.add(number)
        waiting.extend(line.inputs)
    return sorted(chain), list(reads)
