"""Units as backends are asked to prepare them: lines with their operands as they lie."""

from __future__ import annotations

from collections.abc import Sequence

from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.compiler.layout import Layout, next_layout, operand_at
from softcuda.graph.lines import Graph

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

    Args:
        graph: the lines.
        layouts: of them all.
        members: the lines of the unit in the order in which they are computed.
        kept: those whose values it writes beside its result.
    """
    lines = graph.lines
    inside: dict[int, int] = {}
    operands: dict[Operand, int] = {}
    chain: list[Micro] = []
    for position, number in enumerate(members):
        line = lines[number]
        sources: list[int] = []
        for source in line.inputs:
            if source in inside:
                sources.append(~inside[source])
                continue
            operand = operand_at(lines[source], layouts[source])
            sources.append(operands.setdefault(operand, len(operands)))
        chain.append(Micro(line.op, tuple(sources), line.dims, line.dtype, line.params))
        inside[number] = position
    last = members[-1]
    result = operand_at(lines[last], layouts[last])
    beside = [(inside[number], operand_at(lines[number], layouts[number])) for number in kept]
    return Unit(tuple(chain), tuple(operands), result, tuple(members), tuple(beside))
