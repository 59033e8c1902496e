"""How a contraction is cut into boxes that fit the cache: pure planning over extents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from softcuda.backends.host.routes import Route
from softcuda.contraction.axes import Axes

__all__ = ["TileLimits", "Tiling", "tilings_of", "whole_tiling"]

Labels = tuple[int, ...]

# Neighbours that are read or written together before other labels get room in a box: so many of
# the largest operand, so many of each, then so many.
_RUNS: Final[tuple[tuple[int, ...], ...]] = ((1, 64, 256), (1, 128, 512), (1024, 64, 256))

# The same of a result in place: whole matrices of it, or neighbours of several.
_IN_PLACE_RUNS: Final[tuple[tuple[int, ...], ...]] = ((1, 64, 256), (1 << 12,), (1 << 13,))

# Below this m, n or k products are thin; classes up to that stay whole.
_NARROW: Final = 64
_THIN: Final = 256
_CACHED_ELEMS: Final = 1 << 18

# A thin axis is filled up to a multiple of what kernels of BLAS compute at a time: along rows of
# the result in memory, and across them. With n = 23, OpenBLAS takes 1.4 times as long as with 24.
_PADDED: Final = 128
_PAD_ALONG: Final = 8
_PAD_ACROSS: Final = 4

# Tiles of the result that one of several threads computes at a time.
_LEAST_PARTS: Final = 8
_LEAST_TILE: Final = 1 << 13
_SHARED_PARTS: Final = 24  # of a result in place
_SHARED_TILES: Final = (1 << 16, 1 << 18, 1 << 19)


@dataclass(frozen=True, slots=True)
class TileLimits:
    """The most elements of what is packed at a time.

    Attributes:
        m: of a tile along m.
        n: of a tile along n.
        k: of a tile along k.
        tile: of a tile.
        whole: of an operand that is packed once, before the first box.
        apart: the most multiplications of a product that several threads may ask for at once,
            where BLAS cannot be told to leave each to the thread that asks; 0 where only one may.
    """

    m: int
    n: int
    k: int
    tile: int
    whole: int
    apart: int = 0


class _Goal(NamedTuple):
    """Whether boxes are for several threads, and which runs of neighbours they should have."""

    is_shared: bool
    runs: tuple[int, ...]


class Sizes(NamedTuple):
    """Elements of scratch for a, b and out, and for a second product where k is cut."""

    a: int
    b: int
    out: int
    partial: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a route is cut into boxes.

    Attributes:
        chunks: the extent of a box along each label.
        tiled: whether a, b and out are packed box by box; a or b that is packed and not tiled
            is packed whole, before the first box.
        sizes: elements of scratch.
        is_shared: whether several threads take a box each, and tiles are a thread's own.
        pads: elements added to the axes m and n of what is packed, for BLAS's widest kernels.
    """

    chunks: dict[int, int]
    tiled: tuple[bool, ...]
    sizes: Sizes
    is_shared: bool = False
    pads: tuple[int, int] = (0, 0)

    @property
    def whole(self) -> Sizes:
        """Elements of scratch that all threads see."""
        if not self.is_shared:
            return self.sizes
        a, b, _ = (0 if x else size for x, size in zip(self.tiled, self.sizes, strict=False))
        return Sizes(a, b, 0, 0)

    @property
    def own(self) -> Sizes:
        """Elements of scratch of each thread."""
        return Sizes(*(size - seen for size, seen in zip(self.sizes, self.whole, strict=True)))


def whole_tiling(route: Route) -> Tiling:
    """Return the one box of a route that packs nothing."""
    return Tiling(dict(route.pair.extents), (False, False, False), Sizes(0, 0, 0, 0), False)


