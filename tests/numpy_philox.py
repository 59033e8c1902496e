"""Random ops in NumPy: Philox 4x32-10, uniform by bits, normal by Box-Muller."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.dtype import DType, f64
from softcuda.graph.params import value_of

Array = np.ndarray[Any, Any]

MASK = (1 << 32) - 1


def block(counter: int, seed: int) -> list[int]:
    """Return the four words of one block (Salmon et al. 2011)."""
    c = [counter & MASK, counter >> 32 & MASK, 0, 0]
    k = [seed & MASK, seed >> 32 & MASK]
    for _ in range(10):
        one, two = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [two >> 32 ^ c[1] ^ k[0], two & MASK, one >> 32 ^ c[3] ^ k[1], one & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def random_values(op: str, state: Array, params: Any) -> Array:
    """Return what a random node gives, in float64, not yet rounded to its dtype."""
    dtype: DType = params.dtype
    count = int(np.prod(params.dims))
    seed, counter = (int(x) & (1 << 64) - 1 for x in state)
    each = 2 if dtype is f64 else 4
    blocks = [block(counter + params.offset + b, seed) for b in range(-(-count // each))]
    low, high = float(value_of(params.low)), float(value_of(params.high))
    drawn = [x for words in blocks for x in (uniform if op == "uniform" else normal)(words, dtype)]
    unit = np.array(drawn[:count], np.float64).reshape(params.dims)
    if op == "normal":
        return low + high * unit
    if dtype is f64:
        return low + unit * (high - low)
    low32, width = np.float32(low), np.float32(high) - np.float32(low)
    return (low32 + unit.astype(np.float32) * width).astype(np.float64)


def uniform(words: list[int], dtype: DType) -> list[float]:
    """Return the uniform numbers of a block: 4, or 2 of f64."""
    if dtype is not f64:
        return [(w >> 8) * 2.0**-24 for w in words]
    pairs = (words[:2], words[2:])
    return [((lo >> 5) * 2**26 + (hi >> 6)) * 2.0**-53 for lo, hi in pairs]


def normal(words: list[int], dtype: DType) -> list[float]:
    """Return the normal numbers of a block: 4, or 2 of f64."""
    if dtype is f64:
        (a, b, c, d) = words
        pairs = [
            (((a >> 5) * 2**26 + (b >> 6) + 1) * 2.0**-53, ((c >> 5) * 2**26 + (d >> 6)) * 2.0**-53)
        ]
    else:
        pairs = [((words[k] + 1) * 2.0**-32, words[k + 1] * 2.0**-32) for k in (0, 2)]
    found = []
    for first, second in pairs:
        radius = np.sqrt(-2 * np.log(first))
        found += [radius * np.cos(2 * np.pi * second), radius * np.sin(2 * np.pi * second)]
    return found
