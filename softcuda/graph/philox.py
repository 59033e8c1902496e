"""Philox 4x32-10: the counter-based generator of every random node, as pure arithmetic.

A block is 4 words of 32 bits, a function of a 128-bit counter and a 64-bit key alone, so any
device can make any block by itself.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.dtype import DType, f64

__all__ = ["philox", "philox_blocks"]

Array = np.ndarray[Any, Any]

_ROUNDS: Final = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_LOW: Final = 0xFFFFFFFF


def philox_blocks(numel: int, dtype: DType) -> int:
    """Return how many blocks a random node of `numel` elements takes from its generator.

    ceil(numel / 2) for f64, ceil(numel / 4) for f16, bf16 and f32.
    """
    each = 2 if dtype is f64 else 4
    return -(-numel // each)


def philox(counters: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> Array:
    """Return the blocks of these counters.

    Args:
        counters: the four words of each counter, least significant first: [n], u64 below 2^32;
            a word that all share may be [1].
        key: two words of 32 bits.

    Returns:
        [4, n], u64 below 2^32: the words of each block.
    """
    shape = np.broadcast_shapes(*(c.shape for c in counters))
    c0, c1, c2, c3 = (np.array(np.broadcast_to(c, shape), np.uint64) for c in counters)
    k0, k1 = key
    shift, low = np.uint64(32), np.uint64(_LOW)
    m0, m1 = (np.uint64(m) for m in _MULTIPLIERS)
    for _ in range(_ROUNDS):
        np.multiply(c0, m0, c0)
        np.multiply(c2, m1, c2)
        # new (c0, c1, c2, c3) = (high(p1) ^ c1 ^ k0, low(p1), high(p0) ^ c3 ^ k1, low(p0))
        first = np.right_shift(c2, shift)
        np.bitwise_xor(first, c1, first)
        np.bitwise_xor(first, np.uint64(k0), first)
        third = np.right_shift(c0, shift)
        np.bitwise_xor(third, c3, third)
        np.bitwise_xor(third, np.uint64(k1), third)
        np.bitwise_and(c2, low, c1)
        np.bitwise_and(c0, low, c3)
        c0, c2 = first, third
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return np.stack((c0, c1, c2, c3))
