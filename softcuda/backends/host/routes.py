"""Routes of a contraction: which operands BLAS takes where they lie, and how others are packed.

A product of matrices wants two axes of each operand, one of them with stride 1. An axis is a run
of labels; labels of m and n beside the runs become loops of products. Where an operand has no such
axes, or only short ones, it is packed: copied into the order that the product wants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from softcuda.backends.host.contraction import Pair
from softcuda.contraction.axes import Axes
from softcuda.graph.shapes import reshape_strides

__all__ = ["Asked", "Route", "Run", "matrix_axes", "routes_of"]

Labels = tuple[int, ...]

# Rows of a tile that products should have at least.
_LEAST_ROWS: Final = 128


class Run(NamedTuple):
    """The labels of m or n: those that are looped over, and those that are one matrix axis."""

    loops: Labels
    axis: Labels


class Asked(NamedTuple):
    """What a method demands of routes.

    Attributes:
        in_place: whether a, b and out may be taken where they lie.
        by_columns: whether b is packed with k as its fastest axis, and a too.
        tile: the most elements of what is packed at a time.
        whole: the most elements of an operand that is packed once.
    """

    in_place: tuple[bool, ...]
    by_columns: bool
    tile: int
    whole: int


@dataclass(frozen=True, slots=True)
class Route:
    """One way to do a contraction.

    Attributes:
        pair: the contraction.
        packed: whether a, b and out are packed.
        m: labels of m.
        n: labels of n.
        k: labels of k, outermost first.
        orders: labels of a, b and out in the order in which they lie once packed: loops, then
            the two axes of the matrices; of an operand in place, its own.
    """

    pair: Pair
    packed: tuple[bool, ...]
    m: Run
    n: Run
    k: Labels
    orders: tuple[Labels, Labels, Labels]

    @property
    def loops(self) -> Labels:
        """Labels that are looped over, in the order in which the result lies in memory."""
        return _loops(self.pair, self.m, self.n)

    @property
    def operands(self) -> tuple[Axes, Axes, Axes]:
        """Axes of a, b and out."""
        return self.pair.a, self.pair.b, self.pair.out

    @property
    def matrices(self) -> tuple[tuple[Labels, Labels], ...]:
        """(rows, columns) of a, b and out."""
        return (self.m.axis, self.k), (self.k, self.n.axis), (self.m.axis, self.n.axis)


def _unit_label(axes: Axes) -> int | None:
    """Return the label that runs fastest in memory."""
    moving = [(abs(s), x) for s, x in zip(axes.strides, axes.labels, strict=True) if s]
    return min(moving)[1] if moving else None


def _by_stride(labels: Labels, axes: Axes) -> Labels:
    """Return labels in the order in which an operand has them in memory, the fastest last."""
    step = dict(zip(axes.labels, axes.strides, strict=True))
    return tuple(sorted(labels, key=lambda label: -abs(step[label])))


def _fused_axis(axes: Axes, labels: Labels) -> tuple[int, int] | None:
    """Return (extent, stride) of several axes as one, or None where only a copy has it."""
    group = axes.over(labels)
    extent = math.prod(group.dims)
    if extent == 1:
        return 1, 0
    strides = reshape_strides(group.dims, group.strides, (extent,))
    return None if strides is None else (extent, strides[0])


def matrix_axes(loops: Axes, rows: tuple[int, int], columns: tuple[int, int]) -> Axes:
    """Return the axes of a stack of matrices: loops, rows, columns.

    Args:
        loops: the outer axes.
        rows: (extent, stride).
        columns: (extent, stride).
    """
    width = columns[0]
    # An axis of extent 1 gets the stride of a dense matrix: NumPy then sees what BLAS takes.
    down = rows[1] if rows[0] > 1 else max(width * max(columns[1], 1), 1)
    across = columns[1] if width > 1 else (1 if rows[1] != 1 else max(rows[0], 1))
    return Axes(
        (*loops.labels, -1, -2), (*loops.dims, rows[0], width), (*loops.strides, down, across)
    )


def routes_of(pair: Pair, asked: Asked) -> Iterator[Route]:
    """Yield every route of a contraction without private labels, those that pack least first.

    Args:
        pair: the contraction; no extent is 0.
        asked: what the method demands.
    """
    for packed in sorted(itertools.product((False, True), repeat=3), key=sum):
        if all(is_packed or ok for is_packed, ok in zip(packed, asked.in_place, strict=True)):
            yield from _routes(pair, packed, asked)


def _loops(pair: Pair, m: Run, n: Run) -> Labels:
    return _by_stride(pair.classes.batch + m.loops + n.loops, pair.out)


def _routes(pair: Pair, packed: tuple[bool, ...], asked: Asked) -> Iterator[Route]:
    """Yield the routes that pack these operands."""
    c = pair.classes
    deepest = pair.count(c.k) * _LEAST_ROWS
    cut = any(p and x.numel > asked.whole for p, x in zip(packed, (pair.a, pair.b), strict=False))
    if cut and not packed[2] and deepest > asked.tile:
        return  # parts of k would be summed in the result itself
    runs_m = _runs(c.m, (pair.a, pair.out), (packed[0], packed[2]))
    runs_n = _runs(c.n, (pair.b, pair.out), (packed[1], packed[2]))
    runs_k = _runs(c.k, (pair.a, pair.b), packed[:2])
    for m, n, k in itertools.product(runs_m, runs_n, runs_k):
        if k.loops:
            continue
        matrices = ((m.axis, k.axis), (k.axis, n.axis), (m.axis, n.axis))
        operands = (pair.a, pair.b, pair.out)
        if not all(
            is_packed or _is_blas(axes, *labels)
            for is_packed, axes, labels in zip(packed, operands, matrices, strict=True)
        ):
            continue
        loops = _loops(pair, m, n)
        choices = [
            _orders(axes, loops, labels, number, asked) if is_packed else [axes.labels]
            for number, (is_packed, axes, labels) in enumerate(
                zip(packed, operands, matrices, strict=True)
            )
        ]
        for a, b, out in itertools.product(*choices):
            yield Route(pair, packed, m, n, k.axis, (a, b, out))


def _orders(
    axes: Axes, loops: Labels, matrix: tuple[Labels, Labels], number: int, asked: Asked
) -> list[Labels]:
    """Return the orders in which an operand may be packed: by rows, or by columns."""
    rows, columns = matrix
    outer = tuple(x for x in loops if x in axes.labels)
    by_rows, by_columns = outer + rows + columns, outer + columns + rows
    if asked.by_columns and number < 2:
        return [by_columns if number else by_rows]
    if number == 2:
        return list(dict.fromkeys((by_rows, by_columns)))
    return [by_columns if rows and (not columns or _unit_label(axes) == rows[-1]) else by_rows]


def _runs(labels: Labels, operands: tuple[Axes, Axes], packed: tuple[bool, ...]) -> list[Run]:
    """Return how labels of two operands can be loops and one axis.

    Those packed take any order: that of either operand. In one that is not, an axis is a run.
    """
    if not labels:
        return [Run((), ())]
    orders = list(dict.fromkeys(_by_stride(labels, axes) for axes in operands))
    placed = [axes for axes, is_packed in zip(operands, packed, strict=True) if not is_packed]
    if not placed:
        return [Run((), order) for order in orders]
    found: dict[Run, None] = {}
    for order in orders:
        for segment in _segments(order, placed):
            # Where the other operand is packed, outer labels of a run may as well be loops.
            for start in range(len(segment) if len(placed) == 1 else 1):
                axis = segment[start:]
                found[Run(tuple(x for x in order if x not in axis), axis)] = None
    return list(found)


def _segments(order: Labels, placed: list[Axes]) -> list[Labels]:
    """Return the longest stretches of an order that are one axis in all operands."""
    made: list[Labels] = []
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or not all(
            _fused_axis(axes, order[start : stop + 1]) for axes in placed
        ):
            made.append(order[start:stop])
            start = stop
    return made


def _is_blas(axes: Axes, rows: Labels, columns: Labels) -> bool:
    """Return whether BLAS takes a matrix of these runs without a copy."""
    first, second = _fused_axis(axes, rows), _fused_axis(axes, columns)
    if first is None or second is None:
        return False
    (height, down), (width, across) = first, second
    by_rows = (across == 1 or width == 1) and (height == 1 or down >= max(width, 1))
    by_columns = (down == 1 or height == 1) and (width == 1 or across >= max(height, 1))
    return by_rows or by_columns
