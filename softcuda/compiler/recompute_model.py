"""What computing values again would save: lifetimes of a schedule, and a greedy choice of cuts.

A value that is read much later than it is made, or than it was read before, occupies the arena in
between. Cutting it there means to compute it (again) before its later readers, from values that
are alive then anyway, or from others that are kept alive longer and are smaller together.

Source of trading work for memory so: Chen, Xu, Zhang and Guestrin, "Training deep nets with
sublinear memory cost", 2016; here for elementwise work alone, along a given schedule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from softcuda.backends.steps import Step
from softcuda.compiler.allocate import MemoryPlan
from softcuda.compiler.updates import is_calm
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind

__all__ = ["Cut", "Timeline"]

MOST_CUTS: Final = 256  # of one search
MOST_LINES: Final = 16  # computed again for one cut


class Cut(NamedTuple):
    """A value that is computed again.

    Attributes:
        at: the step before which it is; all later readers read the new value.
        lines: what is computed, in order; the value is the last one.
    """

    at: int
    lines: tuple[int, ...]


class _Recipe(NamedTuple):
    """How a value is made again: the lines, and the values that must live longer for it."""

    lines: tuple[int, ...]
    longer: tuple[int, ...]


class Timeline:
    """Which values of one device are alive in the arena at which step, cuts included.

    Args:
        graph: the lines.
        memory: its steps and places.
        device: "cpu" or "cuda".
    """

    def __init__(self, graph: Graph, memory: MemoryPlan, device: str) -> None:
        self._lines = graph.lines
        self._places = memory.places
        self._base = _bases(graph)
        self._position = _positions(memory.steps)
        self._readers = self._all_readers()
        self._uses: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}
        for number, step in enumerate(memory.steps):
            for operand in step.outputs:
                self._first.setdefault(operand.value, number)
            for operand in step.inputs:
                uses = self._uses.setdefault(operand.value, [])
                if not uses or uses[-1] != number:
                    uses.append(number)
        held = [
            value
            for value, place in memory.places.items()
            if place.space == "arena" and place.device == device
        ]
        changes = [0] * (len(memory.steps) + 1)
        for value in held:  # a negative number is the scratch of a step
            changes[self._first[value] if value >= 0 else ~value] += memory.places[value].nbytes
            last = self._last(value) if value >= 0 else ~value
            changes[last + 1] -= memory.places[value].nbytes
        self._alive = list(accumulate(changes[:-1]))
        roots = set(graph.roots)
        self._candidates = [
            value
            for value in sorted(held, key=lambda v: -memory.places[v].nbytes)
            if value >= 0 and value not in roots and is_calm(graph.lines[value])
        ]

    def _all_readers(self) -> dict[int, list[int]]:
        """Return for each value the lines that read it, views looked through."""
        found: dict[int, list[int]] = {}
        for number in self._position:
            for source in self._lines[number].inputs:
                found.setdefault(self._base[source], []).append(number)
        return found

    def _last(self, value: int) -> int:
        uses = self._uses.get(value)
        return uses[-1] if uses else self._first[value]

    def _change(self, first: int, last: int, nbytes: int) -> None:
        alive = self._alive
        for position in range(first, last + 1):
            alive[position] += nbytes

    def cuts(self) -> list[Cut]:
        """Return cuts, each at the step where most bytes are alive, as long as they lower that.

        Of the values that are alive there and not read, the one is taken that saves most.
        """
        made: list[Cut] = []
        useful, least = 0, max(self._alive, default=0)
        while len(made) < MOST_CUTS:
            peak = max(self._alive, default=0)
            if peak < least:
                useful, least = len(made), peak
            cut = self._best_at(self._alive.index(peak)) if peak else None
            if cut is None:
                break
            made.append(cut)
        return made[:useful]

    def _best_at(self, peak: int) -> Cut | None:
        """Return the cut that saves most at a step, and note it; None where there is none."""
        best: tuple[int, int, int, _Recipe] | None = None
        hopeless: list[int] = []
        for value in self._candidates:
            nbytes = self._places[value].nbytes
            if best is not None and nbytes <= best[0]:
                break
            uses = self._uses.get(value, [])
            near = bisect_left(uses, peak)
            if near == len(uses) or uses[near] == peak or self._first[value] >= peak:
                continue
            recipe = self._recipe(value, uses[near])
            saved = nbytes - sum(self._places[v].nbytes for v in recipe.longer) if recipe else 0
            if recipe is None or saved <= 0:
                hopeless.append(value)
            elif best is None or saved > best[0]:
                best = (saved, value, uses[near], recipe)
        if hopeless:
            gone = set(hopeless)
            self._candidates = [value for value in self._candidates if value not in gone]
        if best is None:
            return None
        _, value, at, recipe = best
        self._note(value, at, recipe)
        return Cut(at, recipe.lines)

    def _recipe(self, value: int, at: int) -> _Recipe | None:
        """Return how a value is made again before a step; None where that takes too much."""
        needed: set[int] = {value}
        longer: set[int] = set()
        waiting = [value]
        while waiting:
            for source in self._lines[waiting.pop()].inputs:
                base = self._base[source]
                if base in needed or self._is_there(base, at):
                    continue
                place = self._places.get(base)
                nbytes = 0 if place is None else place.nbytes
                is_cheap = is_calm(self._lines[base]) and len(needed) < MOST_LINES
                is_small = place is not None and place.space == "arena"
                if is_small and (not is_cheap or 8 * nbytes <= self._places[value].nbytes):
                    longer.add(base)
                elif is_cheap:
                    needed.add(base)
                    waiting.append(base)
                else:
                    return None
        return _Recipe(tuple(sorted(needed)), tuple(sorted(longer)))

    def _is_there(self, base: int, at: int) -> bool:
        """Return whether a value can be read at a step without being kept for it."""
        if self._lines[base].op.kind is Kind.LEAF:
            return True
        place = self._places.get(base)
        if place is None:
            return False
        return place.space in ("output", "variable") or self._last(base) >= at

    def _note(self, value: int, at: int, recipe: _Recipe) -> None:
        """Let a value be gone between its last early reader and step `at`."""
        self._candidates.remove(value)
        uses, nbytes = self._uses[value], self._places[value].nbytes
        near = bisect_left(uses, at)
        late, self._uses[value] = uses[near:], uses[:near]
        until = late[-1] if self._joins(value, late) else at - 1
        # Without an early reader the value is not made early at all.
        self._change(uses[near - 1] + 1 if near else self._first[value], until, -nbytes)
        for base in recipe.longer:
            self._change(self._last(base) + 1, at, self._places[base].nbytes)
        for number in recipe.lines:
            for source in self._lines[number].inputs:
                read = self._uses.get(self._base[source])
                if read is not None and self._base[source] not in recipe.lines:
                    place = bisect_left(read, at)
                    if place == len(read) or read[place] != at:
                        read.insert(place, at)

    def _joins(self, value: int, late: Sequence[int]) -> bool:
        """Return whether the new value is likely fused into its one reading step."""
        if len(late) > 1:
            return False
        readers = [n for n in self._readers[value] if self._position[n] == late[0]]
        fusing = (Kind.ELEMENTWISE, Kind.REDUCTION)
        dims = self._lines[value].dims
        return all(
            self._lines[n].op.kind in fusing
            and value in self._lines[n].inputs
            and (self._lines[n].op.kind is Kind.REDUCTION or self._lines[n].dims == dims)
            for n in readers
        )


def _bases(graph: Graph) -> list[int]:
    """Return for each line the one whose buffer it looks at."""
    found: list[int] = []
    for number, line in enumerate(graph.lines):
        found.append(found[line.inputs[0]] if line.op.kind is Kind.VIEW else number)
    return found


def _positions(steps: Sequence[Step]) -> Mapping[int, int]:
    """Return for each line that does work the first step that computes it."""
    found: dict[int, int] = {}
    for number, step in enumerate(steps):
        for line in step.lines:
            found.setdefault(line, number)
    return found
