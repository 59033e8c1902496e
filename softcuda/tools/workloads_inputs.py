"""Inputs of workloads: random arrays in the domain of an op, of any layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.dtype import DType
from softcuda.graph.params import Dims, literal
from softcuda.graph.shapes import numel

__all__ = ["DOMAINS", "Source", "number_text", "rows_and_columns"]

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Sampler = Callable[[Generator, int], Array]

BLOCK: Final = 1 << 16  # elements drawn; larger arrays repeat them, which costs a copy


def _normal(scale: float) -> Sampler:
    return lambda rng, count: rng.normal(0.0, scale, count)


def _uniform(low: float, high: float) -> Sampler:
    return lambda rng, count: rng.uniform(low, high, count)


def _integers(low: int, high: int) -> Sampler:
    return lambda rng, count: rng.integers(low, high, count, endpoint=True)


def _signed(magnitudes: Array, rng: Generator) -> Array:
    np.negative(magnitudes, magnitudes, where=rng.integers(0, 2, magnitudes.size) > 0)
    return magnitudes


def _away_from_zero(rng: Generator, count: int) -> Array:
    return _signed(rng.uniform(0.5, 4.0, count), rng)


def _integers_but_zero(rng: Generator, count: int) -> Array:
    return _signed(rng.integers(1, 9, count, endpoint=True), rng)


# Domain -> (sampler of floats, sampler of integers); bools are fair coins everywhere.
DOMAINS: Final[Mapping[str, tuple[Sampler, Sampler]]] = MappingProxyType(
    {
        "any": (_normal(1.5), _integers(-100, 100)),
        "small": (_normal(1.0), _integers(-6, 6)),
        "positive": (_uniform(0.1, 4.0), _integers(1, 100)),
        "nonzero": (_away_from_zero, _integers_but_zero),
        "unit": (_uniform(-1.0, 1.0), _integers(-1, 1)),
        "inside_one": (_uniform(-0.9, 0.9), _integers(0, 0)),
        "from_one": (_uniform(1.1, 4.0), _integers(1, 100)),
        "above_minus_one": (_uniform(-0.9, 4.0), _integers(0, 100)),
        "near_one": (_uniform(0.9, 1.1), _integers(1, 2)),
        "exponent": (_uniform(-2.0, 3.0), _integers(0, 3)),
        "low": (_uniform(-1.5, -0.5), _integers(-50, -10)),
        "high": (_uniform(0.5, 1.5), _integers(10, 50)),
    }
)


class Source:
    """Arrays from a seeded generator: the same seed, the same arrays."""

    def __init__(self, rng: Generator) -> None:
        self._rng = rng

    def array(self, domain: str, dims: Dims, dtype: DType) -> Array:
        """Return a row-major array [dims, dtype] of values of a domain (a key of DOMAINS)."""
        total = numel(dims)
        count = min(total, BLOCK)
        if dtype.is_bool:
            drawn = self._rng.integers(0, 2, count)
        else:
            drawn = DOMAINS[domain][0 if dtype.is_float else 1](self._rng, count)
        return _repeated(drawn.astype(dtype.numpy), total).reshape(dims)

    def indices(self, extent: int, dims: Dims, dtype: DType, low: int | None = None) -> Array:
        """Return indices [dims, i32 or i64] from `low` (default -extent) to extent - 1."""
        total = numel(dims)
        first = -extent if low is None else low
        drawn = self._rng.integers(first, max(extent, first + 1), min(total, BLOCK))
        return _repeated(drawn.astype(dtype.numpy), total).reshape(dims)

    def strided(self, domain: str, dims: Dims, dtype: DType) -> Array:
        """Return an array [dims, dtype] that is transposed and runs backwards in steps of 2.

        `dims` has at least one axis.
        """
        base = self.array(domain, (*dims[:0:-1], 2 * dims[0]), dtype)
        return base[..., ::-2].T

    def stretched(self, domain: str, dims: Dims, dtype: DType) -> Array:
        """Return an array [dims, dtype] whose first axis has stride 0; it has at least one."""
        return np.broadcast_to(self.array(domain, (1, *dims[1:]), dtype), dims)

    def generator_state(self) -> Array:
        """Return a generator's variable: [2], i64, (seed, counter)."""
        return np.array([int(self._rng.integers(1 << 62)), 0], np.int64)


def number_text(dtype: DType, value: float) -> str:
    """Return the text of a number of the dtype's kind."""
    if dtype.is_bool:
        return literal(bool(value))
    return literal(float(value) if dtype.is_float else int(value))


def _repeated(block: Array, total: int) -> Array:
    """Return `total` elements, the block over and over."""
    if total == block.size:
        return block
    whole, rest = divmod(total, block.size)
    result = np.empty(total, block.dtype)
    result[: whole * block.size].reshape(whole, block.size)[...] = block
    result[whole * block.size :] = block[:rest]
    return result


def rows_and_columns(size: int) -> tuple[int, int]:
    """Return (rows, columns) of a matrix of `size` >= 1 elements, as square as it can be.

    Example:
        >>> rows_and_columns(2048), rows_and_columns(7)
        ((32, 64), (1, 7))
    """
    rows = int(size**0.5)
    while size % rows:
        rows -= 1
    return rows, size // rows
