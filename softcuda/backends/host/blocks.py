"""Products of matrices in blocks so small that BLAS computes each in the thread that asks for it.

BLAS shares large products among threads of its own. Where several of our threads multiply at once
each gets a part of the result, and cuts what it multiplies into blocks below that size. Where BLAS
can be told to leave products alone, they may be as large as what a cache holds of their result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = [
    "MANY_TERMS",
    "MatrixBlock",
    "block_of",
    "cut_by_rows",
    "has_many_terms",
    "multiply_any",
    "multiply_by_parts",
    "multiply_in_blocks",
]

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array, Array], Any]

_VECTOR: Final = 16  # elements of a vector of f32
_ROWS: Final = 4  # rows that kernels of BLAS compute at a time
_CACHED_ELEMS: Final = 1 << 17  # of a result in the second-level cache of one thread
MANY_TERMS: Final = 1 << 16  # of a dot, from which on its parts are added in f64
_TERMS: Final = 1 << 14  # of a part
_LEAST_ROWS: Final = 128  # of such a part: with fewer rows, b is read too often


class MatrixBlock(NamedTuple):
    """The extents of one block of the result."""

    m: int
    n: int


@lru_cache(maxsize=1024)
def block_of(m: int, n: int, k: int, most: int) -> MatrixBlock:
    """Return the extents of blocks of a product that have at most `most` multiplications each.

    Blocks are as near to squares as they can be, of rows that fill vectors; the last of a row or
    a column of blocks may be smaller.

    Args:
        m: rows of the result, at least 1.
        n: columns of the result, at least 1.
        k: the extent of the sum, at least 1.
        most: multiplications of a block; one element of the result may have more.

    Example:
        >>> block_of(330, 330, 22, 1 << 19)
        MatrixBlock(m=112, n=176)
    """
    if m * n * k <= most:
        return MatrixBlock(m, n)
    found = []
    for across in range(1, -(-n // _VECTOR) + 1):
        width = n if across == 1 else _rounded_up(-(-n // across), _VECTOR)
        height = most // (width * k)
        if height:
            down = -(-m // (height - height % _ROWS or height))
            found.append(MatrixBlock(_rounded_up(-(-m // down), _ROWS) if down > 1 else m, width))
    fitting = [block for block in found if block.m * block.n * k <= most]
    return min(fitting, key=lambda block: 1 / block.m + 1 / block.n, default=MatrixBlock(1, 1))


def _rounded_up(extent: int, unit: int) -> int:
    return -(-extent // unit) * unit


def multiply_in_blocks(multiply: Multiply, most: int, a: Array, b: Array, out: Array) -> None:
    """Write a @ b into `out`, by products of at most `most` multiplications each.

    Args:
        multiply: f(a [..., m, k], b [..., k, n], out [..., m, n]).
        most: multiplications of one product.
        a: [..., m, k].
        b: [..., k, n].
        out: [..., m, n].
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    block = block_of(m, n, k, most)
    if block == (m, n):
        multiply(a, b, out)
        return
    for top, height in _stretches(m, block.m):
        for left, width in _stretches(n, block.n):
            rows, columns = slice(top, top + height), slice(left, left + width)
            down, across = min(block.m, height), min(block.n, width)
            part = out[..., rows, columns].reshape(*out.shape[:-2], height // down, down, width)
            multiply(
                a[..., rows, :].reshape(*a.shape[:-2], height // down, 1, down, k),
                _columns(b[..., columns], width // across)[..., None, :, :, :],
                _columns(part, width // across),
            )


def cut_by_rows(a: Array, b: Array, out: Array) -> list[tuple[Array, Array, Array]]:
    """Return a @ b as products [(a, b, out), ..] whose results stay in a second-level cache.

    BLAS fills the result of a product with zeros before it adds to it: where that is larger than
    the cache, it goes through memory twice.

    Args:
        a: [..., m, k].
        b: [..., k, n].
        out: [..., m, n].
    """
    m, n = out.shape[-2:]
    parts = min(-(-m * n // _CACHED_ELEMS), m // _LEAST_ROWS)
    if parts <= 1:
        return [(a, b, out)]
    height = _rounded_up(-(-m // parts), _ROWS)
    cuts = [slice(top, top + height) for top in range(0, m, height)]
    return [(a[..., rows, :], b, out[..., rows, :]) for rows in cuts]


def _stretches(extent: int, part: int) -> list[tuple[int, int]]:
    """Return (start, extent) of what is parts of equal size, and of the rest."""
    whole = extent // part * part
    return [(0, whole), (whole, extent - whole)] if whole < extent else [(0, whole)]


def _columns(array: Array, parts: int) -> Array:
    """Return [..., parts, rows, columns / parts] of [..., rows, columns], a view."""
    *outer, rows, columns = array.shape
    return array.reshape(*outer, rows, parts, columns // parts).swapaxes(-2, -3)


def has_many_terms(a: Array, out: Array) -> bool:
    """Return whether BLAS would add up so many terms one after the other that they get lost.

    Args:
        a: [..., m, k].
        out: [..., m, n].
    """
    return bool(a.shape[-1] >= MANY_TERMS and min(out.shape[-2:]) == 1)


def multiply_any(multiply: Multiply, a: Array, b: Array, out: Array) -> None:
    """Write a @ b into `out`; see `multiply_by_parts`, which it is where a dot has many terms."""
    if has_many_terms(a, out):
        multiply_by_parts(multiply, a, b, out)
    else:
        multiply(a, b, out)


def multiply_by_parts(multiply: Multiply, a: Array, b: Array, out: Array) -> None:
    """Write a @ b into `out`, the products of stretches of k added up in f64.

    Dots of BLAS add up in a few registers: of 2e7 terms of f32 a half percent is lost.

    Args:
        multiply: f(a [..., m, k], b [..., k, n], out [..., m, n]).
        a: [..., m, k].
        b: [..., k, n].
        out: [..., m, n].
    """
    depth = a.shape[-1]
    starts = range(0, depth, _TERMS)
    parts = np.empty((len(starts), *out.shape), out.dtype)
    for part, start in zip(parts, starts, strict=True):
        stop = min(start + _TERMS, depth)
        multiply(a[..., start:stop], b[..., start:stop, :], part)
    wide = np.complex128 if out.dtype.kind == "c" else np.float64
    out[...] = np.add.reduce(parts, axis=0, dtype=wide)
