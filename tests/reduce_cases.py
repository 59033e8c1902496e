"""What the tests of reductions and of rows share: arrays, rows, values computed on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from chain_cases import array_of
from op_cases import profile_of

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, DType

__all__ = ["FAST", "FLOATS", "NAIVE", "ROWS", "computed", "numbers", "wide"]

Array = np.ndarray[Any, Any]

FAST, NAIVE = profile_of("cuda_reduce"), profile_of("cuda_naive")
FLOATS = [dtype for dtype in REAL_DTYPES.values() if dtype.is_float]

ROWS = [
    *((5, n) for n in (1, 4, 31, 32, 33, 128, 1031, 4096, 8192, 8193, 40_000)),
    *((9000, n) for n in (3, 16, 128)),
    (3, 7, 64),
    (200, 300),
]


def numbers(dims: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Return numbers that are finite, and some that are equal."""
    rng = np.random.default_rng(seed)
    if not dtype.is_float:
        return array_of(rng, dims, dtype)
    return np.asarray(np.round(rng.standard_normal(dims) * 8) / 4).astype(dtype.numpy)


def computed(node: Any, profile: Any = FAST) -> Array:
    return np.asarray(sc.compile(node, profile).run().numpy())


def wide(x: Array) -> Array:
    return x.astype(np.float64)
