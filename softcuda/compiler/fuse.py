"""The pass `fuse`: neighbours whose backends declare it become one unit.

A unit is a chain of elementwise lines, or an anchor (a reduction, a contraction, a composite) with
elementwise lines before it, which have the extents of what it reads, and behind it, which have
those of its result. Units grow backward from their last line: a line joins the unit of its users
when all of them are in that one unit and read it as it lies. What stands before a contraction is
asked for at once, when the walk meets the contraction (prologues.py).

A chain of a backend that declares KEEPS also takes lines that others read too, or that are asked
for: it writes their values beside its result. All other users of such a line come after the last
line of its unit, so that units read each other only forward and never in a circle. A line that may
become part of an anchor's unit is left to that one, also in front of a composite. Such a chain
grows beyond what a kernel holds, and is cut where that costs least (split.py); so are the lines
before an anchor, by MOST_BEFORE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from softcuda.compiler.epilogues import MAX_PRODUCTS, held_behind
from softcuda.compiler.neighbours import Neighbours
from softcuda.compiler.program import Choice, Groups
from softcuda.compiler.prologues import Readers, made_operands
from softcuda.compiler.split import MAX_CHAIN, MAX_OPERANDS, cheapest_cuts
from softcuda.compiler.units import graph_layouts, unit_of
from softcuda.graph.lines import Graph, Line
from softcuda.graph.op import Kind
from softcuda.target import Target

__all__ = ["MAX_CHAIN", "MAX_OPERANDS", "fuse", "fused_lines"]

MAX_KEPT = 8  # values inside one unit that it writes
MAX_GROWN = 4  # times MAX_CHAIN and MAX_OPERANDS: what grows beyond these is cut again

_WORKLESS = (Kind.LEAF, Kind.VIEW)
_PREFACED = (Kind.REDUCTION, Kind.COMPOSITE)  # anchors with lines before them


def fuse(graph: Graph, choices: Sequence[Choice], target: Target) -> Groups:
    """Return the units of the graph, in the order of their last lines."""
    growing = _Growing(graph, choices, target)
    grown = [part for group in growing.grow() for part in growing.cut(group)]
    grown.sort(key=lambda group: group.last)
    layouts = growing.layouts()
    units = tuple([unit_of(graph, layouts, group.ordered(), group.kept[::-1]) for group in grown])
    ids = tuple([choices[group.runner].backend_id for group in grown])
    return Groups(units, ids, tuple(growing.notes))


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
    `after` are the elementwise lines before and behind the anchor, the latest first. `kept` are
    those of `after` that others read too. `products` are contractions that only the unit reads.
    """

    runner: int
    anchor: int | None
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    reads: int = 0
    products: set[int] = field(default_factory=set)

    def ordered(self) -> list[int]:
        """Return the lines in the order in which they are computed."""
        middle = [] if self.anchor is None else [self.anchor]
        return [*reversed(self.before), *middle, *reversed(self.after)]

    @property
    def last(self) -> int:
        """The line that makes the result."""
        return self.after[0] if self.after else self.runner

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after) + (self.anchor is not None)


