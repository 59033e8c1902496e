"""The pass `lower`: a composite that its backend does not run whole becomes its parts."""

from __future__ import annotations

from softcuda.compiler.program import Choice, Chosen
from softcuda.compiler.select import Selector
from softcuda.graph.composites import EXPANSIONS
from softcuda.graph.lines import Graph, GraphBuilder

__all__ = ["lower"]


def lower(graph: Graph, choices: tuple[Choice, ...], selector: Selector) -> Chosen:
    """Return the graph without expanded composites, with a decision for every part."""
    if all(choice.backend_id != "expanded" for choice in choices):
        return Chosen(graph, choices, tuple(range(len(choices))))
    builder = GraphBuilder()
    lines = builder.lines
    origin: list[int] = []
    made: list[Choice] = []
    for line, choice in zip(graph.lines, choices, strict=True):
        moved = line.over(tuple([origin[source] for source in line.inputs]))
        if choice.backend_id != "expanded":
            origin.append(builder.append(moved))
            made.append(choice)
            continue
        origin.append(EXPANSIONS[line.op.name](builder, moved))
        whole = [graph.lines[source] for source in line.inputs]
        for part in lines[len(made) :]:
            operands = [lines[source] for source in part.inputs]
            decided = selector.choose_part(part, operands, line, whole)
            note = f"part of {line.op.name} ({choice.reason}; {choice.note})"
            made.append(decided._replace(note="; ".join(filter(None, (decided.note, note)))))
    updates = [(origin[v], origin[n]) for v, n in graph.updates]
    lowered = builder.finish([origin[n] for n in graph.outputs], updates)
    return Chosen(lowered, tuple(made), tuple(origin))
