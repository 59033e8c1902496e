"""The order of units: topological, with few bytes alive at once.

Sources: operands by falling (need - bytes): Sethi and Ullman, "The generation of optimal code for
arithmetic expressions", 1970, in the form of Liu, "An application of generalized tree pebbling to
sparse matrix factorization", 1987. Graham's list scheduling, 1966, with bytes as the priority.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from softcuda.errors import ArgumentError

__all__ = ["in_turns", "most_alive", "order"]

_GREEDY_UP_TO: Final = 50_000  # units; above, list scheduling takes a good part of a second


def order(
    inputs_of: Sequence[Sequence[int]], bytes_of: Sequence[int], roots: Sequence[int]
) -> tuple[int, ...]:
    """Return the units in a topological order that keeps few bytes alive at once.

    The given order is kept where no candidate is better. Equal input gives an equal order.

    Args:
        inputs_of: for each unit the units whose results it reads, in any order, also repeated.
        bytes_of: bytes of each unit's result.
        roots: the units whose results are needed at the end.

    Raises:
        ArgumentError: the units read each other in a circle, the lengths differ, or a number
            names no unit.

    Example:
        >>> order([(), (), (0,), (1,), (2, 3)], [100, 100, 1, 1, 1], [4])
        (0, 2, 1, 3, 4)
    """
    sources = _checked(inputs_of, bytes_of, roots)
    given = _topological(sources)
    best, least = given, most_alive(given, sources, bytes_of, roots)
    floor = _least_possible(sources, bytes_of)
    for candidate in (_depth_first, _list_schedule):
        if least <= floor:
            break
        if candidate is _list_schedule and len(given) > _GREEDY_UP_TO:
            break
        found = candidate(given, sources, bytes_of, roots)
        peak = most_alive(found, sources, bytes_of, roots)
        if peak < least:
            best, least = found, peak
    return tuple(best)


def most_alive(
    sequence: Sequence[int],
    inputs_of: Sequence[Sequence[int]],
    bytes_of: Sequence[int],
    roots: Sequence[int],
) -> int:
    """Return the most bytes of results alive at once when units run in this order.

    A result lives from its unit to its last reader, both included; that of a root to the end;
    that of a unit without readers only while the unit runs.
    """
    last = [0] * len(bytes_of)
    for step, unit in enumerate(sequence):
        last[unit] = step
        for source in inputs_of[unit]:
            last[source] = step
    for root in roots:
        last[root] = len(sequence)
    ends = [0] * (len(sequence) + 1)
    for unit, step in enumerate(last):
        ends[step] += bytes_of[unit]
    alive = most = 0
    for step, unit in enumerate(sequence):
        alive += bytes_of[unit]
        most = max(most, alive)
        alive -= ends[step]
    return most


def _checked(
    inputs_of: Sequence[Sequence[int]], bytes_of: Sequence[int], roots: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the inputs of each unit, each once."""
    count = len(inputs_of)
    if len(bytes_of) != count:
        raise ArgumentError(
            f"schedule: {count} units but {len(bytes_of)} sizes; allowed is one size a unit"
        )
    sources = [tuple(dict.fromkeys(inputs)) if len(inputs) > 1 else tuple(inputs)
               for inputs in inputs_of]  # fmt: skip
    for unit, inputs in enumerate([*sources, tuple(roots)]):
        for source in inputs:
            if not 0 <= source < count:
                what = f"unit {unit} reads" if unit < count else "a root is"
                raise ArgumentError(f"schedule: {what} unit {source}; allowed are 0 to {count - 1}")
    return sources


def _readers(sources: Sequence[Sequence[int]]) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in sources]
    for unit, inputs in enumerate(sources):
        for source in inputs:
            readers[source].append(unit)
    return readers


def _topological(sources: Sequence[Sequence[int]]) -> list[int]:
    """Return 0, 1, 2, ... where that is topological, else the order nearest to it."""
    if all(source < unit for unit, inputs in enumerate(sources) for source in inputs):
        return list(range(len(sources)))
    readers = _readers(sources)
    waiting = [len(inputs) for inputs in sources]
    ready = [unit for unit, count in enumerate(waiting) if not count]
    sequence: list[int] = []
    while ready:
        unit = heapq.heappop(ready)
        sequence.append(unit)
        for reader in readers[unit]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(sequence) < len(sources):
        stuck = [unit for unit, count in enumerate(waiting) if count]
        raise ArgumentError(
            f"schedule: {len(stuck)} units wait for each other in a circle, unit {stuck[0]} among "
            "them; allowed are units that read only what can be made before them"
        )
    return sequence


