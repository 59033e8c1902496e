"""The price of a route: one rule, which knows nothing but extents and strides.

    small products  2 m n k / 120 ns * (1 + 6/m + 6/n + 5/k), and 100 ns each
    by vectors      0.1 ns an element of the matrix, and 50 ns each
    large ones      half of 2 m n k / 120 ns * (1 + 16/m + 16/n + 20/k), and 8 us for each 384 of k:
                    those from m n k = 2^20 on, which BLAS shares among its threads
    copies          0.6 ns an element, 0.8 in a transposition, more for short runs; 3 us a tile,
                    15 where threads share it
    in place        0.1 ns an element that is read, 0.3 that is written, more for short runs
    boxes           25 us each where threads take a box each, half of all else then, and copies of
                    runs 0.42 ns an element

Measured with OpenBLAS (its kernels for AVX2 and for AVX-512) and NumPy on two cores, 2026-11 and
2026-12; what counts is their proportion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from softcuda.backends.host.blocks import MANY_TERMS
from softcuda.backends.host.contraction import Pair
from softcuda.backends.host.routes import Asked, Route, routes_of
from softcuda.backends.host.tiling import TileLimits, Tiling, tilings_of, whole_tiling
from softcuda.contraction.axes import Axes

__all__ = ["Choice", "cheapest", "price_ns"]

Labels = tuple[int, ...]

_FLOPS_PER_NS: Final = 120.0
_SMALL_WORK: Final = 1 << 18  # multiplications that take less time than the whole search
_CALL_NS: Final = 100.0  # of one product among the loops of numpy.matmul
_READ_NS: Final = 0.1  # of an element of a matrix that meets a vector
_HANDOVER_NS: Final = 8000.0  # between the threads of BLAS that share a product
_DEPTH: Final = 384  # along k, after which they wait for each other
_CONTENTION: Final = 1.5  # of copies between large products: threads of BLAS still wait for work
_TILE_NS: Final = 3000.0
_TEAM_NS: Final = 15000.0  # of a tile that is copied by several threads
_BOX_NS: Final = 25000.0  # calls of a box, made anew where operands are other arrays
_JOB_NS: Final = 40000.0  # until threads begin, and are waited for
_SHARED_WORK: Final = 1 << 20  # m * n * k from which OpenBLAS shares a product
_SHARED_ELEMS: Final = 1 << 15  # elements from which a copy is shared
_CACHED_ELEMS: Final = 1 << 19  # a larger tile does not stay in a second-level cache
_SHARE: Final = 2  # threads that the rule reckons with, whatever the machine has
_ROW_NS: Final = 10.0  # the same of a row of one matrix, where others of a box are neighbours
_JUMP_NS: Final = 50.0  # the first line of a run in memory, where no prefetcher expects it


class _Cuts(NamedTuple):
    """Boxes, how many of full size they make, and items for threads: some boxes each."""

    boxes: int
    full: float
    items: int


class Choice(NamedTuple):
    """A route with its boxes, and what they cost by the rule."""

    route: Route
    tiling: Tiling
    price_ns: float


def cheapest(pair: Pair, asked: Asked, limits: TileLimits) -> Choice:
    """Return the cheapest route of a contraction without private labels.

    One that is a plain product is taken as it lies; a small one has its boxes left out of the
    comparison.

    Args:
        pair: the contraction; no extent is 0.
        asked: what the method demands.
        limits: bounds of tiles.
    """
    routes = routes_of(pair, asked)
    first = next(routes)
    is_small = math.prod(pair.extents.values()) < _SMALL_WORK
    if not (any(first.packed) or first.m.loops or first.n.loops):
        if is_small:
            return Choice(first, whole_tiling(first), 0.0)
        return min(_choices(first, limits), key=_price_of)
    every = [first, *routes]
    floors = sorted((floor_ns(route), number) for number, route in enumerate(every))
    if is_small:
        return next(_choices(every[floors[0][1]], limits))
    best = min(_choices(every[floors[0][1]], limits), key=_price_of)
    for floor, number in floors[1:]:
        if floor >= best.price_ns:
            break
        best = min((best, *_choices(every[number], limits)), key=_price_of)
    return best


def _price_of(choice: Choice) -> float:
    return choice.price_ns


def _choices(route: Route, limits: TileLimits) -> Iterator[Choice]:
    for tiling in tilings_of(route, limits):
        yield Choice(route, tiling, price_ns(route, tiling))


def price_ns(route: Route, tiling: Tiling) -> float:
    """Return what a route costs [ns].

    Args:
        route: the route.
        tiling: its boxes.
    """
    box, packed = tiling.chunks, route.packed
    repeats = _repeats(route, tiling)
    if not tiling.is_shared:
        copies = sum(
            _copy_ns(axes, order, box, repeat)
            for axes, order, repeat, is_packed in zip(
                route.operands, route.orders, repeats, packed, strict=True
            )
            if is_packed
        )
        if _is_handed_over(route, box) and _cuts(route, tiling).boxes > 1:
            copies *= _CONTENTION
        return _products_ns(route, tiling) + _passes_ns(route, box) / _SHARE + copies
    if _makes_long_dots(route, box):
        return math.inf
    extents, work, before = route.pair.extents, _products_ns(route, tiling), 0.0
    for number, (axes, order) in enumerate(zip(route.operands, route.orders, strict=True)):
        if packed[number] and tiling.tiled[number]:
            work += repeats[number] * axes.numel * _each_ns(axes, order, box, is_shared=True)
        elif packed[number]:
            before += _copy_ns(axes, order, extents, 1.0)
    deep = -(-_count(extents, route.k) // _count(box, route.k))
    work += 0.3 * (deep - 1) * route.pair.out.numel
    cuts = _cuts(route, tiling)
    each = _BOX_NS * cuts.boxes / cuts.items
    each += (work + _passes_ns(route, box)) / (cuts.full * cuts.items / cuts.boxes)
    return before + _JOB_NS + max(_rounds(cuts) * each, cuts.boxes * _BOX_NS)


def _rounds(cuts: _Cuts) -> float:
    """Return how many items of full size a thread computes until all are done."""
    whole, rest = divmod(cuts.full * cuts.items / cuts.boxes, 1.0)
    return -(-whole // _SHARE) + (0.0 if whole % _SHARE else rest)


def floor_ns(route: Route) -> float:
    """Return less than a route can cost, whatever its boxes [ns]."""
    c, pair = route.pair.classes, route.pair
    m, n, k = (pair.count(labels) for labels in (route.m.axis, route.n.axis, c.k))
    total = 2 * math.prod(pair.extents.values()) / (_FLOPS_PER_NS * _SHARE)
    total *= 1 + 6 / max(m, n) + 6 / min(m, n) + 4 / k
    each = (0.42 if x else 0.0 for x in route.packed)
    copies = sum(axes.numel * x for axes, x in zip(route.operands, each, strict=True))
    return total + copies / _SHARE


def _count(extents: Mapping[int, int], labels: Iterable[int]) -> int:
    return math.prod(extents[label] for label in labels)


def _repeats(route: Route, tiling: Tiling) -> tuple[float, float, float]:
    """Return how often each operand is packed: b anew for every part of a, if both are cut."""
    extents, box, c = route.pair.extents, tiling.chunks, route.pair.classes
    parts = _count(extents, c.m) / _count(box, c.m)
    cut = all(
        any(box[label] < extents[label] for label in axes.labels) for axes in route.operands[:2]
    )
    return 1.0, parts if cut and all(route.packed[:2]) and all(tiling.tiled[:2]) else 1.0, 1.0


def _cuts(route: Route, tiling: Tiling) -> _Cuts:
    """Return the boxes of the result, and in how many items threads take them."""
    c, extents, box = route.pair.classes, route.pair.extents, tiling.chunks
    batch, m, n = (
        math.prod(-(-extents[x] // box[x]) for x in labels) for labels in (c.batch, c.m, c.n)
    )
    inner = 1
    if any(tiling.tiled[:2]):
        inner = n if tiling.tiled[0] else m
    full = route.pair.out.numel / _count(box, route.pair.out.labels)
    return _Cuts(batch * m * n, full, batch * m * n // inner)


def _products_ns(route: Route, tiling: Tiling) -> float:
    """Return what all products cost: one thread where boxes are shared, else all of them."""
    extents, box, is_shared = route.pair.extents, tiling.chunks, tiling.is_shared
    m, n, k = (_count(box, labels) for labels in (route.m.axis, route.n.axis, route.k))
    calls = _count(extents, extents) / max(m * n * k, 1)
    m, n = m + tiling.pads[0], n + tiling.pads[1]
    if min(m, n) == 1:  # BLAS reads the larger operand once
        return calls * (_CALL_NS / 2 + _READ_NS * max(m, n) * k)
    if _is_turned(route):
        m, n = n, m
    flops = 2 * m * n * k / _FLOPS_PER_NS
    if m * n * k >= _SHARED_WORK and not is_shared:
        handovers = _HANDOVER_NS * -(-k // _DEPTH)
        return calls * (flops / _SHARE * (1 + 16 / m + 16 / n + 20 / k) + handovers)
    along = 4 * (n % 16).bit_count()  # columns beside those of vectors, by smaller kernels
    across = 5 * (m % 4).bit_count() - m % 4
    flops *= (1 + 6 / m + 6 / n + 5 / k) * (1 + along / n) * (1 + across / m)
    return calls * (flops + _CALL_NS)


def _makes_long_dots(route: Route, box: Mapping[int, int]) -> bool:
    """Return whether boxes are vectors, though the product has none, whose sums go by parts."""
    sides = route.m.axis, route.n.axis
    is_cut = min(_count(box, x) for x in sides) == 1 < min(map(route.pair.count, sides))
    return is_cut and route.pair.count(route.k) >= MANY_TERMS


def _is_handed_over(route: Route, box: Mapping[int, int]) -> bool:
    """Return whether BLAS shares a product of this box among its threads."""
    return _count(box, (*route.m.axis, *route.n.axis, *route.k)) >= _SHARED_WORK


def _is_turned(route: Route) -> bool:
    """Return whether rows of the result, not columns, are side by side where it is written."""
    order = route.orders[2] if route.packed[2] else _by_stride(route.pair.out)
    return bool(order) and order[-1] in route.m.axis


def _passes_ns(route: Route, box: Mapping[int, int]) -> float:
    """Return what one thread takes to read and write what is not packed."""
    total = 0.0
    for number, (axes, matrix) in enumerate(zip(route.operands, route.matrices, strict=True)):
        if route.packed[number] or (number < 2 and axes.numel < _SHARED_ELEMS):
            continue
        rows = _side_by_side(axes, box, matrix[0] + matrix[1])
        each = (0.1, 0.1, 0.3)[number] + _JUMP_NS / _side_by_side(axes, box) + _ROW_NS / rows
        total += axes.numel * each
    return total


def _copy_ns(axes: Axes, order: Labels, box: Mapping[int, int], repeat: float) -> float:
    """Return what all tiles cost between where an operand lies and where it is packed."""
    elems = _count(box, order)
    threads = _SHARE if elems >= _SHARED_ELEMS else 1
    tiles = repeat * axes.numel / max(elems, 1)
    begin = _TILE_NS if threads == 1 else _TEAM_NS
    return tiles * (begin + elems * _each_ns(axes, order, box, is_shared=False) / threads)


def _each_ns(axes: Axes, order: Labels, box: Mapping[int, int], *, is_shared: bool) -> float:
    """Return what one thread takes for an element of a tile."""
    step = dict(zip(axes.labels, axes.strides, strict=True))
    extent = dict(zip(axes.labels, axes.dims, strict=True))
    together = 1
    for label in reversed(order):
        if step[label] != together:
            break
        together *= box[label]
        if box[label] < extent[label]:
            break
    fastest = box[order[-1]] if order else 1
    each = 0.8 + 4 / fastest
    if together > 1:
        each = 0.42 + 2 / together if is_shared else 0.6 + 3 / together
    each += _JUMP_NS / _side_by_side(axes, box)
    return each + (0.3 if _count(box, order) > _CACHED_ELEMS else 0.0)


def _by_stride(axes: Axes) -> Labels:
    """Return labels as they lie in memory, the fastest last."""
    return tuple(x for _, x in sorted(zip(map(abs, axes.strides), axes.labels, strict=True))[::-1])


def _side_by_side(axes: Axes, box: Mapping[int, int], inside: Labels | None = None) -> int:
    """Return how many elements of a box, or of some labels of it, are neighbours in memory."""
    run = 1
    for stride, label in sorted(zip(map(abs, axes.strides), axes.labels, strict=True)):
        if (stride and stride != run) or (inside is not None and label not in inside):
            break
        run *= box[label]
        if box[label] < axes.dims[axes.labels.index(label)]:
            break
    return run
