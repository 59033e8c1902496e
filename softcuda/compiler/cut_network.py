"""A minimum cut of a network whose capacities are floating-point numbers of any size.

The flow is found in rounds. Each rounds what is left of the capacities down to whole numbers, lets
scipy send a largest flow and takes it off. What the cut of a round has left bounds what all later
rounds can send: arcs above it are never cut, and vertices that they tie together become one.

Source:
    Gabow, "Scaling algorithms for network problems", Journal of Computer and System Sciences 31,
    1985, for rounds by scale; Goldberg and Tarjan, "A new approach to the maximum-flow problem",
    Journal of the ACM 35, 1988, for what is sent ahead of any path to the sink.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

__all__ = ["CutNetwork"]

_WHOLE: Final = (1 << 30) - 2  # flows and capacities are 32-bit integers in scipy
_UNCUT: Final = _WHOLE + 1
_DOWN: Final = -64  # capacities are kept in 2^64 microseconds: their sum stays finite
_NOTHING: Final = 1e-280  # and what is below this is none
_SLACK: Final = 1 + 1e-9  # on a bound, which was added up in another order
_SWEPT: Final = (2000, 200_000)  # sweeps pay from so many vertices on and up to so many arcs


class CutNetwork:
    """A network whose last two vertices are the source and the sink.

    Args:
        tails: of each arc the vertex it leaves.
        heads: of each arc the vertex it enters.
        capacities: what an arc costs where its tail is on the source's side and its head on the
            sink's; inf where that cannot be.
        positions: of each vertex where it stands in the graph, which orders the sweeps.
    """

    def __init__(self, tails: Any, heads: Any, capacities: Any, positions: Any) -> None:
        self._ends = tails, heads
        self._capacities = np.ldexp(np.asarray(capacities, np.float64), _DOWN)
        self._positions = positions
        self._labels = np.arange(len(positions))
        self._left = _Arcs(tails, heads, self._capacities, len(positions))

    def value(self, sink_side: Any) -> float:
        """Return what a cut costs, in the network's own unit."""
        tails, heads = self._ends
        return float(self._capacities[~sink_side[tails] & sink_side[heads]].sum())

    def sink_side(self, start: Any, within: float) -> Any:
        """Return for each vertex whether it is on the sink's side of a minimum cut.

        Args:
            start: some cut that costs a finite amount; the less, the faster.
            within: the relative error that is allowed [1].
        """
        best, bound, gap = start, math.inf, self.value(start)
        while max(within * self.value(best), _NOTHING) < gap < bound:
            is_first, bound = bound == math.inf, gap
            self._merge(bound * _SLACK)
            if is_first and self._is_long():
                self._sweep()
                merged = np.zeros(len(self._positions), bool)
                merged[self._labels] = start
                gap = bound = self._left.across(merged)
            if bound > _NOTHING:
                source, sink = self._labels[-2:]
                found = self._left.cut(source, sink, bound)
                best, gap = found[self._labels], self._left.across(found)
        return best

    def _merge(self, bound: float) -> None:
        """Make one vertex of all that arcs above a bound tie together."""
        label, count = self._left.tied(bound)
        if count == len(label):
            return
        self._labels = label[self._labels]
        positions = np.full(count, np.inf)
        np.minimum.at(positions, label, self._positions)
        self._positions = positions
        left = self._left
        tails, heads = label[left.tails], label[left.heads]
        kept = (tails != heads) & (left.capacities > 0)
        self._left = _Arcs(tails[kept], heads[kept], left.capacities[kept], count)

    def _is_long(self) -> bool:
        least, most = _SWEPT
        return len(self._positions) >= least and len(self._left.tails) <= most

    def _sweep(self) -> None:
        """Send what single passes along the graph can, up and down.

        Augmenting paths take time by their length; a pass carries all that is sent far at once.
        """
        left, count = self._left, len(self._positions)
        source, sink = self._labels[-2:]
        from_source, to_sink = left.tails == source, left.heads == sink
        # What the source can send to a vertex, less what it can pass on to the sink.
        spare = np.bincount(left.heads[from_source], left.capacities[from_source], count)
        spare -= np.bincount(left.tails[to_sink], left.capacities[to_sink], count)
        spare[[source, sink]] = 0.0
        inner = ~(from_source | to_sink | (left.heads == source) | (left.tails == sink))
        tails, heads, capacities = (
            each[inner] for each in (left.tails, left.heads, left.capacities)
        )
        pairs = _Pairs(tails, heads, capacities, self._positions)
        spare = np.array(pairs.swept(spare.tolist()))
        tails, heads, capacities = pairs.arcs()
        above, below = np.flatnonzero(spare > 0), np.flatnonzero(spare < 0)
        self._left = _Arcs(
            np.concatenate([tails, np.full(len(above), source), below]),
            np.concatenate([heads, above, np.full(len(below), sink)]),
            np.concatenate([capacities, spare[above], -spare[below]]),
            count,
        )


