"""Contractions in tiles: boxes of the operands are packed into scratch matrices, multiplied there.

C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]; each of b, m, n, k stands for any number of labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softcuda.backends.host.contraction import Axes, Pair
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import Box, boxes
from softcuda.backends.host.tiles import part_of
from softcuda.dtype import DType
from softcuda.graph.params import Dims

__all__ = ["PackedProduct", "TileLimits", "packed_bytes"]

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array, Array], Any]


@dataclass(frozen=True, slots=True)
class TileLimits:
    """The most elements of a tile's m, n and k, and of a whole tile."""

    m: int
    n: int
    k: int
    tile: int


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Elements that the packed tiles may have."""

    a: int
    b: int
    out: int
    partial: int
    batch: int

    @property
    def total(self) -> int:
        return self.a + self.b + self.out + self.partial


def _sizes(pair: Pair, limits: TileLimits) -> _Sizes:
    c = pair.classes
    m = min(max(pair.count(c.m), 1), limits.m)
    n = min(max(pair.count(c.n), 1), limits.n)
    whole = max(pair.count(c.k), 1)
    k = min(whole, limits.k)
    most = max(m * k, k * n, m * n)
    batch = max(min(pair.count(c.batch), limits.tile // most), 1)
    partial = batch * m * n if whole > k else 0
    return _Sizes(batch * m * k, batch * k * n, batch * m * n, partial, batch)


def packed_bytes(pair: Pair, limits: TileLimits, itemsize: int) -> int:
    """Return the scratch [bytes] that the tiles of a contraction take."""
    return _sizes(pair, limits).total * itemsize


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
        self._limits = limits
        self._multiply = multiply
        self._common = common
        c = pair.classes
        self._sizes = _sizes(pair, limits)
        self._dims = [pair.dims(group) for group in (c.batch, c.m, c.n, c.k)]
        self._orders = (c.batch + c.m + c.k, c.batch + c.n + c.k, c.batch + c.m + c.n)
        self._a_by_columns = _unit_label(pair.a) in c.m
        self._b_by_rows = _unit_label(pair.b) in c.n and not by_columns

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The labels in which a, b and out are handed to the call."""
        return self._orders

    def __call__(self, a: Array, b: Array, out: Array, scratch: Array) -> None:
        """Compute the contraction.

        Args:
            a: axes in the order batch, m, k.
            b: axes in the order batch, n, k.
            out: axes in the order batch, m, n.
            scratch: `packed_bytes` of them, as elements of the compute dtype.
        """
        batch, m, n, k = self._dims
        limits, size = self._limits, self._sizes
        ends = np.cumsum([size.a, size.b, size.out, size.partial]).tolist()
        pack_a, pack_b = scratch[: ends[0]], scratch[ends[0] : ends[1]]
        total, partial = scratch[ends[1] : ends[2]], scratch[ends[2] : ends[3]]
        steps = list(boxes(k, limits.k))
        for at in boxes(batch, size.batch):
            for rows in boxes(m, limits.m):
                left = self._load_a(a, pack_a, at, rows, steps[0]) if len(steps) == 1 else None
                for columns in boxes(n, limits.n):
                    shape = (_count(at), _count(rows), _count(columns))
                    result = _fit(total, shape)
                    for number, step in enumerate(steps):
                        first = self._load_a(a, pack_a, at, rows, step) if left is None else left
                        second = self._load_b(b, pack_b, at, columns, step)
                        if not number:
                            self._multiply(first, second, result)
                            continue
                        more = _fit(partial, shape)
                        self._multiply(first, second, more)
                        np.add(result, more, result)
                    place = part_of(out, at + rows + columns)
                    if steps:
                        convert(result.reshape(place.shape), place)
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
            convert(piece, tile.reshape(piece.shape))
            return tile
        first, second = len(at), len(at) + len(free)
        order = (*range(first), *range(second, piece.ndim), *range(first, second))
        piece = piece.transpose(order)
        tile = _fit(pack, (batch, columns, rows))
        convert(piece, tile.reshape(piece.shape))
        return tile.swapaxes(1, 2)


def rounded(source: Array, common: DType) -> Array:
    """Return an operand as `common` holds it: integers that meet floats are rounded to them."""
    if not common.is_float or source.dtype.kind != "i":
        return source
    result = np.empty(source.shape, common.numpy)
    convert(source, result)
    return result


def _unit_label(axes: Axes) -> int | None:
    """Return the label that runs fastest in memory."""
    moving = [(abs(s), x) for s, x in zip(axes.strides, axes.labels, strict=True) if s]
    return min(moving)[1] if moving else None


def _count(box: Box) -> int:
    return math.prod(s.stop - s.start for s in box)


def _fit(memory: Array, shape: Dims) -> Array:
    return memory[: math.prod(shape)].reshape(shape)
