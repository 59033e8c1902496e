"""The pass `fuse`: neighbours whose backends declare it become one unit.

Units grow backward from their last line: a line joins the unit of its users when all of them are
in that one unit and read it as it lies. Such a unit has one result and can have no cycle with
another: whatever else its lines read was there before its last line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softcuda.backends import backends
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.compiler.layout import Layout, layout_of, operand_at
from softcuda.compiler.program import Choice, Groups
from softcuda.graph.lines import Graph, Line
from softcuda.graph.op import Kind
from softcuda.graph.params import Dims
from softcuda.target import Target

__all__ = ["MAX_CHAIN", "MAX_OPERANDS", "fuse"]

MAX_CHAIN = 256  # ops in one unit
MAX_OPERANDS = 64  # reads from outside in one unit

_WORKLESS = (Kind.LEAF, Kind.VIEW)


def fuse(graph: Graph, choices: Sequence[Choice], target: Target) -> Groups:
    """Return the units of the graph, in the order of their last lines."""
    anchors = _anchors(graph, choices, target)
    members: dict[int, list[int]] = {}
    for number, anchor in enumerate(anchors):
        if anchor >= 0:
            members.setdefault(anchor, []).append(number)
    layouts = _layouts(graph)
    ordered = sorted(members)
    units = tuple([_unit(graph, layouts, members[anchor]) for anchor in ordered])
    return Groups(units, tuple([choices[anchor].backend_id for anchor in ordered]))


def _anchors(graph: Graph, choices: Sequence[Choice], target: Target) -> list[int]:
    """Return for each line the last line of its unit; -1 for leaves and views."""
    lines = graph.lines
    known = backends()
    users = graph.users()
    roots = set(graph.roots)
    anchors = [-1] * len(lines)
    sizes: dict[int, int] = {}
    reads: dict[int, int] = {}
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.op.kind in _WORKLESS:
            continue
        anchors[number] = number
        outside = len(line.inputs)
        if line.op.kind is Kind.ELEMENTWISE and users[number] and number not in roots:
            group = {anchors[user] for user in users[number]}
            anchor = group.pop()
            joins = (
                not group
                and anchor >= 0
                and sizes[anchor] < MAX_CHAIN
                and reads[anchor] + outside <= MAX_OPERANDS
                and line.dims == _iterated(lines, anchor)
                and _fusible(lines, choices, known, number, anchor, target)
            )
            if joins:
                anchors[number] = anchor
                sizes[anchor] += 1
                reads[anchor] += outside - len(users[number])
                continue
        sizes[number] = 1
        reads[number] = outside
    return anchors


def _iterated(lines: Sequence[Line], anchor: int) -> Dims | None:
    """Return the extents that a unit's elementwise lines must have."""
    line = lines[anchor]
    if line.op.kind is Kind.ELEMENTWISE:
        return line.dims
    return lines[line.inputs[0]].dims if line.op.kind is Kind.REDUCTION else None


def _fusible(
    lines: Sequence[Line],
    choices: Sequence[Choice],
    known: Mapping[str, Any],
    number: int,
    anchor: int,
    target: Target,
) -> bool:
    """Return whether both backends declare it and the anchor's runs the line's op."""
    own, last = choices[number].backend_id, choices[anchor].backend_id
    runner = known[last]
    if lines[number].op.kind not in known[own].FUSES or lines[anchor].op.kind not in runner.FUSES:
        return False
    if own == last:
        return True
    line = lines[number]
    operands = [lines[source] for source in line.inputs]
    return known[own].DEVICE == runner.DEVICE and bool(runner.supports(line, operands, target))


def _layouts(graph: Graph) -> list[Layout]:
    lines = list(graph.lines)
    layouts: list[Layout] = []
    for number, line in enumerate(lines):
        found = layout_of(number, line, layouts, lines)
        if found is None:
            raise AssertionError(f"line %{number} needs a copy; simplify places it")
        layouts.append(found)
    return layouts


def _unit(graph: Graph, layouts: Sequence[Layout], members: Sequence[int]) -> Unit:
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
    return Unit(tuple(chain), tuple(operands), result, tuple(members))
