"""States of var, std, the norms and logsumexp; the table of all reducers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain_states import (
    Argument,
    Block,
    Fold,
    Partial,
    Reducer,
    Sum,
    floats,
)
from softcuda.backends.host.chain_sums import fold_axis, sum_axes
from softcuda.graph.params import Dims, Params, value_of

__all__ = ["ExtremeNorm", "LogSumExp", "Moments", "PowerNorm", "reducer_for"]

Array = np.ndarray[Any, Any]

_F32: Final = np.dtype(np.float32)
_F64: Final = np.dtype(np.float64)
_FAR: Final = 1e-4  # of the mean: deviations smaller than this are measured in f64
# Sums of squares in f32 are kept where neither overflow nor underflow can have touched them.
_SQUARES_LOW, _SQUARES_HIGH = 1e-24, 1e34


def _wide_block(block: Block) -> Block:
    values = block.values.astype(_F64)
    return block._replace(values=values, scratch=values)


def _count(block: Block) -> int:
    return math.prod(block.values.shape[axis] for axis in block.axes)


def _spread(small: Array, block: Block) -> Array:
    """Return a kept array with extent 1 at the reduced axes."""
    return np.expand_dims(small, block.axes)


class Moments:
    """var and std by count, mean and squared deviations of blocks.

    Source: Chan, Golub, LeVeque, Algorithms for computing the sample variance (1983): two passes
    inside a block, the pairwise update between blocks.
    """

    needs_scratch = True
    cost_ns = 0.6

    def __init__(self, correction: float, root: bool) -> None:
        self.correction = correction
        self.root = root

    def measure(self, block: Block) -> Partial:
        """Return count, mean and squared deviations of the block."""
        block = floats(block)
        state = self._measured(block)
        if block.values.dtype == _F32:
            far = np.square(state[1] * _FAR) * state[0]  # f32 sums miss the mean by too much
            if not _trusted(state[2]) or bool(np.any(state[2] < far)):
                state = self._measured(_wide_block(block))
        return state

    def _measured(self, block: Block) -> Partial:
        x, count = block.values, _count(block)
        mean = np.divide(sum_axes(x, block.axes), count)
        centre = mean.astype(x.dtype)
        spread = np.subtract(x, _spread(centre, block), block.scratch)
        squares = sum_axes(np.multiply(spread, spread, spread), block.axes)
        squares = np.asarray(squares - np.square(mean - centre) * count)
        return (np.asarray(float(count)), np.asarray(mean), squares)

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return those of both together."""
        (n, mean, squares), (m, other, more) = before, after
        total = n + m
        apart = other - mean
        return (
            np.asarray(total),
            np.asarray(mean + apart * (m / total)),
            np.asarray(squares + more + apart * apart * (n * m / total)),
        )

    def finish(self, state: Partial, count: int) -> Array:
        """Return the variance or its root."""
        variance = np.divide(np.maximum(state[2], 0.0), max(count - self.correction, 0.0))
        return np.asarray(np.sqrt(variance) if self.root else variance)


def _trusted(squares: Array) -> bool:
    return bool(np.all((squares > _SQUARES_LOW) & (squares < _SQUARES_HIGH)))


class PowerNorm:
    """norm of order 0 (elements that are not zero), 1, 2 or any p: (sum |x|^p)^(1/p)."""

    needs_scratch = True
    cost_ns = 0.3

    def __init__(self, order: float) -> None:
        self.order = order

    def measure(self, block: Block) -> Partial:
        """Return the sums of |x|^p of the block."""
        block = floats(block)
        x = block.values
        if self.order == 0:
            return (sum_axes(np.not_equal(x, 0), block.axes).astype(_F64),)
        if self.order == 1:
            return (sum_axes(np.absolute(x, block.scratch), block.axes),)
        if self.order != 2:
            powers = np.absolute(x.astype(_F64))
            return (sum_axes(np.power(powers, self.order, powers), block.axes),)
        squares = sum_axes(np.multiply(x, x, block.scratch), block.axes)
        if x.dtype != _F32 or _trusted(squares):
            return (squares,)
        return (sum_axes(np.square(x, dtype=_F64), block.axes),)

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return the sums of both."""
        return (np.asarray(before[0] + after[0]),)

    def finish(self, state: Partial, count: int) -> Array:
        """Return the root of order p of the sums."""
        if self.order in (0, 1):
            return state[0]
        return np.asarray(np.sqrt(state[0]) if self.order == 2 else state[0] ** (1 / self.order))


class ExtremeNorm(Fold):
    """norm of order inf or -inf: the greatest or least |x|."""

    needs_scratch = True

    def measure(self, block: Block) -> Partial:
        """Return the extremes of |x| of the block."""
        block = floats(block)
        return (fold_axis(self.ufunc, np.absolute(block.values, block.scratch), block.axes, None),)


class LogSumExp:
    """logsumexp by a shift and the sum of exp(x - shift); the shift is the greatest element."""

    needs_scratch = True
    cost_ns = 1.0

    def measure(self, block: Block) -> Partial:
        """Return the shift and the sum of exp(x - shift) of the block."""
        block = floats(block)
        x = block.values
        top = fold_axis(np.maximum, x, block.axes, None)
        largest = np.finfo(x.dtype).max
        # +inf: exp(inf - largest) is inf still, and no inf - inf arises when blocks meet.
        top = np.where(np.isnan(top), x.dtype.type(0), np.minimum(top, largest))
        shift = np.where(np.isneginf(top), x.dtype.type(0), top)
        powers = np.subtract(x, _spread(shift, block), block.scratch)
        np.exp(powers, powers)
        return (top.astype(_F64), sum_axes(powers, block.axes))

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return the larger shift and the sum for it."""
        (a, total), (b, more) = before, after
        top = np.maximum(a, b)
        shift = np.where(np.isneginf(top), 0.0, top)
        return (top, np.asarray(total * np.exp(a - shift) + more * np.exp(b - shift)))

    def finish(self, state: Partial, count: int) -> Array:
        """Return shift + log(sum)."""
        shift = np.where(np.isneginf(state[0]), 0.0, state[0])
        return np.asarray(shift + np.log(state[1]))


def reducer_for(name: str, params: Params, dims: Dims, axes: Dims) -> Reducer:
    """Return the reducer of an op over a space.

    Args:
        name: a token of a reduction.
        params: the op's own params; their axes do not count.
        dims: extents of the space.
        axes: its reduced axes, sorted, at least one.
    """
    named: dict[str, Callable[[], Reducer]] = {
        "sum": lambda: Sum(mean=False),
        "mean": lambda: Sum(mean=True),
        "var": lambda: Moments(float(value_of(_field(params, "correction"))), root=False),
        "std": lambda: Moments(float(value_of(_field(params, "correction"))), root=True),
        "norm": lambda: _norm(float(value_of(_field(params, "order")))),
        "logsumexp": LogSumExp,
        "argmin": lambda: Argument("argmin", dims, axes),
        "argmax": lambda: Argument("argmax", dims, axes),
    }
    make = named.get(name)
    return Fold(name) if make is None else make()


def _field(params: Any, name: str) -> str:
    return getattr(params, name)  # type: ignore[no-any-return]


def _norm(order: float) -> Reducer:
    if math.isinf(order):
        return ExtremeNorm("max" if order > 0 else "min")
    return PowerNorm(order)
