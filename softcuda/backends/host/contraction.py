"""A pairwise contraction of two operands in memory: its axes, and the classes of its labels.

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

from softcuda.backends.host.views import strided
from softcuda.backends.steps import Operand
from softcuda.contraction.axes import Axes, fuse_axes
from softcuda.contraction.classes import Classes, classify
from softcuda.graph.params import Contraction, Dims

__all__ = ["Pair", "pair_of", "with_axes"]

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

    def fused(self) -> Pair:
        """Return the contraction with as few labels as the strides of a, b and out allow."""
        return _pair(*fuse_axes((self.a, self.b, self.out)).operands)

    def with_result(self, out: Axes) -> Pair:
        """Return the contraction with its result elsewhere, of the same labels."""
        return _pair(self.a, self.b, out)

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
    return strided(array, axes.dims, tuple([s * size for s in axes.strides]))
