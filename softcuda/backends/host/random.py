"""uniform and normal on NumPy arrays: Philox 4x32-10 blocks, piece by piece.

Element e of the flat result depends on (seed, counter, e) alone, never on the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import ml_dtypes
import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.movement import scalar_of
from softcuda.backends.host.pieces import BLOCK
from softcuda.graph.params import Random, value_of
from softcuda.graph.philox import philox

__all__ = ["below", "normal_into", "uniform_into"]

Array = np.ndarray[Any, Any]

_F64: Final = np.dtype(np.float64)
_LOW_WORD: Final = 0xFFFFFFFF
_WORD_BITS: Final = 32


def _pieces(state: Array, out: Array, offset: int) -> Iterator[tuple[Array, Array]]:
    """Yield (words [4, blocks] u64, the place [elements] they fill) over the flat result."""
    flat = out.reshape(-1)
    each = 2 if out.dtype == _F64 else 4
    seed, counter = (int(x) % (1 << 64) for x in state)
    key = (seed & _LOW_WORD, seed >> _WORD_BITS)
    zero = np.zeros(1, np.uint64)
    for first in range(0, flat.size, BLOCK):
        place = flat[first : first + BLOCK]
        start = (counter + offset + first // each) % (1 << 64)
        numbers = np.arange(-(-place.size // each), dtype=np.uint64) + np.uint64(start)
        low = np.bitwise_and(numbers, np.uint64(_LOW_WORD))
        high = np.right_shift(numbers, np.uint64(_WORD_BITS))
        yield philox((low, high, zero, zero), key), place


def _fraction53(first: Array, second: Array) -> Array:
    """Return (first >> 5) * 2^26 + (second >> 6), below 2^53, as f64."""
    whole = ((first >> np.uint64(5)) << np.uint64(26)) + (second >> np.uint64(6))
    return whole.astype(np.float64)


def below(high: float, dtype: np.dtype[Any]) -> Array:
    """Return the greatest value of `dtype` below `high`."""
    limit = scalar_of(high, dtype)
    if float(limit) < high:
        return limit
    return np.asarray(np.nextafter(limit, scalar_of(-np.inf, dtype)))


def uniform_into(state: Array, out: Array, params: Random) -> None:
    """Write low + u * (high - low), u in [0, 1), never equal to high.

    Where high - low overflows it is low * (1 - u) + high * u.

    Args:
        state: [2], i64: seed and counter.
        out: a float dtype, row-major.
        params: low and high, and the blocks that earlier nodes take.
    """
    low, high = float(value_of(params.low)), float(value_of(params.high))
    kind: Any = np.float64 if out.dtype == _F64 else np.float32
    bottom, top = kind(low), kind(high)
    span = top - bottom
    limit = below(high, out.dtype) if low < high else None
    for words, place in _pieces(state, out, params.offset):
        drawn: Array
        if kind is np.float64:
            drawn = _fraction53(words[0::2], words[1::2]) * 2.0**-53
        else:
            drawn = (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
        values = drawn.T.reshape(-1)[: place.size]
        if np.isfinite(span):
            np.multiply(values, span, values)
            np.add(values, bottom, values)
        else:
            rest = np.subtract(1, values)
            np.multiply(values, top, values)
            np.add(np.multiply(rest, bottom, rest), values, values)
        convert(values, place)
        if limit is not None:
            _clamp(place, limit)


def _clamp(place: Array, limit: Array) -> None:
    if place.dtype == np.dtype(ml_dtypes.bfloat16):
        np.copyto(place, limit, where=place.astype(np.float32) > limit.astype(np.float32))
    else:
        np.minimum(place, limit, out=place)


def normal_into(state: Array, out: Array, params: Random) -> None:
    """Write mean + deviation * z, z from the Box-Muller transform in f64, rounded once.

    Args:
        state: [2], i64: seed and counter.
        out: a float dtype, row-major.
        params: mean (low), deviation (high), and the blocks that earlier nodes take.

    Source: Box, Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    """
    mean, deviation = float(value_of(params.low)), float(value_of(params.high))
    for words, place in _pieces(state, out, params.offset):
        if out.dtype == _F64:
            first = (_fraction53(words[0:1], words[1:2]) + 1) * 2.0**-53
            second = _fraction53(words[2:3], words[3:4]) * 2.0**-53
        else:
            first = (words[0::2].astype(np.float64) + 1) * 2.0**-32
            second = words[1::2].astype(np.float64) * 2.0**-32
        radius = np.sqrt(-2 * np.log(first))
        angle = second * (2 * np.pi)
        pairs = np.stack((radius * np.cos(angle), radius * np.sin(angle)))
        # [2 of the pair, pairs of the block, block] -> flat order
        values = pairs.transpose(2, 1, 0).reshape(-1)[: place.size]
        np.multiply(values, deviation, values)
        np.add(values, mean, values)
        convert(values, place)