def tilings_of(route: Route, limits: TileLimits) -> Iterator[Tiling]:
    """Yield ways to cut a route into boxes of which every packed tile fits the limits.

    Where products are thin, copies take longer than they do: then there is a way with tiles that
    stay in a second-level cache, and where the result alone goes by tiles, one with tiles of
    four times the limit, of which more lies side by side in a and in the result.
    """
    c, pair = route.pair.classes, route.pair
    tiles = [limits.tile]
    if any(route.packed) and min(pair.count(x) for x in (c.m, c.n, c.k)) < _THIN:
        tiles.append(min(limits.tile, _CACHED_ELEMS))
        if _tiled(route, limits) == (False, False, True):
            tiles.append(4 * limits.tile)
    first = _tiling(route, limits, tiles[0], _Goal(False, _RUNS[0]))
    yield first
    for tile in [each for each in dict.fromkeys(tiles) if each != tiles[0]]:
        yield _tiling(route, limits, tile, _Goal(False, _RUNS[0]))
    if limits.apart:
        most = max(pair.out.numel // _LEAST_PARTS, _LEAST_TILE)
        tiles = [min(tile, most, limits.tile) for tile in _SHARED_TILES]
        runs = _RUNS
        if not any(first.tiled):
            tiles, runs = tiles[:1], _IN_PLACE_RUNS if not route.packed[2] else runs[:1]
        for tile in dict.fromkeys(tiles):
            for goal in runs:
                yield _tiling(route, limits, tile, _Goal(True, goal))


def _tiled(route: Route, limits: TileLimits) -> tuple[bool, ...]:
    """Return which operands are packed box by box: the result, and what is too large as a whole."""
    return tuple(
        is_packed and (number == 2 or axes.numel > limits.whole)
        for number, (is_packed, axes) in enumerate(zip(route.packed, route.operands, strict=True))
    )


def _tiling(route: Route, limits: TileLimits, tile: int, goal: _Goal) -> Tiling:
    cutter = _Cutter(route, limits, tile, goal)
    cutter.cut()
    chunks, tiled = cutter.chunks, cutter.tiled
    a, b, out = (
        0 if not is_packed else _count(chunks, axes.labels) if is_tiled else axes.numel
        for is_packed, is_tiled, axes in zip(route.packed, tiled, route.operands, strict=True)
    )
    is_cut = any(chunks[label] < route.pair.extents[label] for label in route.k)
    pads = _pads(route, chunks) if limits.apart else (0, 0)
    m, n = (_count(chunks, labels) for labels in (route.m.axis, route.n.axis))
    a, b = a + a // m * pads[0], b + b // n * pads[1]
    out = out // (m * n) * (m + pads[0]) * (n + pads[1])
    sizes = Sizes(a, b, out, out if is_cut else 0)
    return Tiling(chunks, tiled, sizes, goal.is_shared, pads)


def _pads(route: Route, chunks: dict[int, int]) -> tuple[int, int]:
    """Return what thin axes m and n get beside their elements, where both who have them are packed.

    Rows and columns that fill no kernel of BLAS take as long as several that do.
    """
    made = []
    for packed, labels in zip(route.packed, (route.m.axis, route.n.axis), strict=False):
        extent = _count(chunks, labels)
        unit = _PAD_ALONG if route.orders[2][-1:] == labels[-1:] else _PAD_ACROSS
        is_whole = all(chunks[x] == route.pair.extents[x] for x in labels)
        fits = packed and route.packed[2] and is_whole and unit <= extent <= _PADDED
        made.append(-extent % unit if fits else 0)
    return made[0], made[1]


def _count(chunks: dict[int, int], labels: Sequence[int]) -> int:
    return math.prod(chunks[label] for label in labels)


class _Cutter:
    """Grows a box, label by label: the fastest first, then the smallest class.

    Along a matrix axis of an operand that is not tiled a box must be one stretch: an outer label
    grows only where the labels inside it are whole.
    """

    def __init__(self, route: Route, limits: TileLimits, tile: int, goal: _Goal) -> None:
        self.route = route
        pair = route.pair
        self.extents = pair.extents
        self.tiled = _tiled(route, limits)
        self.goal = goal
        # What is cut: labels, and the most elements of a box.
        self.pieces = [
            (axes.labels, tile)
            for axes, is_tiled in zip(route.operands, self.tiled, strict=True)
            if is_tiled
        ]
        if goal.is_shared and not route.packed[2]:
            self.pieces.append((pair.out.labels, max(pair.out.numel // _SHARED_PARTS, 1)))
        inside = {label for labels, _ in self.pieces for label in labels}
        self.chunks = {x: 1 if x in inside else extent for x, extent in pair.extents.items()}
        # Of each class: its labels, the outermost first; the most elements; its matrix axis.
        self.classes: dict[str, tuple[Labels, int]] = {
            "m": (route.m.loops + route.m.axis, limits.m),
            "n": (route.n.loops + route.n.axis, limits.n),
            "k": (route.k, limits.k),
        }
        self.owner = {x: name for name, (labels, _) in self.classes.items() for x in labels}
        readers = {"m": (0, 2), "n": (1, 2), "k": (0, 1)}
        axes = {"m": route.m.axis, "n": route.n.axis, "k": route.k}
        self.stretches = [
            axes[name] for name, who in readers.items() if not all(self.tiled[x] for x in who)
        ]

    def cut(self) -> None:
        """Find the box."""
        route = self.route
        if not route.packed[2]:
            for label in reversed(route.k):  # nothing can be added to a result in place
                self.chunks[label] = self.extents[label]
            if self.goal.is_shared and self.goal.runs[0] == 1:
                # whole matrices, rather than parts of more of them
                out = route.pair.out
                for _, label in sorted(zip(map(abs, out.strides), out.labels, strict=True)):
                    if label in route.m.axis + route.n.axis:
                        self._grow(label, None)
        for labels, _ in self.classes.values():  # cut, a thin class has the others read again
            if _count(self.extents, labels) <= _NARROW:
                for label in reversed(labels):
                    self._grow(label, None)
        biggest = sorted(range(3), key=lambda x: -route.operands[x].numel)
        lead, *others = self.goal.runs
        self._run(route.operands[biggest[0] if route.packed[2] else 2], lead)
        for elems in others:
            for number in biggest:
                self._run(route.operands[number], elems)
        waiting = {name: list(labels) for name, (labels, _) in self.classes.items()}
        while any(waiting.values()):
            name = min(
                (x for x in waiting if waiting[x]),
                key=lambda x: _count(self.chunks, self.classes[x][0]),
            )
            self._grow(waiting[name].pop(), None)
        for label in reversed(route.pair.classes.batch):
            self._grow(label, None)

    def _run(self, axes: Axes, elems: int) -> None:
        """Let a box have so many neighbours of an operand, as they lie in memory."""
        run = 1
        for stride, label in sorted(zip(map(abs, axes.strides), axes.labels, strict=True)):
            if run >= elems or (stride and stride != run):
                break
            self._reach(label, -(-elems // run))
            run *= self.chunks[label]
            if self.chunks[label] < self.extents[label]:
                break

    def _reach(self, label: int, elems: int) -> None:
        """Let a box have a run of a label, and whole what a stretch has inside it."""
        for stretch in self.stretches:
            if label in stretch:
                for inner in reversed(stretch[stretch.index(label) + 1 :]):
                    self._grow(inner, None)
        self._grow(label, elems)

    def _grow(self, label: int, run: int | None) -> None:
        """Let a box have as much of a label as fits, or `run`, in parts of nearly equal size."""
        extent, now = self.extents[label], max(self.chunks[label], 1)
        for stretch in self.stretches:
            if label in stretch:
                inner = stretch[stretch.index(label) + 1 :]
                if any(self.chunks[x] < self.extents[x] for x in inner):
                    return
        room = extent if run is None else run
        if label in self.owner:
            labels, most = self.classes[self.owner[label]]
            room = min(room, most // max(_count(self.chunks, labels), 1) * now)
        for labels, most in self.pieces:
            if label in labels:
                room = min(room, most // max(_count(self.chunks, labels), 1) * now)
        parts = -(-extent // max(room, 1))
        self.chunks[label] = max(-(-extent // max(parts, 1)), now)