class _Growing:
    """One backward walk over the lines."""

    def __init__(self, graph: Graph, choices: Sequence[Choice], target: Target) -> None:
        self._lines = graph.lines
        self._rules = Neighbours(graph.lines, choices, target)
        self._users = graph.users()
        self._roots = frozenset(graph.roots)
        self._group: list[_Group | None] = [None] * len(graph.lines)
        self._is_before: list[bool] = [False] * len(graph.lines)
        self._follows_anchor = self._followers()
        self.layouts = cache(lambda: graph_layouts(graph))
        self.notes: list[tuple[int, str]] = []

    def grow(self) -> list[_Group]:
        """Return the groups in the order of their last lines."""
        groups: list[_Group] = []
        for number in range(len(self._lines) - 1, -1, -1):
            kind = self._lines[number].op.kind
            if kind in _WORKLESS or self._group[number] is not None:
                continue
            group = self._of_users(number)
            if group is None or not self._join(number, group):
                is_chain = kind is Kind.ELEMENTWISE
                group = _Group(number, None if is_chain else number)
                if is_chain:
                    group.after.append(number)
                    group.products |= self._products(number)
                groups.append(group)
            group.reads += len(self._lines[number].inputs)
            self._group[number] = group
            if kind is Kind.CONTRACTION:
                self._take_before(number, group)
        groups.reverse()
        return groups

    def _take_before(self, anchor: int, group: _Group) -> None:
        """Put the lines into a contraction's group that its kernel computes in its loads."""
        known = Readers(self._lines, self._users, self._roots, self._follows_anchor, self.layouts)
        for before in made_operands(known, anchor, self._rules):
            self.notes.append((before.lines[-1], before.verdict.reason))
            if before.verdict:
                group.before = sorted((*group.before, *before.lines), reverse=True)
                for line in before.lines:
                    self._group[line], self._is_before[line] = group, True

    def _of_users(self, number: int) -> _Group | None:
        """Return the one group that a line may join: of all its users, or one that keeps it."""
        users = self._users[number]
        groups = [group for user in users if (group := self._group[user]) is not None]
        if not groups:
            return None
        group = groups[0] if len(groups) == 1 else min(groups, key=lambda found: found.last)
        inside = sum([found is group for found in groups])
        after = group.reads + len(self._lines[number].inputs) - inside
        most = MAX_GROWN if group.anchor is None and self._is_keeping(group) else 1
        if group.size >= most * MAX_CHAIN or after > most * MAX_OPERANDS:
            return None
        is_kept = inside < len(users) or number in self._roots
        return group if not is_kept or self._keeps(number, group) else None

    def _keeps(self, number: int, group: _Group) -> bool:
        """Return whether a group may write a line's value for others beside its own use of it."""
        return (
            group.anchor is None
            and len(group.kept) < MAX_KEPT
            and self._is_keeping(group)
            and self._lines[number].op.kind is Kind.ELEMENTWISE
            and not self._follows_anchor[number]
            and all(self._group[u] is group or u > group.last for u in self._users[number])
        )

    def _is_keeping(self, group: _Group) -> bool:
        """Return whether the backend that runs a group writes values inside chains."""
        return self._rules.keeps(group.runner)

    def cut(self, group: _Group) -> list[_Group]:
        """Return the parts of a group that one kernel each holds; itself where it is one."""
        if group.anchor is not None:
            is_product = self._lines[group.anchor].op.kind is Kind.CONTRACTION
            is_cut = bool(group.before) and not is_product
            return self._cut_before(group) if is_cut else self._taken_back(group)
        if not self._is_keeping(group):
            return [group]
        members = group.ordered()
        return self._chains(group, members, [*cheapest_cuts(self._lines, members), len(members)])

    def _taken_back(self, group: _Group) -> list[_Group]:
        """Return an anchor with what its kernel holds of the chain behind it, then the rest."""
        anchor, chain = group.runner, group.after[::-1]
        held = held_behind(self._lines, anchor, chain, self._rules.runner(anchor))
        if len(held) == len(chain):
            return [group]
        inside = set(held)
        rest = [number for number in group.after if number not in inside]
        parts = [_Group(anchor, anchor, group.before, list(held)[::-1])]
        if all(self._rules.absorbs(number, rest[0]) for number in rest):
            return parts + self.cut(_Group(rest[0], None, [], rest))
        return parts + [_Group(number, None, [], [number]) for number in rest[::-1]]

    def _cut_before(self, group: _Group) -> list[_Group]:
        """Return a group with an anchor, behind the chains that its kernel does not hold."""
        most = getattr(self._rules.runner(group.runner), "MOST_BEFORE", None)
        members = [*reversed(group.before), group.runner]
        ends = cheapest_cuts(self._lines, members, most) if most else []
        parts = self._chains(group, members, ends)
        if not parts or not all(map(self._runs_alone, parts)):
            return [group]
        rest = members[ends[-1] : -1]
        return [*parts, _Group(group.runner, group.anchor, rest[::-1], group.after, group.kept)]

    def _runs_alone(self, part: _Group) -> bool:
        """Return whether the backend of the last line of a part runs all of them."""
        return self._is_keeping(part) and all(
            self._rules.absorbs(n, part.runner) for n in part.after
        )

    def _chains(self, group: _Group, members: list[int], ends: Sequence[int]) -> list[_Group]:
        """Return the chains that lie between positions of `members`, the first from 0 on."""
        parts, start = [], 0
        for end in ends:
            own = members[start:end]
            inside = set(own)
            kept = [
                number
                for number in own[:-1]
                if number in group.kept or any(u not in inside for u in self._users[number])
            ]
            parts.append(_Group(own[-1], None, [], own[::-1], kept[::-1]))
            start = end
        return parts

    def _followers(self) -> list[bool]:
        """Return for each line whether an anchor may take it as its epilogue."""
        follows = [False] * len(self._lines)
        for number, line in enumerate(self._lines):
            if line.op.kind is Kind.ELEMENTWISE:
                follows[number] = any(self._leads(k, line, follows[k]) for k in line.inputs)
        return follows

    def _leads(self, number: int, user: Line, follows: bool) -> bool:
        """Return whether a line is, or follows, an anchor that may take its only user."""
        line = self._lines[number]
        leads = follows
        if line.op.kind is not Kind.ELEMENTWISE:
            leads = self._rules.takes_behind(number)
        if not leads or number in self._roots or line.dims != user.dims:
            return False
        return len(set(self._users[number])) == 1

    def _products(self, number: int) -> set[int]:
        """Return the contractions that could have a line as the chain behind them."""
        line = self._lines[number]
        return {
            source
            for source in line.inputs
            if self._lines[source].op.kind is Kind.CONTRACTION and self._leads(source, line, False)
        }

    def _join(self, number: int, group: _Group) -> bool:
        """Put a line into the group of its users; False where it has no place there."""
        line = self._lines[number]
        users = [user for user in self._users[number] if self._group[user] is group]
        if line.op.kind is not Kind.ELEMENTWISE:
            if not self._anchors(number, group):
                return False
            group.anchor = group.runner = number
        else:
            products = group.products | self._products(number)
            if len(products) > MAX_PRODUCTS:
                return False
            sides = {self._is_before[user] or user == group.anchor for user in users}
            if len(sides) != 1 or not self._fits(number, group, is_before := sides.pop()):
                return False
            (group.before if is_before else group.after).append(number)
            group.products = products
            self._is_before[number] = is_before
            if len(users) < len(self._users[number]) or number in self._roots:
                group.kept.append(number)
        group.reads -= len(users)
        return True

    def _fits(self, number: int, group: _Group, is_before: bool) -> bool:
        """Return whether an elementwise line has the extents needed there and a backend for it."""
        line = self._lines[number]
        if is_before:
            anchor = self._lines[group.runner]
            if anchor.op.kind not in _PREFACED or number in anchor.inputs[1:]:
                return False
            if anchor.op.kind is Kind.COMPOSITE and self._follows_anchor[number]:
                return False
            like = self._lines[anchor.inputs[0]]
        else:
            like = self._lines[group.after[0]]
        return line.dims == like.dims and bool(self._rules.absorbs(number, group.runner))

    def _anchors(self, number: int, group: _Group) -> bool:
        """Return whether a line can be the anchor in front of a chain of elementwise lines."""
        line = self._lines[number]
        return (
            group.anchor is None
            and not group.kept
            and group.size < MAX_CHAIN
            and group.reads <= MAX_OPERANDS
            and self._rules.takes_behind(number)
            and line.dims == self._lines[group.after[0]].dims
            and all(self._rules.absorbs(member, number) for member in group.after)
        )
