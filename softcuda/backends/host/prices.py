"""The price of a route: one rule, which knows nothing but extents and strides.

    products    2 m n k / 120 ns * (1 + c/m + c/n + 8/k) + 100 ns each, with c = 6; from
                m n k = 2^20 on half of that, with c = 16
    copies      0.9 ns an element, 1.3 in a transposition, more for short runs, + 5 us a tile
    in place    0.1 ns an element that is read and 0.2 that is written, more for short runs

Measured with OpenBLAS and NumPy on two AVX-512 cores, 2026-11; what counts is their proportion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from softcuda.backends.host.contraction import Pair
from softcuda.backends.host.routes import Asked, Route, routes_of
from softcuda.backends.host.tiling import TileLimits, Tiling, tilings_of
from softcuda.contraction.axes import Axes

__all__ = ["Choice", "cheapest", "price_ns"]

Labels = tuple[int, ...]

_FLOPS_PER_NS: Final = 120.0
_SMALL_WORK: Final = 1 << 18  # multiplications that take less time than the whole search
_CALL_NS: Final = 100.0  # of one product among the loops of numpy.matmul
_TILE_NS: Final = 5000.0
_SHARED_WORK: Final = 1 << 20  # m * n * k from which OpenBLAS shares a product
_SHARED_ELEMS: Final = 1 << 15  # elements from which a copy is shared
_CACHED_ELEMS: Final = 1 << 19  # a larger tile does not stay in a second-level cache
_SHARE: Final = 2  # threads that the rule reckons with, whatever the machine has
_JUMP_NS: Final = 100.0  # the first line of a run in memory, where no prefetcher expects it


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
    if not any((*first.packed, *first.m.loops, *first.n.loops)):
        return Choice(first, tilings_of(first, limits)[0], price_ns(first))
    every = [first, *routes]
    floors = sorted((price_ns(route), number) for number, route in enumerate(every))
    if math.prod(pair.extents.values()) < _SMALL_WORK:
        floor, number = floors[0]
        return Choice(every[number], tilings_of(every[number], limits)[0], floor)
    best = Choice(first, tilings_of(first, limits)[0], math.inf)
    for floor, number in floors:
        if floor >= best.price_ns:
            break
        for tiling in tilings_of(every[number], limits):
            price = price_ns(every[number], tiling)
            if price < best.price_ns:
                best = Choice(every[number], tiling, price)
    return best


def price_ns(route: Route, tiling: Tiling | None = None) -> float:
    """Return what a route costs [ns]; without its boxes the least that it can cost."""
    pair, extents = route.pair, route.pair.extents
    box: Mapping[int, int] = extents if tiling is None else tiling.chunks
    m, n, k = (_count(box, labels) for labels in (route.m.axis, route.n.axis, route.k))
    calls = _count(extents, extents) / max(m * n * k, 1)
    is_shared = m * n * k >= _SHARED_WORK
    narrow = 16 if is_shared else 6  # OpenBLAS has kernels of their own for small products
    product = 2 * m * n * k / _FLOPS_PER_NS * (1 + narrow / m + narrow / n + 8 / k)
    if is_shared:
        product /= _SHARE
    total = calls * (product + _CALL_NS)
    repeats = _repeats(route, box)
    for number, axes in enumerate(route.operands):
        if number < 2 and not route.packed[number] and axes.numel >= _SHARED_ELEMS:
            total += axes.numel * (0.1 + _JUMP_NS / _side_by_side(axes, box)) / _SHARE
        if route.packed[number]:
            tile = _count(box, axes.labels)
            times = repeats[number] * axes.numel / max(tile, 1)
            total += times * _copy_ns(axes, route.orders[number], box)
    if not route.packed[2]:
        run = _side_by_side(pair.out, box, route.m.axis + route.n.axis)
        total += pair.out.numel * (0.2 + _JUMP_NS / run) / _SHARE
    return total


def _count(extents: Mapping[int, int], labels: Iterable[int]) -> int:
    return math.prod(extents[label] for label in labels)


def _repeats(route: Route, box: Mapping[int, int]) -> tuple[float, float, float]:
    """Return how often each operand is packed: b anew for every part of a, if both are cut."""
    extents = route.pair.extents
    parts = _count(extents, route.pair.classes.m) / _count(box, route.pair.classes.m)
    cut = all(
        any(box[label] < extents[label] for label in axes.labels) for axes in route.operands[:2]
    )
    return 1.0, parts if cut and all(route.packed[:2]) else 1.0, 1.0


def _copy_ns(axes: Axes, order: Labels, box: Mapping[int, int]) -> float:
    """Return what one tile costs between where an operand lies and where it is packed."""
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
    each = 0.9 + (3 / together if together > 1 else 0.4 + 4 / fastest)
    each += _JUMP_NS / _side_by_side(axes, box)
    elems = _count(box, order)
    if elems > _CACHED_ELEMS:
        each += 0.3
    return _TILE_NS + elems * each / (_SHARE if elems >= _SHARED_ELEMS else 1)


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
