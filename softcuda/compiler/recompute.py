"""The pass `recompute`: cheap values are computed again instead of kept, where the arena shrinks.

Values that lie in the arena for a long stretch of the schedule, activations that the backward pass
reads say, are made again beside their later readers. Only elementwise lines are: the same ops on
the same operands give the same bits. What is chosen on a model of the schedule (recompute_model.py)
is compiled and planned as any graph, and taken only where its arena is smaller.

A search takes at most MOST_CUTS scans of the steps and of the candidates, O(steps + values) each;
at most MOST_TRIALS graphs are fused, scheduled and allocated. So the pass takes no more than a few
compilations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

from softcuda.compiler.allocate import MemoryPlan, allocate
from softcuda.compiler.fuse import fuse
from softcuda.compiler.pricing import Prices
from softcuda.compiler.program import Choice, Chosen
from softcuda.compiler.recompute_model import Cut, Timeline
from softcuda.compiler.sequence import schedule
from softcuda.compiler.settings import Settings
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import Kind
from softcuda.graph.shapes import numel
from softcuda.target import Target

__all__ = ["Recomputed", "recompute"]

MOST_TRIALS: Final = 4
_WORTH: Final = 1 / 32  # of the arena: another round is tried after one that gained so much

_AGAIN, _LATER = "computed again", "computed later"


class Recomputed(NamedTuple):
    """A graph in which some lines stand twice, and what the end of the printed table says."""

    chosen: Chosen
    footer: tuple[str, ...] = ()


def recompute(chosen: Chosen, settings: Settings) -> Recomputed:
    """Return the graph whose arena is smallest of those tried, itself where none is smaller.

    Nothing is tried unless `settings.recompute`.
    """
    if not settings.recompute:
        return Recomputed(chosen)
    best, memory = chosen, _planned(chosen, settings.target)
    before = _arena_bytes(memory)
    trials, gained = 0, True
    while trials < MOST_TRIALS and gained:
        cuts = [
            cut for device in memory.arenas for cut in Timeline(best.graph, memory, device).cuts()
        ]
        found = None
        while cuts and trials < MOST_TRIALS and found is None:
            trials += 1
            tried = _with_cuts(best, memory, cuts)
            planned = _planned(tried, settings.target)
            if _is_smaller(planned, memory):
                found = tried, planned
            cuts = cuts[: len(cuts) // 2]
        gained = False
        if found is not None:
            gained = _arena_bytes(found[1]) < (1 - _WORTH) * _arena_bytes(memory)
            best, memory = found
    return Recomputed(best, (_said(best, settings, before, _arena_bytes(memory)),))


def _planned(chosen: Chosen, target: Target) -> MemoryPlan:
    groups = fuse(chosen.graph, chosen.choices, target)
    return allocate(chosen, schedule(chosen, groups, target))


def _arena_bytes(memory: MemoryPlan) -> int:
    return sum(size.nbytes for size in memory.arenas.values())


def _is_smaller(found: MemoryPlan, than: MemoryPlan) -> bool:
    """Return whether the arenas are smaller together, and none of them larger."""
    grows = any(
        device not in than.arenas or size.nbytes > than.arenas[device].nbytes
        for device, size in found.arenas.items()
    )
    return not grows and _arena_bytes(found) < _arena_bytes(than)


def _said(chosen: Chosen, settings: Settings, before: int, after: int) -> str:
    """Return the line about the pass that ends a printed table."""
    again = [k for k, choice in enumerate(chosen.choices) if choice.note.startswith(_AGAIN)]
    later = sum(choice.note.startswith(_LATER) for choice in chosen.choices)
    if not again and not later:
        return f"recompute: arena {before} bytes, nothing that is computed again makes it smaller"
    lines, prices = chosen.graph.lines, Prices(settings.profile)
    total = 0.0
    for number in again:
        operands = [lines[source] for source in lines[number].inputs]
        total += prices.line_us(lines[number], operands, chosen.device(number)) or 0.0
    cost = f"{total:.1f} us"
    if prices.missing:
        elements = sum(numel(lines[number].dims) for number in again)
        cost = f"{elements} elements, [costs] of {settings.profile.name} lacks some of the ops"
    nodes = "1 node" if len(again) == 1 else f"{len(again)} nodes"
    moved = f", {later} computed later" if later else ""
    told = f"recompute: arena {before} -> {after} bytes, {nodes} computed again, cost est. {cost}"
    return told + moved


def _with_cuts(chosen: Chosen, memory: MemoryPlan, cuts: Sequence[Cut]) -> Chosen:
    """Return the graph with what the cuts compute again, its lines in the order of the steps."""
    rewriting = _Rewriting(chosen)
    at: dict[int, set[int]] = {}
    for cut in cuts:
        at.setdefault(cut.at, set()).update(cut.lines)
    for number, step in enumerate(memory.steps):
        for line in sorted(at.get(number, ())):
            rewriting.again(line)
        for line in step.lines:
            rewriting.first(line)
    return rewriting.finish()


class _Rewriting:
    """Lines in a new order; some are appended twice, and what follows reads the last one."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen
        self._lines = chosen.graph.lines
        self._made: list[Line] = []
        self._old: list[int] = []  # for each of them the line that it was
        self._now: dict[int, int] = {}  # line -> where its newest value stands
        self._roots: dict[int, int] = {}  # line -> where its first value stands
        self._views: dict[tuple[int, int], int] = {}  # (view, what it views) -> where it stands
        for number, line in enumerate(self._lines):
            if line.op.kind is Kind.LEAF:
                self._append(number, ())

    def first(self, number: int) -> None:
        """Append a line, unless it stands already."""
        if number not in self._now:
            self._append(number, self._sources(number))

    def again(self, number: int) -> None:
        """Append a line that stands already once more; who comes later reads this one."""
        self._append(number, self._sources(number))

    def _sources(self, number: int) -> tuple[int, ...]:
        return tuple([self._found(source) for source in self._lines[number].inputs])

    def _found(self, number: int) -> int:
        """Return where a line's newest value stands; views are made for it."""
        chain = []
        while self._lines[number].op.kind is Kind.VIEW:
            chain.append(number)
            number = self._lines[number].inputs[0]
        self.first(number)
        at = self._now[number]
        for view in reversed(chain):
            known = self._views.get((view, at))
            if known is None:
                known = self._views[view, at] = self._append(view, (at,))
            at = known
        return at

    def _append(self, number: int, inputs: tuple[int, ...]) -> int:
        self._made.append(self._lines[number]._replace(inputs=inputs))
        self._old.append(number)
        self._now[number] = made = len(self._made) - 1
        self._roots.setdefault(number, made)
        return made

    def _live(self) -> list[bool]:
        """Return which of the appended lines are leaves, or needed for an output or an update."""
        live = [line.op.kind is Kind.LEAF for line in self._made]
        for root in self._chosen.graph.roots:
            live[self._roots[root]] = True
        for number in range(len(self._made) - 1, -1, -1):
            if live[number]:
                for source in self._made[number].inputs:
                    live[source] = True
        return live

    def finish(self) -> Chosen:
        """Return the new graph and its decisions, without first values that nobody reads."""
        old, live = self._chosen, self._live()
        places = {number: k for k, number in enumerate(compress(range(len(live)), live))}
        stands: dict[int, int] = {}  # old line -> the first of those that stay
        choices, builder = [], GraphBuilder()
        for number in places:
            line, was = self._made[number], self._old[number]
            choice, is_first = old.choices[was], number == self._roots[was]
            if line.op.kind is not Kind.VIEW and not is_first:
                choice = _noted(choice, _AGAIN if was in stands else _LATER)
            choices.append(choice)
            inputs = tuple([places[source] for source in line.inputs])
            stands.setdefault(was, builder.append(line._replace(inputs=inputs)))
        updates = [(stands[v], stands[n]) for v, n in old.graph.updates]
        graph = builder.finish([stands[n] for n in old.graph.outputs], updates)
        origin = tuple(-1 if n < 0 else stands.get(n, -1) for n in old.origin)
        devices = tuple(old.device(self._old[number]) for number in places)
        return Chosen(graph, tuple(choices), origin, devices if old.devices else ())


def _noted(choice: Choice, what: str) -> Choice:
    """Return a decision with what the table says of the line, unless it says so already."""
    if choice.note.startswith((_AGAIN, _LATER)):
        return choice
    return choice._replace(note="; ".join(filter(None, (what, choice.note))))
