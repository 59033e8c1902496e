"""The pass `fuse`: neighbours whose backends declare it become one unit.

A unit is a chain of elementwise lines, or an anchor (a reduction, a contraction) with elementwise
lines before it, which have the extents of what it reads, and behind it, which have those of its
result. Units grow backward from their last line: a line joins the unit of its users when all of
them are in that one unit and read it as it lies. Such a unit has one result and can have no cycle
with another: whatever else its lines read was there before its last line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from softcuda.backends import backends
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.compiler.layout import Layout, layout_of, operand_at
from softcuda.compiler.program import Choice, Groups
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind
from softcuda.target import Target

__all__ = ["MAX_CHAIN", "MAX_OPERANDS", "fuse", "fused_lines"]

MAX_CHAIN = 256  # ops in one unit
MAX_OPERANDS = 64  # reads from outside in one unit

_WORKLESS = (Kind.LEAF, Kind.VIEW)


def fuse(graph: Graph, choices: Sequence[Choice], target: Target) -> Groups:
    """Return the units of the graph, in the order of their last lines."""
    grown = _Growing(graph, choices, target).grow()
    layouts = _layouts(graph)
    units = tuple([_unit(graph, layouts, group.ordered()) for group in grown])
    return Groups(units, tuple([choices[group.runner].backend_id for group in grown]))


def fused_lines(
    graph: Graph, choices: Sequence[Choice], target: Target
) -> list[tuple[list[int], str]]:
    """Return the lines of each unit that `fuse` makes, and the backend that runs it."""
    grown = _Growing(graph, choices, target).grow()
    return [(group.ordered(), choices[group.runner].backend_id) for group in grown]


@dataclass(slots=True)
class _Group:
    """A unit that grows backward.

    `runner` is the line whose backend runs it: the anchor, else the last line. `before` and
    `after` are the elementwise lines before and behind the anchor, the latest first.
    """

    runner: int
    anchor: int | None
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    reads: int = 0

    def ordered(self) -> list[int]:
        """Return the lines in the order in which they are computed."""
        middle = [] if self.anchor is None else [self.anchor]
        return [*reversed(self.before), *middle, *reversed(self.after)]

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after) + (self.anchor is not None)


class _Growing:
    """One backward walk over the lines."""

    def __init__(self, graph: Graph, choices: Sequence[Choice], target: Target) -> None:
        self._lines = graph.lines
        self._choices = choices
        self._target = target
        self._known: Mapping[str, Any] = backends()
        self._users = graph.users()
        self._roots = frozenset(graph.roots)
        self._group: list[_Group | None] = [None] * len(graph.lines)
        self._is_before: list[bool] = [False] * len(graph.lines)

    def grow(self) -> list[_Group]:
        """Return the groups in the order of their last lines."""
        groups: list[_Group] = []
        for number in range(len(self._lines) - 1, -1, -1):
            kind = self._lines[number].op.kind
            if kind in _WORKLESS:
                continue
            group = self._of_users(number)
            if group is None or not self._join(number, group):
                is_chain = kind is Kind.ELEMENTWISE
                group = _Group(number, None if is_chain else number)
                if is_chain:
                    group.after.append(number)
                groups.append(group)
            group.reads += len(self._lines[number].inputs)
            self._group[number] = group
        groups.reverse()
        return groups

    def _of_users(self, number: int) -> _Group | None:
        """Return the one group that all users of a line are in, where it may join it."""
        users = self._users[number]
        if not users or number in self._roots:
            return None
        group = self._group[users[0]]
        if group is None or group.size >= MAX_CHAIN:
            return None
        if any(self._group[user] is not group for user in users):
            return None
        after = group.reads + len(self._lines[number].inputs) - len(users)
        return group if after <= MAX_OPERANDS else None

    def _join(self, number: int, group: _Group) -> bool:
        """Put a line into the group of its users; False where it has no place there."""
        line, users = self._lines[number], self._users[number]
        if line.op.kind is not Kind.ELEMENTWISE:
            if not self._anchors(number, group):
                return False
            group.anchor = group.runner = number
        else:
            sides = {self._is_before[user] or user == group.anchor for user in users}
            if len(sides) != 1 or not self._fits(number, group, is_before := sides.pop()):
                return False
            (group.before if is_before else group.after).append(number)
            self._is_before[number] = is_before
        group.reads -= len(users)
        return True

    def _fits(self, number: int, group: _Group, is_before: bool) -> bool:
        """Return whether an elementwise line has the extents needed there and a backend for it."""
        line = self._lines[number]
        if is_before:
            anchor = self._lines[group.runner]
            if anchor.op.kind is not Kind.REDUCTION:
                return False
            like = self._lines[anchor.inputs[0]]
        else:
            like = self._lines[group.after[0]]
        return line.dims == like.dims and self._absorbs(number, group.runner)

    def _anchors(self, number: int, group: _Group) -> bool:
        """Return whether a line can be the anchor in front of a chain of elementwise lines."""
        line = self._lines[number]
        runner = self._known.get(self._choices[number].backend_id)
        return (
            group.anchor is None
            and line.op.kind in getattr(runner, "EPILOGUES", ())
            and line.dims == self._lines[group.after[0]].dims
            and all(self._absorbs(member, number) for member in group.after)
        )

    def _absorbs(self, number: int, last: int) -> bool:
        """Return whether both backends declare fusion and the one of line `last` runs the op."""
        own_id, last_id = self._choices[number].backend_id, self._choices[last].backend_id
        own, runner = self._known[own_id], self._known[last_id]
        line = self._lines[number]
        if line.op.kind not in own.FUSES or self._lines[last].op.kind not in runner.FUSES:
            return False
        if own_id == last_id:
            return True
        operands = [self._lines[source] for source in line.inputs]
        asked = getattr(runner, "absorbs", runner.supports)
        return own.DEVICE == runner.DEVICE and bool(asked(line, operands, self._target))


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
