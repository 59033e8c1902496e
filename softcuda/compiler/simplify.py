"""The pass `simplify`: equal lines are shared, what is exact is folded, the rest is dropped.

Afterwards every reshape is a view (a copy stands before one that needs it) and every root is a
line with a buffer of its own.
"""

from __future__ import annotations

from softcuda.compiler.constants import Constants
from softcuda.compiler.folding import fold
from softcuda.compiler.layout import Layout, layout_of
from softcuda.compiler.program import Rewrite
from softcuda.graph.lines import Graph, GraphBuilder, Line
from softcuda.graph.op import OPS, Kind

__all__ = ["simplify"]

_COPY = OPS["copy"]


def simplify(graph: Graph) -> Rewrite:
    """Return an equal graph with shared lines, folded identities and materialised roots."""
    shared, constants = _share_and_fold(graph)
    live = _drop_dead(shared.graph)
    owned = _materialise(live.graph)
    kept = list(live.origin)
    for line, equal in constants.equal_lines():
        if kept[line] < 0:
            kept[line] = live.origin[equal]
    origin = tuple([-1 if (new := kept[old]) < 0 else owned.origin[new] for old in shared.origin])
    return Rewrite(owned.graph, origin)


class _Sharing(GraphBuilder):
    """A builder that gives equal lines one number."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Line, int] = {}

    def append(self, line: Line) -> int:
        known = self._numbers.get(line)
        if known is None:
            known = super().append(line)
            self._numbers[line] = known
        return known


def _share_and_fold(graph: Graph) -> tuple[Rewrite, Constants]:
    """Return the graph with shared lines, and what is known of their values."""
    builder = _Sharing()
    constants = Constants(builder)
    origin: list[int] = []
    for line in graph.lines:
        inputs = tuple([origin[source] for source in line.inputs])
        moved = constants.reading(line.over(inputs))
        folded = fold(builder, moved)
        number = builder.append(moved) if folded is None else folded
        constants.learn(number)
        origin.append(number)
    updates = [(origin[v], origin[n]) for v, n in graph.updates]
    shared = builder.finish([origin[n] for n in graph.outputs], updates)
    return Rewrite(shared, tuple(origin)), constants


def _drop_dead(graph: Graph) -> Rewrite:
    """Keep what the roots depend on, and every leaf but numbers."""
    lines = graph.lines
    live = bytearray(len(lines))
    for root in graph.roots:
        live[root] = 1
    for number in range(len(lines) - 1, -1, -1):
        if live[number]:
            for source in lines[number].inputs:
                live[source] = 1
        elif lines[number].op.kind is Kind.LEAF and lines[number].op.name != "constant":
            live[number] = 1
    builder = GraphBuilder()
    origin = [-1] * len(lines)
    for number, line in enumerate(lines):
        if live[number]:
            inputs = tuple([origin[source] for source in line.inputs])
            origin[number] = builder.append(line.over(inputs))
    updates = [(origin[v], origin[n]) for v, n in graph.updates]
    return Rewrite(builder.finish([origin[n] for n in graph.outputs], updates), tuple(origin))


def _materialise(graph: Graph) -> Rewrite:
    """Put a copy before every reshape that is no view, and behind every root that owns nothing."""
    builder = GraphBuilder()
    lines = builder.lines
    layouts: list[Layout] = []
    origin: list[int] = []

    def add(line: Line) -> int:
        layout = layout_of(len(lines), line, layouts, lines)
        if layout is None:
            copied = add(_copy_of(line.inputs[0], lines))
            return add(line.over((copied,)))
        layouts.append(layout)
        return builder.append(line)

    for line in graph.lines:
        inputs = tuple([origin[source] for source in line.inputs])
        origin.append(add(line.over(inputs)))
    owned: dict[int, int] = {}

    def own(root: int) -> int:
        number = origin[root]
        if lines[number].op.kind not in (Kind.LEAF, Kind.VIEW):
            return number
        if number not in owned:
            owned[number] = add(_copy_of(number, lines))
        return owned[number]

    outputs = [own(root) for root in graph.outputs]
    updates = [(origin[v], own(n)) for v, n in graph.updates]
    return Rewrite(builder.finish(outputs, updates), tuple(origin))


def _copy_of(number: int, lines: list[Line]) -> Line:
    source = lines[number]
    return Line(_COPY, (number,), source.dims, source.dtype, ())
