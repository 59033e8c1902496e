"""Where a chain that is too wide for one kernel is cut: at its cheapest edges.

A cut before a line costs the bytes an element of what is made before it and read behind it, once
to write and once to read, and of the operands that both sides read. Of all ways to cut a chain
into parts that fit, the one of least cost is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from softcuda.graph.lines import Line

__all__ = ["MAX_CHAIN", "MAX_OPERANDS", "cheapest_cuts", "register_count"]

MAX_CHAIN = 256  # ops in one unit
MAX_OPERANDS = 64  # reads from outside in one unit

# Of a thread, for one element: operands and values inside that are alive at once. No chain below
# it spills on 7 architectures.
_MOST_REGISTERS: Final = 160
_LAST_REGISTERS: Final = 3  # of an operand of a last part that has a bound of its own


def cheapest_cuts(
    lines: Sequence[Line], members: Sequence[int], most_last: int = MAX_OPERANDS
) -> list[int]:
    """Return the positions of `members` before which the chain is cut; none where it fits.

    Args:
        lines: of the graph.
        members: the lines of the chain, in order.
        most_last: operands of the last part, which may be less than those of the others.
    """
    chain = _Chain(lines, members, most_last)
    if chain.fits():
        return []
    count = len(members)
    least, before = [0.0] + [math.inf] * count, [0] * (count + 1)
    for start in range(count):
        for stop in chain.stops(start):
            cost = least[start] + (chain.cut_bytes[start] if start else 0)
            if cost < least[stop]:
                least[stop], before[stop] = cost, start
    cuts, position = [], before[count]
    while position:
        cuts.append(position)
        position = before[position]
    return cuts[::-1]


def register_count(lines: Sequence[Line], members: Sequence[int]) -> int:
    """Return the registers of a chain's thread, for one element: see `_MOST_REGISTERS`."""
    return _Chain(lines, members, MAX_OPERANDS).registers()


class _Chain:
    """A chain by positions: what it reads, when its values are last read, what a cut costs."""

    def __init__(self, lines: Sequence[Line], members: Sequence[int], most_last: int) -> None:
        self._lines = lines
        self._most_last = most_last
        self._members = members
        self._place = {number: position for position, number in enumerate(members)}
        self._last: dict[int, int] = {}  # value -> the last position that reads it
        self._first: dict[int, int] = {}
        for position, number in enumerate(members):
            for source in lines[number].inputs:
                self._last[source] = position
                self._first.setdefault(source, position)
        self.cut_bytes, self._alive = self._edges()

    def _edges(self) -> tuple[list[int], list[int]]:
        """Return for each position what a cut before it costs, and the registers alive there."""
        count = len(self._members)
        cut, alive = [0] * (count + 1), [0] * (count + 1)
        for value, last in self._last.items():
            inside = self._place.get(value)
            first = self._first[value] if inside is None else inside
            size = self._lines[value].dtype.itemsize
            for position in range(first + 1, last + 1):
                cut[position] += size if inside is None else 2 * size
                alive[position] += 0 if inside is None else _registers(self._lines[value])
        return cut, alive

    def registers(self) -> int:
        """Return the registers of operands, and of values inside that are alive at once."""
        read = [source for source in self._first if source not in self._place]
        return sum(_registers(self._lines[source]) for source in read) + max(self._alive)

    def fits(self) -> bool:
        """Return whether the whole chain fits one kernel."""
        return len(self._members) in self.stops(0)

    def stops(self, start: int) -> list[int]:
        """Return the positions before which a part that begins at `start` may end."""
        found: list[int] = []
        reads: set[int] = set()
        held = most = 0
        for position in range(start, min(start + MAX_CHAIN, len(self._members))):
            for source in self._lines[self._members[position]].inputs:
                if source not in reads and self._place.get(source, -1) < start:
                    reads.add(source)
                    held += _registers(self._lines[source])
            most = max(most, self._alive[position + 1] - self._alive[start])
            is_first = position == start
            if not is_first and (len(reads) > MAX_OPERANDS or held + most > _MOST_REGISTERS):
                break
            if position + 1 < len(self._members) or is_first or self._ends(len(reads), held + most):
                found.append(position + 1)
        return found

    def _ends(self, reads: int, registers: int) -> bool:
        """Return whether a part that reads so many operands may be the last one."""
        if self._most_last == MAX_OPERANDS:
            return True
        return reads <= self._most_last and registers <= _LAST_REGISTERS * self._most_last


def _registers(line: Line) -> int:
    return 2 if line.dtype.itemsize == 8 else 1
