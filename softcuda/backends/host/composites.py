"""softmax, log_softmax and layer_norm on NumPy arrays, in f32 (f64 where the result is f64)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import Box
from softcuda.backends.host.reductions import extreme_of
from softcuda.backends.host.tiles import Tiles, part_of
from softcuda.graph.params import LayerNorm, Softmax, value_of

__all__ = ["bind_layer_norm", "bind_softmax", "layer_norm_into", "log_softmax_into", "softmax_into"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

_F64: Final = np.dtype(np.float64)


def _compute(out: Array) -> np.dtype[Any]:
    return _F64 if out.dtype == _F64 else np.dtype(np.float32)


def _write(tiles: Tiles, tile: Array, target: Array, box: Box) -> None:
    """Write a tile into a box of `target`, whose axes are kept, then reduced."""
    place = part_of(target, box)
    if tiles.axis:
        convert(tile.reshape(place.shape), place)
        return
    split = len(tiles.kept_boxes[0])
    order = (*range(split, place.ndim), *range(split))
    turned = place.transpose(order)
    convert(tile.reshape(turned.shape), turned)


def bind_softmax(source: Array, out: Array, params: Softmax, logarithm: bool) -> list[Call]:
    """Return the call of softmax or log_softmax along an axis; a row of -inf gives NaN.

    exp(x - max x) / sum exp(x - max x), or x - max x - log sum exp(x - max x).
    """
    tiles = Tiles(source, (params.axis,), _compute(out))
    return [(_exponentials, (tiles, np.moveaxis(out, params.axis, -1), logarithm))]


def softmax_into(source: Array, out: Array, params: Softmax) -> None:
    """Write softmax along an axis at once: `bind_softmax`, called."""
    for function, arguments in bind_softmax(source, out, params, False):
        function(*arguments)


def log_softmax_into(source: Array, out: Array, params: Softmax) -> None:
    """Write log_softmax along an axis at once: `bind_softmax`, called."""
    for function, arguments in bind_softmax(source, out, params, True):
        function(*arguments)


def layer_norm_into(*arrays: Any) -> None:
    """Write layer_norm at once: `bind_layer_norm`, called.

    Args:
        arrays: x, weight and bias where params has them, the output, params.
    """
    for function, arguments in bind_layer_norm(arrays[:-2], arrays[-2], arrays[-1]):
        function(*arguments)


def _exponentials(tiles: Tiles, target: Array, logarithm: bool) -> None:
    tiles = tiles.fresh()
    dtype = _compute(target)
    once = len(tiles.reduced_boxes) == 1
    for box in tiles.kept_boxes:
        top = extreme_of(tiles, box, "max")
        if top is None:
            continue
        peak = tiles.along(top)
        total = np.zeros(tiles.kept_count(box))
        for reduced in tiles.reduced_boxes:
            tile = tiles.load(box, reduced)
            np.subtract(tile, peak, tile)
            powers = np.exp(tile) if logarithm else np.exp(tile, tile)
            np.add(total, np.add.reduce(powers, tiles.axis, np.float64), total)
        scale = tiles.along((np.log(total) if logarithm else total).astype(dtype))
        for reduced in tiles.reduced_boxes:
            tile = tiles.last
            if not once:
                tile = tiles.load(box, reduced)
                np.subtract(tile, peak, tile)
                if not logarithm:
                    np.exp(tile, tile)
            (np.subtract if logarithm else np.divide)(tile, scale, tile)
            _write(tiles, tile, target, box + reduced)


def bind_layer_norm(inputs: Sequence[Array], out: Array, params: LayerNorm) -> list[Call]:
    """Return the call of (x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    Args:
        inputs: x, weight and bias where params has them.
        out: the result.
        params: the axes, eps, and which factors there are.
    """
    source = inputs[0]
    split = source.ndim - params.axes_count
    tiles = Tiles(source, tuple(range(split, source.ndim)), _compute(out))
    factors = list(inputs[1:])
    weight = factors.pop(0) if params.has_weight else None
    bias = factors.pop(0) if params.has_bias else None
    return [(_normalised, (tiles, out, params, weight, bias))]


def _normalised(
    tiles: Tiles, out: Array, params: LayerNorm, weight: Array | None, bias: Array | None
) -> None:
    tiles = tiles.fresh()
    dtype = _compute(out)
    eps = float(value_of(params.eps))
    once = len(tiles.reduced_boxes) == 1
    for box in tiles.kept_boxes:
        mean, scale = _statistics(tiles, box, eps)
        for reduced in tiles.reduced_boxes:
            tile = tiles.last if once else tiles.load(box, reduced)
            if not once:
                np.subtract(tile, tiles.along(mean), tile)
            np.multiply(tile, tiles.along(scale), tile)
            if weight is not None:
                np.multiply(tile, tiles.across(_loaded(part_of(weight, reduced), dtype)), tile)
            if bias is not None:
                np.add(tile, tiles.across(_loaded(part_of(bias, reduced), dtype)), tile)
            _write(tiles, tile, out, box + reduced)


def _statistics(tiles: Tiles, box: Box, eps: float) -> tuple[Array, Array]:
    """Return mean and 1 / sqrt(var + eps) [kept]; a tile that is alone is left centred."""
    count = float(tiles.count)
    total = np.zeros(tiles.kept_count(box))
    for reduced in tiles.reduced_boxes:
        np.add(total, np.add.reduce(tiles.load(box, reduced), tiles.axis, np.float64), total)
    dtype = tiles.last.dtype
    mean = np.divide(total, count).astype(dtype)
    total = np.zeros(tiles.kept_count(box))
    once = len(tiles.reduced_boxes) == 1
    for reduced in tiles.reduced_boxes:
        tile = tiles.last if once else tiles.load(box, reduced)
        np.subtract(tile, tiles.along(mean), tile)
        np.add(total, np.add.reduce(np.square(tile), tiles.axis, np.float64), total)
    return mean, np.divide(1.0, np.sqrt(np.divide(total, count) + eps)).astype(dtype)


def _loaded(factor: Array, dtype: np.dtype[Any]) -> Array:
    values = np.empty(math.prod(factor.shape), dtype)
    convert(factor, values.reshape(factor.shape))
    return values
