"""Where a chain behind a contraction ends, and what may be read there.

A kernel of a contraction holds its sums, and has less room for a chain than one of the chain
alone. What goes beyond is taken back from it: of the values that everything behind them is made
from, that one is written which costs least, in bytes an element of what both sides read. The rest
is a chain of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from softcuda.compiler.split import register_count
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.shapes import numel

__all__ = ["MAX_PRODUCTS", "held_behind"]

# Products in one unit: its own, and one that others could have a chain behind. A sum of many is
# then accumulated, and no more of them are alive at once.
MAX_PRODUCTS: Final = 2


def held_behind(
    lines: Sequence[Line], anchor: int, chain: Sequence[int], backend: Any
) -> Sequence[int]:
    """Return the lines of a chain that stay behind their anchor, in order; all where they fit.

    Args:
        lines: of the graph.
        anchor: the line that the chain is behind.
        chain: elementwise lines, in order.
        backend: who runs the anchor; `carries(chain, reads, registers)` says what it holds.
    """
    carries: Callable[..., object] | None = getattr(backend, "carries", None)

    def fits(part: Sequence[int]) -> bool:
        reads = _outside(lines, part)
        values = [lines[number] for number in reads if number != anchor]
        ops = [lines[number] for number in part]
        return carries is None or bool(carries(ops, values, register_count(lines, part)))

    if fits(chain):
        return chain
    users: dict[int, set[int]] = {number: set() for number in (anchor, *chain)}
    for number in chain:
        for source in lines[number].inputs:
            if source in users:
                users[source].add(number)
    best: Sequence[int] = ()
    least = 2.0 * lines[anchor].dtype.itemsize
    for last in chain[:-1]:
        part = _needed(lines, last, users)
        inside = set(part)
        if anchor not in inside or any(users[k] - inside for k in part if k != last):
            continue
        part.remove(anchor)
        if not fits(part):
            break
        rest = [number for number in chain if number not in inside]
        both = _outside(lines, part) & _outside(lines, rest)
        cost = 2 * lines[last].dtype.itemsize + sum(_weight(lines, k, lines[anchor]) for k in both)
        if cost <= least:
            best, least = part, cost
    return best


def _needed(lines: Sequence[Line], last: int, inside: dict[int, set[int]]) -> list[int]:
    """Return the lines among `inside` that a line depends on, and itself, in order."""
    found, waiting = {last}, [last]
    while waiting:
        for source in lines[waiting.pop()].inputs:
            if source in inside and source not in found:
                found.add(source)
                waiting.append(source)
    return sorted(found)


def _weight(lines: Sequence[Line], number: int, like: Line) -> float:
    """Return the bytes that a value takes for an element of another; few where it is broadcast."""
    line = lines[number]
    while line.op.kind is Kind.VIEW:
        line = lines[line.inputs[0]]
    return min(line.nbytes / max(numel(like.dims), 1), line.dtype.itemsize)


def _outside(lines: Sequence[Line], part: Sequence[int]) -> set[int]:
    """Return the lines that a part reads and does not compute."""
    return {source for number in part for source in lines[number].inputs} - set(part)
