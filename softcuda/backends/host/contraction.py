"""How a pairwise contraction is viewed as products of matrices: pure planning over strides.

An operand's axes of extent 1 are dropped first: an extent of 1 that stretches over a free label
leaves a label of the other operand alone, over a summed one it leaves a private label there.
Private labels are summed before the product. What is left is classified into batch, m, n and k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softcuda.backends.steps import Operand
from softcuda.contraction.axes import Axes
from softcuda.contraction.classes import Classes, classify
from softcuda.graph.params import Contraction, Dims
from softcuda.graph.shapes import reshape_strides

__all__ = ["Pair", "Views", "direct_views", "pair_of", "with_axes"]

Array = np.ndarray[Any, Any]
Labels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A contraction of two operands, extent-1 axes dropped.

    Attributes:
        a: axes of operand 0, private ones included.
        b: axes of operand 1, private ones included.
        out: axes of the result.
        classes: classes of the labels.
        extents: extent of each label.
    """

    a: Axes
    b: Axes
    out: Axes
    classes: Classes
    extents: dict[int, int]

    def dims(self, labels: Sequence[int]) -> Dims:
        """Return the extents of labels."""
        return tuple(self.extents[label] for label in labels)

    def count(self, labels: Sequence[int]) -> int:
        """Return the product of the extents of labels."""
        return math.prod(self.dims(labels))

    def turned(self) -> Pair:
        """Return the contraction with its operands in each other's place."""
        return _pair(self.b, self.a, self.out)

    def summed(self) -> Pair:
        """Return the contraction that is left when private labels are summed, dense then."""
        c = self.classes
        a = self.a.without(c.private_a) if c.private_a else self.a
        b = self.b.without(c.private_b) if c.private_b else self.b
        return _pair(a, b, self.out)


def pair_of(a: Operand, b: Operand, out: Operand, params: Contraction) -> Pair:
    """Return the contraction of two operands, extent-1 axes dropped, labels classified."""
    return _pair(
        Axes.counting(params.a, a.dims, a.strides),
        Axes.counting(params.b, b.dims, b.strides),
        Axes.counting(params.out, out.dims, out.strides),
    )


def _pair(a: Axes, b: Axes, out: Axes) -> Pair:
    extents = dict(zip(a.labels + b.labels, a.dims + b.dims, strict=True))
    return Pair(a, b, out, classify(a.labels, b.labels, out.labels), extents)


def with_axes(array: Array, axes: Axes) -> Array:
    """Return a view of `array` (whose first element stays first) with other axes."""
    size = array.itemsize
    return np.lib.stride_tricks.as_strided(array, axes.dims, tuple(s * size for s in axes.strides))


@dataclass(frozen=True, slots=True)
class Views:
    """Axes [loops, rows, columns] of a, b and out; `swapped`: out^T = b^T a^T."""

    a: Axes
    b: Axes
    out: Axes
    swapped: bool


def _fused(axes: Axes, labels: Labels) -> tuple[int, int] | None:
    """Return (extent, stride) of several axes as one, or None where only a copy has it."""
    group = axes.over(labels)
    extent = math.prod(group.dims)
    if extent == 1:
        return 1, 0
    strides = reshape_strides(group.dims, group.strides, (extent,))
    return None if strides is None else (extent, strides[0])


def _run(pair: Pair, labels: Labels, source: Axes) -> tuple[Labels, Labels]:
    """Split labels into (loops, the longest tail that is one axis of the source and of out)."""
    for start in range(len(labels)):
        run = labels[start:]
        if _fused(source, run) and _fused(pair.out, run):
            return labels[:start], run
    return labels, ()


def _is_blas(rows: tuple[int, int], columns: tuple[int, int]) -> bool:
    """Return whether BLAS reads a matrix of these (extent, stride) without a copy."""
    (height, down), (width, across) = rows, columns
    by_rows = (across == 1 or width == 1) and (height == 1 or down >= max(width, 1))
    by_columns = (down == 1 or height == 1) and (width == 1 or across >= max(height, 1))
    return by_rows or by_columns


def direct_views(pair: Pair) -> Views | None:
    """Return the views under which one batched product of matrices does the contraction.

    Labels of m or n that do not fuse become loops, unless the matrices then get small. None
    where an operand must be copied first.
    """
    c = pair.classes
    loops_m, run_m = _run(pair, c.m, pair.a)
    loops_n, run_n = _run(pair, c.n, pair.b)
    work = pair.count(run_m) * pair.count(run_n) * pair.count(c.k)
    if (loops_m or loops_n) and work < 1 << 15:
        return None
    by_b = tuple(label for label in pair.b.labels if label in c.k)
    for order in (c.k, by_b):
        a_k, b_k = _fused(pair.a, order), _fused(pair.b, order)
        if a_k and b_k:
            break
    else:
        return None
    loops = tuple(label for label in pair.out.labels if label not in run_m + run_n)
    a_m, b_n = _fused(pair.a, run_m), _fused(pair.b, run_n)
    out_m, out_n = _fused(pair.out, run_m), _fused(pair.out, run_n)
    if not (a_m and b_n and out_m and out_n):
        return None
    if not (_is_blas(a_m, a_k) and _is_blas(b_k, b_n) and _is_blas(out_m, out_n)):
        return None
    swapped = out_n[1] > 1 and out_m[1] == 1
    a = _matrix(pair.a.over(loops), a_m, a_k)
    b = _matrix(pair.b.over(loops), b_k, b_n)
    out = _matrix(pair.out.over(loops), out_m, out_n)
    if not swapped:
        return Views(a, b, out, False)
    return Views(_turned(b), _turned(a), _turned(out), True)


def _matrix(loops: Axes, rows: tuple[int, int], columns: tuple[int, int]) -> Axes:
    width = columns[0]
    # An axis of extent 1 gets the stride of a dense matrix: NumPy then sees what BLAS takes.
    down = rows[1] if rows[0] > 1 else max(width * max(columns[1], 1), 1)
    across = columns[1] if width > 1 else (1 if rows[1] != 1 else max(rows[0], 1))
    return Axes(
        (*loops.labels, -1, -2), (*loops.dims, rows[0], width), (*loops.strides, down, across)
    )


def _turned(axes: Axes) -> Axes:
    return Axes(
        axes.labels,
        (*axes.dims[:-2], axes.dims[-1], axes.dims[-2]),
        (*axes.strides[:-2], axes.strides[-1], axes.strides[-2]),
    )
