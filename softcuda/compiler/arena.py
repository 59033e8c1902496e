"""The arena plan: offsets for values by their lifetimes, close to the most bytes alive at once.

Dynamic storage allocation with known lifetimes is NP-hard, so several strategies compete, the
cheap ones first; the best plan wins and a good one ends the search.

Source of greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from softcuda.compiler.arena_fit import PaddedLifetime, best_fit, two_ended
from softcuda.compiler.arena_search import OrderSearch, alive_together
from softcuda.errors import ArgumentError

__all__ = ["ArenaPlan", "Lifetime", "most_bytes", "plan"]

WIDE: Final = 256  # alignment of values of at least WIDE_FROM bytes: their padding is < 10 percent
WIDE_FROM: Final = 2560
NARROW: Final = 16

_GOOD: Final = 1.02  # of the peak; ends the search
_PROMISED: Final = 1.1  # of the peak; ends it for many values, and among costly strategies
_MANY: Final = 20_000  # values; above, every strategy takes a good part of a second
_FEW: Final = 50_000  # pairs alive together, up to which a fair plan is worth improving;
_FEW_EACH: Final = 64  # or pairs a value: where more live together, best fit comes close
_PAIRS: Final = 4_000_000  # pairs alive together, up to which a poor plan is
_VISITS: Final = 6_000_000  # bounds the costly search to a few seconds
_WORTH_BYTES: Final = 1 << 16  # a smaller arena is worth no more than
_FEW_VISITS: Final = 200_000  # which take 50 ms


class Lifetime(NamedTuple):
    """A value: its bytes, the first and the last step that need it, both included."""

    nbytes: int
    first: int
    last: int


class ArenaPlan(NamedTuple):
    """Where values live in the arena.

    Attributes:
        offsets: [bytes] of each value, in the order they were given.
        total_bytes: size of the arena.
        peak_bytes: the most bytes alive at once, without alignment.
    """

    offsets: tuple[int, ...]
    total_bytes: int
    peak_bytes: int


def plan(values: Sequence[Lifetime]) -> ArenaPlan:
    """Return offsets at which values that are alive together never overlap.

    Values of at least 2560 bytes begin at multiples of 256 bytes, smaller ones of 16. The arena
    is meant to stay within 1.1 times the most bytes alive at once; padding of values below 160
    bytes may exceed that by itself. The same values give the same plan.

    Args:
        values: the lifetimes, in any order.

    Raises:
        ArgumentError: a value has negative bytes, or ends before it begins.

    Example:
        >>> plan([Lifetime(4096, 0, 1), Lifetime(4096, 1, 2), Lifetime(4096, 2, 3)])
        ArenaPlan(offsets=(0, 4096, 0), total_bytes=8192, peak_bytes=8192)
    """
    for number, value in enumerate(values):
        if value.nbytes < 0 or value.last < value.first:
            raise ArgumentError(
                f"arena: value {number} has {value.nbytes} bytes from step {value.first} to "
                f"{value.last}; allowed are at least 0 bytes and a last step not before the first"
            )
    held = [number for number, value in enumerate(values) if value.nbytes]
    peak = most_bytes([values[number] for number in held])
    blocks = [_block(values[number]) for number in held]
    padded = most_bytes([Lifetime(*block[:3]) for block in blocks])
    promised = int(peak * _PROMISED)
    good = int(padded * _GOOD) if len(held) < _MANY else promised
    best = _search(blocks, padded, good, promised)
    offsets = [0] * len(values)
    for number, offset in zip(held, best.offsets, strict=True):
        offsets[number] = offset
    return ArenaPlan(tuple(offsets), best.total, peak)


def _block(value: Lifetime) -> PaddedLifetime:
    alignment = WIDE if value.nbytes >= WIDE_FROM else NARROW
    return PaddedLifetime(
        (value.nbytes + alignment - 1) & -alignment, value.first, value.last, alignment
    )


def most_bytes(values: Iterable[Lifetime]) -> int:
    """Return the most bytes alive at once, without alignment."""
    changes: dict[int, int] = {}
    for nbytes, first, last in values:
        changes[first] = changes.get(first, 0) + nbytes
        changes[last + 1] = changes.get(last + 1, 0) - nbytes
    alive = most = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


class _Best:
    """The best offsets so far, the cheap strategies tried before the costly ones."""

    def __init__(self, blocks: list[PaddedLifetime]) -> None:
        self._blocks = blocks
        self.offsets: list[int] = []
        self.total = -1

    def take(self, offsets: list[int]) -> int:
        """Keep the offsets where they are better; return the least total."""
        total = max((o + b.size for o, b in zip(offsets, self._blocks, strict=True)), default=0)
        if self.total < 0 or total < self.total:
            self.offsets, self.total = offsets, total
        return self.total


def _search(blocks: list[PaddedLifetime], padded: int, good: int, promised: int) -> _Best:
    """Return offsets whose total is within `good`, else the best of every strategy worth it.

    `padded` is the most bytes alive at once, of the blocks as they are placed.
    """
    best = _Best(blocks)
    visits = _VISITS if padded >= _WORTH_BYTES else _FEW_VISITS
    if best.take(best_fit(blocks)) <= good or best.take(two_ended(blocks, padded)) <= good:
        return best
    fair = best.total <= promised
    together = alive_together(blocks, max(_FEW_EACH * len(blocks), _FEW) if fair else _PAIRS)
    if together is not None:
        search = OrderSearch(blocks, together)
        for key in (_by_size, _by_area, _by_duration):
            order = sorted(range(len(blocks)), key=lambda n: key(blocks[n]))
            if best.take(search.place(order)) <= good:
                return best
    backwards = [block._replace(first=-block.last, last=-block.first) for block in blocks]
    if best.total > promised:
        best.take(best_fit(backwards))
        best.take(two_ended(backwards, padded))
    while best.total > promised and together is not None and search.visits < visits:
        best.take(search.repair())
    return best


def _by_size(block: PaddedLifetime) -> tuple[int, int]:
    return -block.size, block.first


def _by_area(block: PaddedLifetime) -> tuple[int, int]:
    return -block.size * (block.last - block.first + 1), block.first


def _by_duration(block: PaddedLifetime) -> tuple[int, int]:
    return block.first - block.last, -block.size
