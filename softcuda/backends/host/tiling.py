"""How a contraction is cut into boxes that fit the cache: pure planning over strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcuda.backends.host.contraction import Pair
from softcuda.contraction.axes import Axes

__all__ = ["TileLimits", "Tiling", "tiling_of", "unit_label"]

Labels = tuple[int, ...]

# Neighbours that are read or written together before other labels get room in a box.
_RUN_ELEMS: Final = 64

# Below this m, n or k copies take longer than products, and tiles are to stay in the cache.
_THIN: Final = 256
_CACHED_ELEMS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class TileLimits:
    """The most elements of a tile's m, n and k, and of a whole tile."""

    m: int
    n: int
    k: int
    tile: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a contraction is cut into boxes.

    Attributes:
        chunks: the extent of a box along each label.
        orders: labels of a, b and out in the order in which they are handed over: batch, then
            rows and depth, columns and depth, rows and columns.
        groups: how many labels batch, m and n have.
    """

    chunks: dict[int, int]
    orders: tuple[Labels, Labels, Labels]
    groups: tuple[int, int, int]

    def count(self, labels: Sequence[int]) -> int:
        """Return the elements of a box along labels."""
        return math.prod(self.chunks[label] for label in labels)


def tiling_of(pair: Pair, limits: TileLimits) -> Tiling:
    """Return boxes that fit the limits: the fastest labels first, then the smallest class."""
    c = pair.classes
    m, n = (
        _by_stride(labels, max((pair.out, axes), key=lambda x: x.numel))
        for labels, axes in ((c.m, pair.a), (c.n, pair.b))
    )
    larger = pair.a if pair.a.numel >= pair.b.numel else pair.b
    k = _by_stride(c.k, larger)
    is_thin = min(pair.count(labels) for labels in (m, n, k)) < _THIN
    most_elems = min(limits.tile, _CACHED_ELEMS) if is_thin else limits.tile
    chunks = dict.fromkeys((*c.batch, *m, *n, *k), 1)
    tiling = Tiling(
        chunks,
        (c.batch + m + k, c.batch + n + k, c.batch + m + n),
        (len(c.batch), len(m), len(n)),
    )
    classes = {"m": (m, limits.m), "n": (n, limits.n), "k": (k, limits.k)}
    owner = {label: name for name, (labels, _) in classes.items() for label in labels}
    for axes in sorted((pair.out, pair.a, pair.b), key=lambda x: -x.numel):
        label = unit_label(axes)
        if label is not None and label in owner:
            labels, most = classes[owner[label]]
            _grow(pair, tiling, label, labels, most, most_elems, _RUN_ELEMS)
    waiting = {name: list(reversed(labels)) for name, (labels, _) in classes.items()}
    while any(waiting.values()):
        name = min((x for x in waiting if waiting[x]), key=lambda x: tiling.count(classes[x][0]))
        labels, most = classes[name]
        _grow(pair, tiling, waiting[name].pop(0), labels, most, most_elems)
    for label in reversed(c.batch):
        _grow(pair, tiling, label, (), most_elems, most_elems)
    return tiling


def _by_stride(labels: Labels, axes: Axes) -> Labels:
    """Return labels in the order in which an operand has them in memory, the fastest last."""
    step = dict(zip(axes.labels, axes.strides, strict=True))
    return tuple(sorted(labels, key=lambda label: -abs(step[label])))


def _grow(
    pair: Pair,
    tiling: Tiling,
    label: int,
    labels: Sequence[int],
    most: int,
    tile: int,
    run: int | None = None,
) -> None:
    """Let a box have as much of a label as fits, or `run`, in parts of nearly equal size."""
    extent = pair.extents[label]
    room = extent if run is None else run
    room = min(room, most // max(tiling.count(labels), 1) * tiling.chunks[label])
    for order in tiling.orders:
        if label in order:
            room = min(room, tile // tiling.count(order) * tiling.chunks[label])
    parts = -(-extent // max(room, 1))
    tiling.chunks[label] = max(-(-extent // max(parts, 1)), tiling.chunks[label])


def unit_label(axes: Axes) -> int | None:
    """Return the label that runs fastest in memory."""
    moving = [(abs(s), x) for s, x in zip(axes.strides, axes.labels, strict=True) if s]
    return min(moving)[1] if moving else None
