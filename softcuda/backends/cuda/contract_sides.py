"""A side of a contraction, its rows or its columns, cut into boxes over several labels.

A box takes a part of each of a few labels. The label along which the operand is contiguous and the
one along which the result is both lie in the box, with enough neighbours for whole sectors; others
fill it. The rows of a box have two orders: that of `places`, in which they are summed and
stored, and that of `entries`, in which they are read. What is left of a label counts the boxes. A
flat side is one index over all labels, and a box is a run of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from softcuda.backends.cuda.contract_ways import Way
from softcuda.graph.params import Dims

__all__ = ["Digit", "Edge", "SideAxes", "SideBoxes", "distance", "joint_run", "side_boxes"]

SECTOR_BYTES: Final = 32
_PARTS: Final = (8, 16, 24, 32, 64)  # of a label that leads a box
_MAX_EDGES: Final = 2
MAX_DIGITS: Final = 8  # of an index in device code
NEIGHBOURS: Final = 8  # that are a sector of the result


class Digit(NamedTuple):
    """An axis of an index: `extent` values, each `step` further along a label's own axis."""

    axis: int
    extent: int
    step: int


class Edge(NamedTuple):
    """A label whose last box is smaller: its axis, and how much of it that box has."""

    axis: int
    limit: int


def distance(stride: int) -> float:
    """Return how far neighbours lie apart [elements]; infinity where they are one element."""
    return abs(stride) or math.inf


@dataclass(frozen=True, slots=True)
class SideAxes:
    """The labels of a side.

    Attributes:
        dims: their extents.
        source: strides in the operand [elements].
        result: strides in the result.
        extras: strides in further operands of the epilogue, a tuple each.
    """

    dims: Dims
    source: Dims
    result: Dims
    extras: tuple[Dims, ...] = ()

    @property
    def count(self) -> int:
        """Rows; 1 where there is no label."""
        return math.prod(self.dims)

    def order(self, strides: Dims) -> list[int]:
        """Return the axes, those with the smallest strides first, stretched ones last."""
        return sorted(range(len(self.dims)), key=lambda axis: distance(strides[axis]))


