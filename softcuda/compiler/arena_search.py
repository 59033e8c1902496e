"""Placing values in one order after another: each at the lowest offset that is free for it.

Every plan without holes comes of some order, so the search is one among orders.

Source: moving what ends highest to an earlier place is the repair step of iterated greedy search,
Ruiz and Stuetzle, "A simple and effective iterated greedy algorithm", 2007.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from operator import add
from typing import Final

from softcuda.compiler.arena_fit import PaddedLifetime

__all__ = ["OrderSearch", "alive_together"]

# Chosen on random lifetimes that every order by a key leaves above 1.1 times the peak: with these
# the repairs solved all of them, without the slack or the steps away up to half of them.
_STEPS_AWAY: Final = (0.5, 0.3)  # chances to move a value alive with the highest, and one with that
_EARLIER: Final = 0.7  # chance that a move goes to an earlier place
_PLACING: Final = 8  # what placing a value costs beside its neighbours, in visits
_SLACK: Final = 0.02  # how much worse an order may be and still be the next to change


def alive_together(blocks: Sequence[PaddedLifetime], most_pairs: int) -> list[list[int]] | None:
    """Return for each block those that are alive with it, or None where the pairs are too many."""
    found: list[list[int]] = [[] for _ in blocks]
    alive: list[int] = []
    pairs = 0
    for number in sorted(range(len(blocks)), key=lambda n: blocks[n].first):
        first = blocks[number].first
        alive = [other for other in alive if blocks[other].last >= first]
        pairs += len(alive)
        if pairs > most_pairs:
            return None
        for other in alive:
            found[other].append(number)
        found[number].extend(alive)
        alive.append(number)
    return found


class OrderSearch:
    """Plans by order, and a seeded search for better orders.

    Attributes:
        visits: neighbours looked at so far, a measure of time.
    """

    def __init__(self, blocks: Sequence[PaddedLifetime], together: Sequence[Sequence[int]]) -> None:
        self.visits = 0
        self._blocks = blocks
        self._sizes = [block.size for block in blocks]
        self._together = together
        self._random = random.Random(0)  # seeded: the same values give the same plan
        self._order: list[int] = []
        self._offsets: list[int] = []
        self._total = -1

    def place(self, order: Sequence[int]) -> list[int]:
        """Return the offsets of an order; the best order is where `repair` begins."""
        offsets = self._put_all(order)
        total = self._total_of(offsets)
        if self._total < 0 or total < self._total:
            self._order, self._offsets, self._total = list(order), offsets, total
        return offsets

    def _total_of(self, offsets: Sequence[int]) -> int:
        total: int = max(map(add, offsets, self._sizes))
        return total

    def _put_all(self, order: Sequence[int]) -> list[int]:
        """Return the offsets of an order; each value tells those alive with it where it lies."""
        offsets = [0] * len(order)
        taken: list[list[tuple[int, int]]] = [[] for _ in order]
        for number in order:
            size, _, _, alignment = self._blocks[number]
            taken[number].sort()
            offset = offsets[number] = _lowest(taken[number], size, alignment)
            span = offset, offset + size
            for other in self._together[number]:
                taken[other].append(span)
            self.visits += len(self._together[number]) + _PLACING
        return offsets

    def _put(
        self,
        order: Sequence[int],
        start: int,
        offsets: list[int],
        stale: bytearray,
        limit: int,
    ) -> bool:
        """Place the stale ones of order[start:], and those that their moves make stale.

        Returns:
            False, with the rest left undone, as soon as one ends above `limit`.
        """
        blocks, sizes, visits = self._blocks, self._sizes, self.visits
        rank = [0] * len(order)
        for place, number in enumerate(order):
            rank[number] = place
        for place in range(start, len(order)):
            number = order[place]
            if not stale[number]:
                continue
            size, _, _, alignment = blocks[number]
            together = self._together[number]
            visits += len(together) + _PLACING
            taken = [(offsets[o], offsets[o] + sizes[o]) for o in together if rank[o] < place]
            taken.sort()
            offset = _lowest(taken, size, alignment)
            if offset + size > limit:
                self.visits = visits
                return False
            if offset != offsets[number]:
                offsets[number] = offset
                for other in together:
                    stale[other] = 1
        self.visits = visits
        return True

    def repair(self) -> list[int]:
        """Move one value, near those that end highest, in the current order; return the offsets.

        A new order that is more than a little worse is dropped.
        """
        order, blocks, rng = self._order, self._blocks, self._random
        moved = rng.choice([n for n in order if self._offsets[n] + blocks[n].size == self._total])
        for chance in _STEPS_AWAY:
            if rng.random() >= chance:
                break
            moved = rng.choice(self._together[moved] or order)
        at = order.index(moved)
        to = rng.randrange(at if at and rng.random() < _EARLIER else len(order))
        changed = [*order[:at], *order[at + 1 :]]
        changed.insert(to, moved)
        stale = bytearray(len(order))
        stale[moved] = 1
        for other in self._together[moved]:
            stale[other] = 1
        offsets = list(self._offsets)
        limit = int(self._total * (1 + _SLACK * rng.random()))
        self.visits += len(order) // _PLACING
        if self._put(changed, min(at, to), offsets, stale, limit):
            self._order, self._offsets, self._total = changed, offsets, self._total_of(offsets)
        return self._offsets


def _lowest(taken: Sequence[tuple[int, int]], size: int, alignment: int) -> int:
    """Return the lowest aligned offset at which a value overlaps none of the sorted spans."""
    offset = 0
    for begin, end in taken:
        if begin - offset >= size:
            break
        if end > offset:
            offset = (end + alignment - 1) & -alignment
    return offset
