"""Reductions and scans as methods of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Self

from softcuda.errors import ArgumentError
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.params import Cumulative, Moment, Norm, Reduce, Shape, literal
from softcuda.graph.shapes import normalize_axes, normalize_axis, numel
from softcuda.tensor.values import flag, plain_number

__all__ = ["AxisLike", "Reductions"]

AxisLike = int | Sequence[int] | None

_RESHAPE: Final = OPS["reshape"]
_CUMSUM: Final = OPS["cumsum"]


class Reductions(Node):
    """A node with reductions as methods: the functions of the same names."""

    __slots__ = ()

    def _reduced(self, token: str, axis: AxisLike, keepdims: bool) -> Self:
        axes = normalize_axes(token, axis, len(self.dims))
        return self.apply(OPS[token], (self,), Reduce(axes, flag(token, "keepdims", keepdims)))

    def sum(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.sum of this tensor."""
        return self._reduced("sum", axis, keepdims)

    def prod(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.prod of this tensor."""
        return self._reduced("prod", axis, keepdims)

    def min(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.min of this tensor."""
        return self._reduced("min", axis, keepdims)

    def max(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.max of this tensor."""
        return self._reduced("max", axis, keepdims)

    def mean(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.mean of this tensor."""
        return self._reduced("mean", axis, keepdims)

    def any(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.any of this tensor."""
        return self._reduced("any", axis, keepdims)

    def all(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.all of this tensor."""
        return self._reduced("all", axis, keepdims)

    def argmin(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.argmin of this tensor."""
        return self._reduced("argmin", axis, keepdims)

    def argmax(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.argmax of this tensor."""
        return self._reduced("argmax", axis, keepdims)

    def logsumexp(self, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.logsumexp of this tensor."""
        return self._reduced("logsumexp", axis, keepdims)

    def var(self, axis: AxisLike = None, keepdims: bool = False, correction: float = 0) -> Self:
        """Return softcuda.var of this tensor."""
        return self._moment("var", axis, keepdims, correction)

    def std(self, axis: AxisLike = None, keepdims: bool = False, correction: float = 0) -> Self:
        """Return softcuda.std of this tensor."""
        return self._moment("std", axis, keepdims, correction)

    def _moment(self, token: str, axis: AxisLike, keepdims: bool, correction: float) -> Self:
        axes = normalize_axes(token, axis, len(self.dims))
        number = plain_number(token, "correction", correction)
        if not math.isfinite(number):
            raise ArgumentError(f"{token}: correction is {number}; allowed are finite numbers")
        keep = flag(token, "keepdims", keepdims)
        return self.apply(OPS[token], (self,), Moment(axes, keep, literal(number)))

    def norm(self, ord: float | None = 2, axis: AxisLike = None, keepdims: bool = False) -> Self:
        """Return softcuda.norm of this tensor.

        Raises:
            ArgumentError, ArgumentTypeError: the order is no number.
        """
        axes = normalize_axes("norm", axis, len(self.dims))
        number = plain_number("norm", "ord", 2 if ord is None else ord)
        if math.isnan(number):
            raise ArgumentError("norm: ord is nan; allowed are numbers, inf and -inf")
        keep = flag("norm", "keepdims", keepdims)
        return self.apply(OPS["norm"], (self,), Norm(axes, keep, literal(number)))

    def cumsum(self, axis: int | None = None) -> Self:
        """Return softcuda.cumsum of this tensor."""
        x = self
        if axis is None:
            x, axis = self.apply(_RESHAPE, (self,), Shape((numel(self.dims),))), 0
        place = normalize_axis("cumsum", axis, len(x.dims))
        return self.apply(_CUMSUM, (x,), Cumulative(place))
