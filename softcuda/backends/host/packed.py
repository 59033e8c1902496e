"""Contractions in tiles: boxes of the operands are packed into scratch matrices, multiplied there.

C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]; each of b, m, n, k stands for any number of labels. A
box has the whole extent of the labels that run fastest in a, b and out, if it can: what it reads
and writes then are runs of neighbours, and the rest of a permutation happens in the cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from softcuda.backends.host.contraction import Pair
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import Box
from softcuda.backends.host.tiles import part_of
from softcuda.backends.host.tiling import TileLimits, Tiling, tiling_of, unit_label
from softcuda.backends.host.workers import SHARED
from softcuda.dtype import DType
from softcuda.graph.params import Dims
from softcuda.knobs import thread_count

__all__ = ["PackedProduct", "packed_bytes", "turned"]

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array, Array], Any]
Labels = tuple[int, ...]

# Elements from which a copy is shared by all threads.
_SHARED_ELEMS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Elements that the packed tiles may have."""

    a: int
    b: int
    out: int
    partial: int

    @property
    def total(self) -> int:
        return self.a + self.b + self.out + self.partial


def _sizes(pair: Pair, tiling: Tiling) -> _Sizes:
    a, b, out = (tiling.count(order) for order in tiling.orders)
    is_cut = any(tiling.chunks[label] < pair.extents[label] for label in pair.classes.k)
    return _Sizes(a, b, out, out if is_cut else 0)


def turned(pair: Pair) -> Pair:
    """Return the contraction with a and b in each other's place, if that lays out like the result.

    The label that runs fastest in the result is then one of n: tiles are written in its runs.
    """
    return pair.turned() if unit_label(pair.out) in pair.classes.m else pair


def packed_bytes(pair: Pair, limits: TileLimits, itemsize: int) -> int:
    """Return the scratch [bytes] that the tiles of a contraction take."""
    return _sizes(pair, tiling_of(pair, limits)).total * itemsize


class PackedProduct:
    """One contraction bound to arrays; calling it computes the result.

    Args:
        pair: the contraction, without private labels.
        limits: bounds of the tiles.
        multiply: f(a [b, m, k], b [b, k, n], out [b, m, n]), all in the compute dtype.
        common: the dtype that operands are rounded to before they become the compute dtype.
        by_columns: whether b is packed as [b, n, k] and handed over transposed.
    """

    def __init__(
        self,
        pair: Pair,
        limits: TileLimits,
        multiply: Multiply,
        common: DType,
        *,
        by_columns: bool,
    ) -> None:
        self._multiply = multiply
        self._common = common
        c = pair.classes
        self._tiling = tiling = tiling_of(pair, limits)
        self._sizes = _sizes(pair, tiling)
        batch, m, n = tiling.groups
        first, second, _ = tiling.orders
        parts = (
            first[:batch],
            first[batch : batch + m],
            second[batch : batch + n],
            first[batch + m :],
        )
        self._boxes = [list(_cut(pair, tiling, labels)) for labels in parts]
        self._a_by_columns = unit_label(pair.a) in c.m
        self._b_by_rows = unit_label(pair.b) in c.n and not by_columns

    @property
    def orders(self) -> tuple[Labels, ...]:
        """The labels in which a, b and out are handed to the call."""
        return self._tiling.orders

    def __call__(self, a: Array, b: Array, out: Array, scratch: Array) -> None:
        """Compute the contraction.

        Args:
            a: axes in the order batch, m, k.
            b: axes in the order batch, n, k.
            out: axes in the order batch, m, n.
            scratch: `packed_bytes` of them, as elements of the compute dtype.
        """
        batch, m, n, steps = self._boxes
        size = self._sizes
        ends = np.cumsum([size.a, size.b, size.out, size.partial]).tolist()
        pack_a, pack_b = scratch[: ends[0]], scratch[ends[0] : ends[1]]
        total, partial = scratch[ends[1] : ends[2]], scratch[ends[2] : ends[3]]
        for at in batch:
            right = None
            if len(steps) == len(n) == 1:
                right = self._load_b(b, pack_b, at, n[0], steps[0])
            for rows in m:
                left = self._load_a(a, pack_a, at, rows, steps[0]) if len(steps) == 1 else None
                for columns in n:
                    shape = (_count(at), _count(rows), _count(columns))
                    result = _fit(total, shape)
                    for number, step in enumerate(steps):
                        first = self._load_a(a, pack_a, at, rows, step) if left is None else left
                        second = right
                        if second is None:
                            second = self._load_b(b, pack_b, at, columns, step)
                        if not number:
                            self._multiply(first, second, result)
                            continue
                        more = _fit(partial, shape)
                        self._multiply(first, second, more)
                        np.add(result, more, result)
                    place = part_of(out, at + rows + columns)
                    if steps:
                        _copy(result.reshape(place.shape), place)
                    else:
                        place.fill(0)

    def _load_a(self, a: Array, pack: Array, at: Box, rows: Box, step: Box) -> Array:
        return self._packed(a, pack, (at, rows, step), self._a_by_columns)

    def _load_b(self, b: Array, pack: Array, at: Box, columns: Box, step: Box) -> Array:
        return self._packed(b, pack, (at, columns, step), self._b_by_rows).swapaxes(1, 2)

    def _packed(self, source: Array, pack: Array, parts: Sequence[Box], turned: bool) -> Array:
        """Copy a box into scratch; return it as [batch, free, k], laid out transposed if asked."""
        at, free, step = parts
        piece = rounded(part_of(source, at + free + step), self._common)
        batch, rows, columns = _count(at), _count(free), _count(step)
        if not turned:
            tile = _fit(pack, (batch, rows, columns))
            _copy(piece, tile.reshape(piece.shape))
            return tile
        first, second = len(at), len(at) + len(free)
        order = (*range(first), *range(second, piece.ndim), *range(first, second))
        piece = piece.transpose(order)
        tile = _fit(pack, (batch, columns, rows))
        _copy(piece, tile.reshape(piece.shape))
        return tile.swapaxes(1, 2)


def _cut(pair: Pair, tiling: Tiling, labels: Labels) -> Iterator[Box]:
    """Yield the boxes along labels; none where an extent is 0."""
    ranges = [
        [
            slice(start, min(start + tiling.chunks[label], pair.extents[label]))
            for start in range(0, pair.extents[label], tiling.chunks[label])
        ]
        for label in labels
    ]
    yield from itertools.product(*ranges)


def _copy(source: Array, out: Array) -> None:
    """Write source into out, in parts on all threads where it is large."""
    parts = thread_count()
    axes = [axis for axis, extent in enumerate(out.shape) if extent >= parts]
    if source.size < _SHARED_ELEMS or not axes:
        convert(source, out)
        return
    axis = max(axes, key=lambda k: abs(out.strides[k]))
    extent = out.shape[axis]
    head = (slice(None),) * axis

    def part(worker: int, number: int) -> None:
        piece: Any = (*head, slice(number * extent // parts, (number + 1) * extent // parts))
        convert(source[piece], out[piece])

    SHARED.run(part, parts)


def rounded(source: Array, common: DType) -> Array:
    """Return an operand as `common` holds it: integers that meet floats are rounded to them."""
    if not common.is_float or source.dtype.kind != "i":
        return source
    result = np.empty(source.shape, common.numpy)
    convert(source, result)
    return result


def _count(box: Box) -> int:
    return math.prod(s.stop - s.start for s in box)


def _fit(memory: Array, shape: Dims) -> Array:
    return memory[: math.prod(shape)].reshape(shape)
