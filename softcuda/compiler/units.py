"""Units as backends are asked to prepare them: lines with their operands as they lie."""

from __future__ import annotations

from collections.abc import Sequence

from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.compiler.layout import Layout, next_layout, operand_at, seen_through, viewed_lines
from softcuda.graph.lines import Graph, Line
from softcuda.graph.op import Kind

__all__ = ["graph_layouts", "unit_of"]


def graph_layouts(graph: Graph) -> list[Layout]:
    """Return how the value of every line lies.

    Raises:
        AssertionError: a view needs a copy that simplify did not place.
    """
    layouts: list[Layout] = []
    for _ in graph.lines:
        layouts.append(next_layout(layouts, graph.lines))
    return layouts


def unit_of(
    graph: Graph, layouts: Sequence[Layout], members: Sequence[int], kept: Sequence[int]
) -> Unit:
    """Return the unit of some lines.

    Lines in front of a contraction that it reads through views are computed on the same views of
    what they read.

    Args:
        graph: the lines.
        layouts: of them all.
        members: the lines of the unit in the order in which they are computed.
        kept: those whose values it writes beside its result.
    """
    lines = graph.lines
    seen = _views_behind(lines, members)
    inside: dict[int, int] = {}
    operands: dict[Operand, int] = {}
    chain: list[Micro] = []
    for position, number in enumerate(members):
        line = lines[number]
        views = seen.get(number, ())
        dims = lines[views[-1]].dims if views else line.dims
        sources: list[int] = []
        for source in line.inputs:
            own = viewed_lines(lines, source)[0] if line.op.kind is Kind.CONTRACTION else source
            if own in inside:
                sources.append(~inside[own])
                continue
            layout = layouts[source]
            operand = operand_at(lines[source], layout)
            if views and lines[source].dims == line.dims:
                layout = seen_through(views, lines[source], layout, lines) or layout
                operand = Operand(layout.base, layout.offset, dims, layout.strides, operand.dtype)
            sources.append(operands.setdefault(operand, len(operands)))
        chain.append(Micro(line.op, tuple(sources), dims, line.dtype, line.params))
        inside[number] = position
    last = members[-1]
    result = operand_at(lines[last], layouts[last])
    beside = [(inside[number], operand_at(lines[number], layouts[number])) for number in kept]
    return Unit(tuple(chain), tuple(operands), result, tuple(members), tuple(beside))


def _views_behind(lines: Sequence[Line], members: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return the views through which a contraction reads lines of its unit in front of it."""
    inside = set(members)
    found: dict[int, tuple[int, ...]] = {}
    for anchor in members:
        if lines[anchor].op.kind is not Kind.CONTRACTION:
            continue
        for source in lines[anchor].inputs:
            own, views = viewed_lines(lines, source)
            waiting = [own] if views else []
            while waiting:
                number = waiting.pop()
                if number in inside and number not in found:
                    found[number] = views
                    waiting.extend(lines[number].inputs)
    return found
