"""Placing values as a run would: step by step, in gaps that dead values left.

Source: best fit with a free list that joins neighbours, Knuth, The Art of Computer Programming 1,
section 2.5.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["PaddedLifetime", "best_fit", "two_ended"]

_NEVER: Final = 1 << 62  # the step at which the ends of the arena die


class PaddedLifetime(NamedTuple):
    """A value as it is placed: its size and its offset are multiples of `alignment`."""

    size: int
    first: int
    last: int
    alignment: int


def best_fit(blocks: Sequence[PaddedLifetime]) -> list[int]:
    """Return offsets: each value at the beginning of the smallest gap that holds it."""
    offsets = [0] * len(blocks)
    gaps = _Gaps()
    for number, dead in _births(blocks):
        for other in dead:
            gaps.give(offsets[other], offsets[other] + blocks[other].size)
        size, _, _, alignment = blocks[number]
        found = gaps.find(size, alignment)
        offsets[number] = gaps.grow(size, alignment) if found is None else found[2]
        if found is not None:
            gaps.cut(found[0], found[1], found[2], size)
    return offsets


def two_ended(blocks: Sequence[PaddedLifetime], ceiling: int) -> list[int]:
    """Return offsets: each value at that end of a gap whose neighbour lives longer.

    The floor and the ceiling of the arena live for ever, so short-lived values pile up at both
    and leave one gap between them. What does not fit goes above the ceiling [bytes].
    """
    offsets = [0] * len(blocks)
    gaps = _Gaps()
    gaps.grow(ceiling, 1)
    gaps.give(0, ceiling)
    ends_below: dict[int, int] = {}  # address -> last step of the value that ends there
    begins_above: dict[int, int] = {}  # address -> last step of the value that begins there
    for number, dead in _births(blocks):
        for other in dead:
            start, end = offsets[other], offsets[other] + blocks[other].size
            gaps.give(start, end)
            del begins_above[start], ends_below[end]
        size, _, last, alignment = blocks[number]
        found = gaps.find(size, alignment)
        if found is None:
            offset = gaps.grow(size, alignment)
        else:
            start, end, offset = found
            if begins_above.get(end, _NEVER) > ends_below.get(start, _NEVER):
                offset = max(offset, (end - size) & -alignment)
            gaps.cut(start, end, offset, size)
        offsets[number] = offset
        ends_below[offset + size] = begins_above[offset] = last
    return offsets


def _births(blocks: Sequence[PaddedLifetime]) -> Iterator[tuple[int, list[int]]]:
    """Yield each block in the order of first steps, with those that died since the one before."""
    ends = sorted(range(len(blocks)), key=lambda n: blocks[n].last)
    dead = 0
    for number in sorted(range(len(blocks)), key=lambda n: (blocks[n].first, -blocks[n].size)):
        begin, first = dead, blocks[number].first
        while blocks[ends[dead]].last < first:
            dead += 1
        yield number, ends[begin:dead]


class _Gaps:
    """The free pieces below the top of an arena, neighbours always joined."""

    __slots__ = ("_by_size", "_end_to_start", "_start_to_end", "_top")

    def __init__(self) -> None:
        self._by_size: list[tuple[int, int]] = []  # (bytes, start), sorted
        self._start_to_end: dict[int, int] = {}
        self._end_to_start: dict[int, int] = {}
        self._top = 0

    def give(self, start: int, end: int) -> None:
        """Add a free piece."""
        before = self._end_to_start.get(start)
        if before is not None:
            self._remove(before, start)
            start = before
        after = self._start_to_end.get(end)
        if after is not None:
            self._remove(end, after)
            end = after
        self._add(start, end)

    def find(self, size: int, alignment: int) -> tuple[int, int, int] | None:
        """Return the smallest gap that holds `size` aligned bytes: start, end, first offset."""
        by_size = self._by_size
        for place in range(bisect_left(by_size, (size, 0)), len(by_size)):
            gap, start = by_size[place]
            offset = (start + alignment - 1) & -alignment
            if offset + size <= start + gap:
                return start, start + gap, offset
        return None

    def cut(self, start: int, end: int, offset: int, size: int) -> None:
        """Take [offset, offset + size) out of the gap [start, end)."""
        self._remove(start, end)
        if start < offset:
            self._add(start, offset)
        if offset + size < end:
            self._add(offset + size, end)

    def grow(self, size: int, alignment: int) -> int:
        """Raise the top by what `size` aligned bytes need; return their offset."""
        top = self._top
        start = self._end_to_start.get(top, top)  # a gap that ends at the top grows with it
        if start < top:
            self._remove(start, top)
        offset = (start + alignment - 1) & -alignment
        if start < offset:
            self._add(start, offset)
        self._top = offset + size
        return offset

    def _add(self, start: int, end: int) -> None:
        insort(self._by_size, (end - start, start))
        self._start_to_end[start] = end
        self._end_to_start[end] = start

    def _remove(self, start: int, end: int) -> None:
        by_size = self._by_size
        del by_size[bisect_left(by_size, (end - start, start))]
        del self._start_to_end[start]
        del self._end_to_start[end]