def _least_possible(sources: Sequence[Sequence[int]], bytes_of: Sequence[int]) -> int:
    """Return what no order can go below: the results that one unit reads and writes."""
    return max(
        (
            bytes_of[unit] + sum([bytes_of[s] for s in inputs])
            for unit, inputs in enumerate(sources)
        ),
        default=0,
    )


def _depth_first(
    given: Sequence[int],
    sources: Sequence[Sequence[int]],
    bytes_of: Sequence[int],
    roots: Sequence[int],
) -> list[int]:
    """Return the order that makes what a unit reads just before it, the neediest first."""
    need = [0] * len(sources)
    arranged: list[Sequence[int]] = list(sources)

    def rank(unit: int) -> int:
        return bytes_of[unit] - need[unit]

    for unit in given:
        inputs = sources[unit]
        if len(inputs) > 1:
            inputs = arranged[unit] = sorted(inputs, key=rank)
        held = most = 0
        for source in inputs:
            most = max(most, held + need[source])
            held += bytes_of[source]
        need[unit] = max(most, held + bytes_of[unit])
    ends = [unit for unit, readers in enumerate(_readers(sources)) if not readers]
    starts = sorted(dict.fromkeys([*roots, *ends]), key=rank)
    sequence: list[int] = []
    state = bytearray(len(sources))  # 0 not met, 1 waits for what it reads, 2 placed
    for start in starts:
        stack = [start]
        while stack:
            unit = stack[-1]
            if state[unit]:
                stack.pop()
                if state[unit] == 1:
                    state[unit] = 2
                    sequence.append(unit)
                continue
            state[unit] = 1
            stack.extend([s for s in reversed(arranged[unit]) if not state[s]])
    return sequence


def _list_schedule(
    given: Sequence[int],
    sources: Sequence[Sequence[int]],
    bytes_of: Sequence[int],
    roots: Sequence[int],
) -> list[int]:
    """Return the order that always runs the ready unit that frees most, or adds least."""
    count = len(sources)
    readers = _readers(sources)
    waiting = [len(inputs) for inputs in sources]
    unread = [len(found) for found in readers]  # readers of each result still to run
    for root in roots:
        unread[root] += 1
    place = [0] * count
    for position, unit in enumerate(given):
        place[unit] = position
    growth = [
        (size if unread[unit] else 0) - sum([bytes_of[s] for s in sources[unit] if unread[s] == 1])
        for unit, size in enumerate(bytes_of)
    ]
    ready = [(growth[unit], place[unit], unit) for unit in range(count) if not waiting[unit]]
    heapq.heapify(ready)
    done = bytearray(count)
    sequence: list[int] = []
    while ready:
        grows, _, unit = heapq.heappop(ready)
        if done[unit] or grows != growth[unit]:
            continue  # a newer entry of the same unit stands in the heap
        done[unit] = 1
        sequence.append(unit)
        for source in sources[unit]:
            unread[source] -= 1
            if unread[source] == 1:  # its last reader now frees it
                last = next((r for r in readers[source] if not done[r]), None)
                if last is not None:
                    growth[last] -= bytes_of[source]
                    if not waiting[last]:
                        heapq.heappush(ready, (growth[last], place[last], last))
        for reader in readers[unit]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (growth[reader], place[reader], reader))
    return sequence


def in_turns(
    sequence: Sequence[int], inputs_of: Sequence[Sequence[int]], is_first: Sequence[bool]
) -> tuple[int, ...]:
    """Return an order in which units of two kinds take long turns.

    As long as a unit of the kind at work is ready, it goes next; of several the earliest in
    `sequence`.

    Args:
        sequence: a topological order of the units.
        inputs_of: for each unit the units it reads.
        is_first: for each unit whether it is of the first kind.

    Example:
        >>> in_turns((0, 1, 2, 3), ((), (), (0,), (1,)), (True, False, True, False))
        (0, 2, 1, 3)
    """
    place = {unit: position for position, unit in enumerate(sequence)}
    missing = {unit: len(set(inputs_of[unit])) for unit in sequence}
    readers: dict[int, list[int]] = {unit: [] for unit in sequence}
    for unit in sequence:
        for source in set(inputs_of[unit]):
            readers[source].append(unit)
    ready: dict[bool, list[int]] = {True: [], False: []}
    for unit in sequence:
        if not missing[unit]:
            heapq.heappush(ready[is_first[unit]], place[unit])
    turn, done = True, []
    while ready[True] or ready[False]:
        if not ready[turn]:
            turn = not turn
        unit = sequence[heapq.heappop(ready[turn])]
        done.append(unit)
        for reader in readers[unit]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready[is_first[reader]], place[reader])
    return tuple(done)