class _Arcs:
    """Arcs ordered by tail and head, each with the one back beside it."""

    def __init__(self, tails: Any, heads: Any, capacities: Any, count: int) -> None:
        both = np.concatenate([tails * count + heads, heads * count + tails])
        keys, inverse = np.unique(both, return_inverse=True)
        self.tails, self.heads = keys // count, keys % count
        self.capacities = np.bincount(inverse[: len(tails)], capacities, len(keys))
        self._back = np.lexsort((self.tails, self.heads))
        self._starts = np.searchsorted(self.tails, np.arange(count + 1)).astype(np.int32)
        self._indices = self.heads.astype(np.int32)

    def _matrix(self, values: Any) -> Any:
        from scipy.sparse import csr_array  # noqa: PLC0415 - loaded when a graph is cut

        count = len(self._starts) - 1
        return csr_array((values, self._indices, self._starts), (count, count))

    def across(self, sink_side: Any) -> float:
        """Return the capacity that a cut has: what it costs more than the least, at most."""
        return float(self.capacities[~sink_side[self.tails] & sink_side[self.heads]].sum())

    def tied(self, bound: float) -> tuple[Any, int]:
        """Return numbers for the vertices, one for all that arcs above a bound tie, and how many.

        Two are tied where arcs lead from one to the other and back.
        """
        from scipy.sparse import csr_array  # noqa: PLC0415
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

        count = len(self._starts) - 1
        tied = np.flatnonzero(self.capacities > bound)
        if not len(tied):
            return np.arange(count), count
        starts = np.searchsorted(tied, self._starts).astype(np.int32)
        ones = np.ones(len(tied), np.int8)
        ties = csr_array((ones, self._indices[tied], starts), (count, count))
        number, label = connected_components(ties, connection="strong")
        return label.astype(np.int64), number

    def cut(self, source: int, sink: int, bound: float) -> Any:
        """Send a flow no larger than a bound; return the sink's side of its cut."""
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow  # noqa: PLC0415

        scale = _WHOLE / bound
        whole = (np.minimum(self.capacities, bound) * scale).astype(np.int32)
        whole[self.capacities > bound * _SLACK] = _UNCUT
        # Each arc has one back, so that scipy adds none and the flow is in the same order.
        flow = maximum_flow(self._matrix(whole), source, sink).flow.data
        self.capacities = np.maximum(self.capacities - flow * (1 / scale), 0.0)
        # A vertex from which the sink can still be reached is on the side of the sink.
        residual = self._matrix((whole - flow)[self._back]).copy()
        residual.eliminate_zeros()
        reached, _ = breadth_first_order(residual, sink, return_predecessors=True)
        found = np.zeros(len(self._starts) - 1, bool)
        found[reached] = True
        return found


class _Pairs:
    """The arcs between two vertices each, by the order of the vertices in the graph."""

    def __init__(self, tails: Any, heads: Any, capacities: Any, positions: Any) -> None:
        order = np.lexsort((np.arange(len(positions)), positions))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self._order = order.tolist()
        is_up = rank[tails] < rank[heads]
        self._ends = np.where(is_up, tails, heads), np.where(is_up, heads, tails)
        keys, inverse = np.unique(self._ends[0] * len(order) + self._ends[1], return_inverse=True)
        self._ends = keys // len(order), keys % len(order)
        both = np.zeros((2, len(keys)))
        np.add.at(both, ((~is_up).astype(np.int64), inverse), capacities)
        self._both: list[list[float]] = both.tolist()

    def arcs(self) -> tuple[Any, Any, Any]:
        """Return tails, heads and capacities of all arcs, those without capacity left out."""
        low, high = self._ends
        tails, heads = np.concatenate([low, high]), np.concatenate([high, low])
        capacities = np.concatenate(self._both)
        some = capacities > 0
        return tails[some], heads[some], capacities[some]

    def swept(self, spare: list[float]) -> list[float]:
        """Send what is spare to where it lacks, up and down the graph twice; return the rest."""
        beside: list[list[list[tuple[int, int]]]] = [[[] for _ in spare] for _ in range(2)]
        for number, (low, high) in enumerate(zip(*(e.tolist() for e in self._ends), strict=True)):
            beside[0][low].append((high, number))
            beside[1][high].append((low, number))
        for turn in range(4):
            down = turn % 2
            order = self._order[::-1] if down else self._order
            _send(spare, order, beside[down], self._both[down], self._both[not down])
        return spare


def _send(
    spare: list[float],
    order: list[int],
    beside: list[list[tuple[int, int]]],
    capacities: list[float],
    backward: list[float],
) -> None:
    """Send what is spare along the order, no more than what lies ahead can take."""
    takes = [max(-each, 0.0) for each in spare]
    for vertex in reversed(order):
        for other, arc in beside[vertex]:
            takes[vertex] += min(capacities[arc], takes[other])
        if spare[vertex] > 0:
            takes[vertex] = max(takes[vertex] - spare[vertex], 0.0)
    for vertex in order:
        for other, arc in beside[vertex] if spare[vertex] > 0 else ():
            sent = min(spare[vertex], capacities[arc], takes[other])
            if sent > 0:
                spare[vertex] -= sent
                spare[other] += sent
                takes[other] -= sent
                capacities[arc] -= sent
                backward[arc] += sent
