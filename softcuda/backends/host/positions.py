"""argmin, argmax and cumsum on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import BLOCK, Box
from softcuda.backends.host.tiles import Tiles, flat, part_of
from softcuda.graph.params import Cumulative, Dims, Reduce

__all__ = ["bind_argument", "bind_cumsum"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

_WIDE: Final[dict[str, Any]] = {"b": np.int64, "i": np.int64, "c": np.complex128}  # else f64


def bind_argument(name: str, source: Array, out: Array, params: Reduce) -> list[Call]:
    """Return the call of argmin or argmax: the flattened index of the first NaN, else extreme."""
    half = source.dtype.itemsize == 2
    dtype = np.float32 if half else source.dtype
    tiles = Tiles(source, params.axes, dtype, inner=True, limit=4 * BLOCK)
    pick = (np.argmin, np.less) if name == "argmin" else (np.argmax, np.greater)
    return [(_first, (tiles, flat(out, params.axes, params.keepdims), *pick))]


def _first(tiles: Tiles, out: Array, find: Callable[..., Any], better: Any) -> None:
    tiles = tiles.fresh()
    for box in tiles.kept_boxes:
        best: Array | None = None
        where = np.zeros(tiles.kept_count(box), np.int64)
        for reduced in tiles.reduced_boxes:
            tile = tiles.look(box, reduced)
            local = find(tile, axis=1)
            values = tile[np.arange(len(tile)), local]
            index = _global(local, reduced, tiles.reduced)
            if best is None:
                best, where = values, index
                continue
            wins = better(values, best) | ((values == best) & (index < where))
            if values.dtype.kind == "f":
                nan, held = np.isnan(values), np.isnan(best)
                wins = np.where(held, nan & (index < where), wins | nan)
            np.copyto(best, values, where=wins)
            np.copyto(where, index, where=wins)
        place = part_of(out, box)
        np.copyto(place, where.reshape(place.shape))


def _global(local: Array, box: Box, dims: Dims) -> Array:
    """Return flat indices into `dims` for flat indices into a box of it."""
    rest = local.astype(np.int64)
    result = np.zeros_like(rest)
    step = 1
    for part, extent in zip(reversed(box), reversed(dims), strict=True):
        width = part.stop - part.start
        result += (rest % width + part.start) * step
        rest //= width
        step *= extent
    return result


def bind_cumsum(source: Array, out: Array, params: Cumulative) -> list[Call]:
    """Return the call of cumsum: running sums in f64, i64 or complex128, each rounded once."""
    wide = np.dtype(_WIDE.get(source.dtype.kind, np.float64))
    tiles = Tiles(source, (params.axis,), wide)
    return [(_running, (tiles, np.moveaxis(out, params.axis, -1), wide))]


def _running(tiles: Tiles, target: Array, wide: np.dtype[Any]) -> None:
    tiles = tiles.fresh()
    for box in tiles.kept_boxes:
        carry = np.zeros(tiles.kept_count(box), wide)
        for reduced in tiles.reduced_boxes:
            tile = tiles.load(box, reduced)
            np.add.accumulate(tile, tiles.axis, None, tile)
            np.add(tile, tiles.along(carry), tile)
            carry = (tile[:, -1] if tiles.axis else tile[-1]).copy()
            place = part_of(target, box + reduced)
            convert((tile if tiles.axis else tile.T).reshape(place.shape), place)
