"""What stands in front of a contraction and may be computed in its loads.

Elementwise lines that make one operand of the contraction, and nothing else, of one value: unary
functions, casts, and ops with numbers of one element. Views may lie between them and the
contraction, as a view of a chain's value is that chain on the same view of what it reads. Whether
the loads are the better place is the backend's answer (`makes`).

Lines are left to the units in front of them where these hold them as well: behind an anchor that
takes epilogues, and behind an elementwise line, whose launch there is anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from softcuda.backends.steps import Verdict
from softcuda.compiler.layout import Layout, seen_through, viewed_lines
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.shapes import numel

__all__ = ["Before", "Readers", "made_operand"]

Makes = Callable[[Sequence[Line], Sequence[Line], Line, Sequence[Line], int], Verdict]


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


def made_operand(
    known: Readers, anchor: int, number: int, joins: Callable[[int], Verdict], makes: Makes
) -> Before | None:
    """Return the lines that make an operand of a contraction; None where no line is such.

    Args:
        known: the graph.
        anchor: the contraction.
        number: which operand.
        joins: whether the backend of the contraction runs an elementwise line.
        makes: `makes` of that backend, for its target.
    """
    lines = known.lines
    product = lines[anchor]
    last, views = viewed_lines(lines, product.inputs[number])
    if not all(map(known.is_alone, (last, *views))):
        return None
    if lines[last].op.kind is Kind.ELEMENTWISE and not (refused := joins(last)):
        return Before((last,), refused) if refused.reason else None
    chain, reads = _lines_before(known, last, joins)
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
    operands = [lines[source] for source in product.inputs]
    read = [lines[source] for source in (value, *rest)]
    verdict = makes([lines[k] for k in chain], read, product, operands, number)
    return Before(tuple(chain), verdict)


def _lines_before(
    known: Readers, last: int, joins: Callable[[int], Verdict]
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
            and bool(joins(number))
        )
        if not is_inside:
            reads[number] = None
            continue
        chain.add(number)
        waiting.extend(line.inputs)
    return sorted(chain), list(reads)
