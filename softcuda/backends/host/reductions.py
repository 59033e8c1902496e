"""Reductions on NumPy arrays: accumulated in f64, i64 or complex128, rounded once.

Every function has the form f(tiles, out, params): the tiles of the source, the result without
the axes that keepdims left, the Reduce, Moment or Norm of the op. Scratch is a few tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.elementwise import ELEMENTWISE
from softcuda.backends.host.pieces import BLOCK, Box
from softcuda.backends.host.tiles import Tiles, flat, part_of
from softcuda.graph.params import Moment, Norm, Reduce, value_of

__all__ = ["REDUCTIONS", "bind_reduce", "bind_sum", "extreme_of"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Function = Callable[..., None]
Finish = Callable[[Array], Array]

_F64: Final = np.dtype(np.float64)
_C128: Final = np.dtype(np.complex128)
_I64: Final = np.dtype(np.int64)
_BOOL: Final = np.dtype(np.bool_)
_NATIVE: Final = (_F64, _I64, np.dtype(np.float32), np.dtype(np.int32), _BOOL)


def _wide(source: Array) -> np.dtype[Any]:
    return _I64 if source.dtype.kind in "bi" else _inexact(source)


def _inexact(source: Array) -> np.dtype[Any]:
    return _C128 if source.dtype.kind == "c" else _F64


def _store(values: Array, out: Array, box: Box) -> None:
    place = part_of(out, box)
    convert(values.reshape(place.shape), place)


def fold(tiles: Tiles, box: Box, ufunc: Any, empty: Any) -> Array:
    """Return the reduction by `ufunc` of every result of a box [kept]; `empty` for no element."""
    total: Array | None = None
    for reduced in tiles.reduced_boxes:
        part = ufunc.reduce(tiles.look(box, reduced), tiles.axis)
        total = part if total is None else ufunc(total, part, total)
    if total is None:
        return np.full(tiles.kept_count(box), empty)
    return total


def bind_sum(source: Array, axes: tuple[int, ...], out: Array) -> list[Call]:
    """Return the calls that write the sum over `axes` into `out`, the extents that are left."""
    wide = _wide(source)
    if source.size > BLOCK:
        return [(_folding(np.add, 0), (Tiles(source, axes, wide), out, None))]
    total = out if out.dtype == wide else np.empty(out.shape, wide)
    calls: list[Call] = [(np.add.reduce, (source, axes, wide, total, False))]
    return calls if total is out else [*calls, (convert, (total, out))]


def _folding(ufunc: Any, empty: Any) -> Function:
    def function(tiles: Tiles, out: Array, params: Any) -> None:
        tiles = tiles.fresh()
        for box in tiles.kept_boxes:
            _store(fold(tiles, box, ufunc, empty), out, box)

    return function


def _mean(tiles: Tiles, out: Array, params: Reduce) -> None:
    tiles = tiles.fresh()
    for box in tiles.kept_boxes:
        total = fold(tiles, box, np.add, 0.0)
        _store(np.divide(total, float(tiles.count)), out, box)


def _signed_zeros(tile: Array, axis: int, found: Array, name: str) -> None:
    """Give zeros among extremes the sign that softcuda has: min -0, max +0 of a tie."""
    zeros = np.equal(found, 0)
    if not zeros.any():
        return
    # Where the least (greatest) element is a zero, a sign bit is that of a -0 (or of a lesser).
    which = np.logical_or if name == "min" else np.logical_and
    negative = which.reduce(np.signbit(tile), axis=axis)
    np.copyto(found, 0.0, where=zeros)
    np.negative(found, found, where=np.logical_and(zeros, negative))


def extreme_of(tiles: Tiles, box: Box, name: str) -> Array | None:
    """Return min or max [kept] of a box, NaN before all; None where nothing is reduced."""
    ufunc: Any = np.minimum if name == "min" else np.maximum
    meet = ELEMENTWISE["minimum" if name == "min" else "maximum"]
    best: Array | None = None
    for reduced in tiles.reduced_boxes:
        tile = tiles.look(box, reduced)
        part = ufunc.reduce(tile, tiles.axis)
        if tile.dtype.kind == "f":
            _signed_zeros(tile, tiles.axis, part, name)
        if best is None:
            best = part
        else:
            meet(best, part, best)
    return best


def _compute(source: Array) -> np.dtype[Any]:
    return source.dtype if source.dtype in _NATIVE else np.dtype(np.float32)


def _extreme(name: str) -> Function:
    def function(tiles: Tiles, out: Array, params: Reduce) -> None:
        tiles = tiles.fresh()
        for box in tiles.kept_boxes:
            best = extreme_of(tiles, box, name)
            if best is not None:
                _store(best, out, box)

    return function


def _squares(tiles: Tiles, box: Box) -> Array:
    """Return the sums of squared deviations from the mean [kept], in two passes."""
    total = np.zeros(tiles.kept_count(box))
    once = len(tiles.reduced_boxes) == 1
    for reduced in tiles.reduced_boxes:
        np.add(total, np.add.reduce(tiles.load(box, reduced), tiles.axis), total)
    centre = tiles.along(np.divide(total, float(tiles.count)))
    total = np.zeros(tiles.kept_count(box))
    for reduced in tiles.reduced_boxes:
        tile = tiles.last if once else tiles.load(box, reduced)
        np.subtract(tile, centre, tile)
        np.multiply(tile, tile, tile)
        np.add(total, np.add.reduce(tile, axis=tiles.axis), total)
    return total


def _moment(finish: Finish) -> Function:
    def function(tiles: Tiles, out: Array, params: Moment) -> None:
        tiles = tiles.fresh()
        divisor = max(tiles.count - float(value_of(params.correction)), 0.0)
        for box in tiles.kept_boxes:
            _store(finish(np.divide(_squares(tiles, box), divisor)), out, box)

    return function


def _magnitudes(tile: Array) -> Array:
    """Return the absolute values of a tile, in its own memory where it is real."""
    return np.absolute(tile) if tile.dtype.kind == "c" else np.absolute(tile, tile)


def _powers(tile: Array, order: float) -> Array:
    if order == 2 and tile.dtype.kind == "c":  # whose absolute value needs a root
        squares: Array = tile.real**2 + tile.imag**2
        return squares
    tile = _magnitudes(tile)
    if order == 0:
        return np.not_equal(tile, 0, tile)
    if order == 1:
        return tile
    return np.multiply(tile, tile, tile) if order == 2 else np.power(tile, order, tile)


def _norm(tiles: Tiles, out: Array, params: Norm) -> None:
    order = float(value_of(params.order))
    tiles = tiles.fresh()
    ufunc = {math.inf: np.maximum, -math.inf: np.minimum}.get(order)
    for box in tiles.kept_boxes:
        total: Array | None = None
        for reduced in tiles.reduced_boxes:
            tile = tiles.load(box, reduced)
            tile = _magnitudes(tile) if ufunc else _powers(tile, order)
            part = (ufunc or np.add).reduce(tile, axis=tiles.axis)
            total = part if total is None else (ufunc or np.add)(total, part)
        if total is None:
            total = np.zeros(tiles.kept_count(box))
        elif order == 2:
            total = np.sqrt(total)
        elif ufunc is None and order not in (0, 1):
            total = np.power(total, 1 / order)
        _store(total, out, box)


def _logsumexp(tiles: Tiles, out: Array, params: Reduce) -> None:
    tiles = tiles.fresh()
    for box in tiles.kept_boxes:
        top = extreme_of(tiles, box, "max")
        shift = np.zeros(tiles.kept_count(box))
        if top is not None:
            np.copyto(shift, top, where=np.isfinite(top))
        total = np.zeros(shift.shape)
        for reduced in tiles.reduced_boxes:
            tile = tiles.load(box, reduced)
            np.subtract(tile, tiles.along(shift), tile)
            np.exp(tile, tile)
            np.add(total, np.add.reduce(tile, axis=tiles.axis), total)
        _store(np.log(total) + shift, out, box)


def _doubles(source: Array) -> np.dtype[Any]:
    return _F64


def _flags(source: Array) -> np.dtype[Any]:
    return _BOOL


# op token -> (function, source -> dtype of its tiles)
_TABLE: Final[dict[str, tuple[Function, Callable[[Array], np.dtype[Any]]]]] = {
    "sum": (_folding(np.add, 0), _wide),
    "prod": (_folding(np.multiply, 1), _wide),
    "min": (_extreme("min"), _compute),
    "max": (_extreme("max"), _compute),
    "mean": (_mean, _inexact),
    "var": (_moment(lambda values: values), _doubles),
    "std": (_moment(np.sqrt), _doubles),
    "norm": (_norm, _inexact),
    "logsumexp": (_logsumexp, _doubles),
    "any": (_folding(np.logical_or, False), _flags),
    "all": (_folding(np.logical_and, True), _flags),
}

REDUCTIONS: Final[frozenset[str]] = frozenset(_TABLE)

# Where NumPy's own reduction needs no conversion and has softcuda's meaning.
_DIRECT: Final[dict[str, tuple[Any, tuple[np.dtype[Any], ...]]]] = {
    "sum": (np.add, (_I64, _F64, _C128)),
    "prod": (np.multiply, (_I64, _F64, _C128)),
    "min": (np.minimum, (_BOOL, np.dtype(np.int32), _I64)),
    "max": (np.maximum, (_BOOL, np.dtype(np.int32), _I64)),
    "any": (np.logical_or, (_BOOL,)),
    "all": (np.logical_and, (_BOOL,)),
}


def bind_reduce(name: str, source: Array, out: Array, params: Any) -> list[Call]:
    """Return the calls of a reduction other than argmin and argmax on these arrays."""
    ufunc, dtypes = _DIRECT.get(name, (None, ()))
    if source.dtype in dtypes:
        shortest = min((s for s in source.strides if s), key=abs, default=0)
        runs = [d for d, s in zip(source.shape, source.strides, strict=True) if s == shortest]
        if source.size <= BLOCK or max(runs, default=1) >= 64:
            return [(ufunc.reduce, (source, params.axes, None, out, params.keepdims))]
    function, dtype = _TABLE[name]
    tiles = Tiles(source, params.axes, dtype(source))
    return [(function, (tiles, flat(out, params.axes, params.keepdims), params))]