@dataclass(frozen=True)
class SideBoxes:
    """A side cut into boxes of at most `block` rows.

    Attributes:
        axes: the labels.
        block: rows that a box has room for.
        way: how the operand is read.
        places: the rows of a box as they are summed, innermost axis first.
        entries: the same rows as they are read.
        tiles: the boxes; none where the side is flat.
        edges: labels whose last box is smaller.
        is_flat: boxes are runs of one index over all labels.
    """

    axes: SideAxes
    block: int
    way: Way
    places: tuple[Digit, ...]
    entries: tuple[Digit, ...]
    tiles: tuple[Digit, ...] = ()
    edges: tuple[Edge, ...] = ()
    is_flat: bool = False

    @cached_property
    def rows(self) -> int:
        """Rows of a whole box; of a flat side, all rows."""
        return math.prod(digit.extent for digit in self.places)

    @cached_property
    def is_spread(self) -> bool:
        """Whether neighbouring threads store neighbours where each stores single elements."""
        nearest = self.axes.order(self.axes.result)[:1]
        near = self.places[:1]
        return not self.is_flat and [(digit.axis, digit.step) for digit in near] != [(*nearest, 1)]

    @cached_property
    def pitch(self) -> int:
        """Places between rows that are neighbours in the operand, where a vector is taken apart."""
        if self.way is not Way.ROWS_APART:
            return 0
        before = self.places.index(self.entries[0])
        return math.prod(digit.extent for digit in self.places[:before])

    @cached_property
    def boxes(self) -> int:
        """How many boxes there are."""
        if self.is_flat:
            return -(-self.rows // self.block)
        return math.prod(digit.extent for digit in self.tiles)

    @cached_property
    def use(self) -> float:
        """Share of all boxes' room that rows take."""
        return self.axes.count / (self.boxes * self.block)

    @cached_property
    def parts(self) -> Dims:
        """Neighbours of each label that a box takes."""
        parts = [1] * len(self.axes.dims)
        room = self.block
        for digit in self.places:
            parts[digit.axis] *= min(digit.extent, room)
            room = max(room // digit.extent, 1)
        return tuple(parts)

    def run(self, strides: Dims) -> int:
        """Return how many neighbours of a box lie beside each other by these strides."""
        return _run(zip(map(distance, strides), self.parts, self.axes.dims, strict=True))

    def strides(self, digits: Sequence[Digit], strides: Dims) -> Dims:
        """Return the strides [elements] of an index by those of the labels."""
        return tuple(digit.step * strides[digit.axis] for digit in digits)


def joint_run(*sides: SideBoxes) -> int:
    """Return how many results of a box of these sides lie beside each other."""
    return _run(
        label
        for side in sides
        for label in zip(map(distance, side.axes.result), side.parts, side.axes.dims, strict=True)
    )


def _run(labels: Iterable[tuple[float, int, int]]) -> int:
    """Return neighbours of (distance, part in a box, extent) that lie beside each other."""
    found = 1
    for far, part, extent in sorted(labels):
        if far != found:
            break
        found *= part
        if part != extent:
            break
    return found


@lru_cache(maxsize=512)
def side_boxes(
    axes: SideAxes, block: int, way: Way, width: int, stores: bool
) -> tuple[SideBoxes, ...]:
    """Return the ways to cut a side that may be worth it; none where there is no such way.

    Args:
        axes: the labels.
        block: rows of a box.
        way: how the operand is read.
        width: rows of a vector.
        stores: neighbouring places are to be contiguous in the result, for vectors.
    """
    if not axes.dims:
        has_rows = way in (Way.ROWS_VECTOR, Way.ROWS_APART) or stores
        return () if has_rows else (SideBoxes(axes, block, way, (), (), is_flat=True),)
    result, source = axes.order(axes.result), axes.order(axes.source)
    reads, is_apart = way is Way.ROWS_VECTOR, way is Way.ROWS_APART
    if (reads and stores and result[0] != source[0]) or (is_apart and result[0] == source[0]):
        return ()
    lead = source[0] if reads else result[0]
    leads = [lead] if way.is_along_depth else list(dict.fromkeys((lead, source[0], result[0])))
    found = []
    if len(axes.dims) > 1 or not (stores or way.is_vector):
        parted = _parts(axes, block, leads)
        made = (_box(axes, block, way, parts, width, stores) for parts in parted)
        found = [one for one in made if one is not None]
    # A flat side that is read in the result's order takes single elements of the operand's sectors.
    is_far = way is Way.ROWS_SINGLE and result[0] != source[0] and axes.source[source[0]] == 1
    if not is_apart and not (is_far and found):
        order = [lead, *(axis for axis in result if axis != lead)]
        found.insert(0, _flat(axes, block, way, order))
    if not reads and not stores:
        return tuple(found)
    return tuple(one for one in found if one.places[0].extent % width == 0)


def _spread(places: Sequence[Digit], width: int) -> list[Digit]:
    """Return places so that neighbouring threads store neighbours: threads have `width` each.

    These are rows of another label, or lie apart along the one along which the result is
    contiguous, the first of `places`.
    """
    first, *others = places
    near = next((digit for digit in others if digit.extent % width == 0), None)
    if near is not None:
        rest = [Digit(near.axis, near.extent // width, width)] if near.extent > width else []
        others.remove(near)
        return [Digit(near.axis, width, 1), first, *rest, *others]
    lanes = first.extent // width
    if first.extent % width or lanes < NEIGHBOURS:
        return list(places)
    return [Digit(first.axis, width, lanes), Digit(first.axis, lanes, 1), *others]


def _flat(axes: SideAxes, block: int, way: Way, order: Sequence[int]) -> SideBoxes:
    digits = tuple(Digit(axis, axes.dims[axis], 1) for axis in order)
    return SideBoxes(axes, block, way, digits, digits, is_flat=True)


def _parts(axes: SideAxes, block: int, leads: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield the parts of labels, by axis, that fill a box: leading labels first, then others."""
    first, *others = leads
    for part in _choices(axes.dims[first], block):
        for other in _choices(axes.dims[others[0]], block // part) if others else (0,):
            parts = {first: part} | ({others[0]: other} if others else {})
            room = block // math.prod(parts.values())
            for axis in axes.order(axes.result):
                if axis not in parts and room > 1:
                    taken = _divisor(axes.dims[axis], room)
                    if taken > 1:
                        parts[axis] = taken
                        room //= taken
            for axis in leads:
                grown = _divisor(axes.dims[axis] // parts[axis], room)
                if room > 1 and grown > 1 and axes.dims[axis] % parts[axis] == 0:
                    parts[axis] *= grown
                    room //= grown
            yield parts


def _choices(extent: int, room: int) -> list[int]:
    found = [part for part in _PARTS if part < extent and part <= room]
    return list(dict.fromkeys((*found, min(extent, room))))


def _divisor(extent: int, most: int) -> int:
    return next(x for x in range(min(extent, most), 0, -1) if extent % x == 0)


def _box(
    axes: SideAxes, block: int, way: Way, parts: dict[int, int], width: int, stores: bool
) -> SideBoxes | None:
    """Return the boxes of these parts, or None where they cannot be."""
    tiles, edges = [], []
    source, result = axes.order(axes.source)[0], axes.order(axes.result)[0]
    # Neighbours along the operand's lines are read soon after each other: what one box leaves of a
    # line is still in the L2 cache when the next one asks for it.
    for axis in dict.fromkeys((source, *axes.order(axes.result))):
        extent, part = axes.dims[axis], parts.get(axis, 1)
        boxes = -(-extent // part)
        if boxes > 1:
            tiles.append(Digit(axis, boxes, part))
        if extent % part:
            edges.append(Edge(axis, extent - (boxes - 1) * part))
    if len(edges) > _MAX_EDGES:
        return None
    order = list(dict.fromkeys((result, source, *axes.order(axes.result))))
    places = [Digit(axis, parts[axis], 1) for axis in order if axis in parts]
    entries = sorted(places, key=lambda digit: digit.axis != source)
    if way.is_along_depth and stores:
        entries = places
    elif way.is_vector and source != result:
        part = parts[source]
        if part % width:
            return None
        near = [Digit(source, width, 1)]
        far = [Digit(source, part // width, width)] if part > width else []
        others = [digit for digit in places if digit.axis != source]
        first = [*others[:1], *near] if way is Way.ROWS_APART else [*near, *others[:1]]
        places = [*first, *far, *others[1:]]
        entries = [*near, *far, *others]
    elif not stores and not way.is_vector:
        places = _spread(places, width)
        entries = sorted(places, key=lambda digit: (digit.axis != source, digit.step))
    if len(places) > MAX_DIGITS:
        return None
    return SideBoxes(axes, block, way, tuple(places), tuple(entries), tuple(tiles), tuple(edges))
