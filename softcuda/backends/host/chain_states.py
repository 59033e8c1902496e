"""What a reduction keeps of a block, how two blocks meet, and what it makes of the whole.

A state is a tuple of small arrays over the kept axes of a block. `measure` makes one of a block,
`merge` joins that of a block with that of the blocks before it, `finish` gives the result,
unrounded. Blocks are merged in an order that does not depend on threads, so a result has the
same bits run after run.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from softcuda.backends.host.chain_sums import fold_axis, sum_axes, wide
from softcuda.backends.host.elementwise import ELEMENTWISE
from softcuda.graph.params import Dims

__all__ = ["Argument", "Block", "Fold", "Partial", "Reducer", "Sum", "floats"]

Array = np.ndarray[Any, Any]
Partial = tuple[Array, ...]

_F32: Final = np.dtype(np.float32)
_F64: Final = np.dtype(np.float64)


class Block(NamedTuple):
    """Values of a block: any strides, in their compute dtype.

    Attributes:
        values: the block.
        axes: the axes to reduce, sorted, at least one.
        starts: where the block begins along every axis.
        scratch: an array of values' extents and dtype that may be overwritten; memory of its own
            for f32, values itself where these are a copy in f64.
    """

    values: Array
    axes: Dims
    starts: Dims
    scratch: Array


class Reducer(Protocol):
    """The state arithmetic of one reduction."""

    needs_scratch: bool
    cost_ns: float

    def measure(self, block: Block) -> Partial:
        """Return the state of one block."""

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return the state of two neighbours, `before` first."""

    def finish(self, state: Partial, count: int) -> Array:
        """Return the result of the whole, `count` elements each."""


def floats(block: Block) -> Block:
    """Return the block as floats: integers and bools as f64."""
    if block.values.dtype.kind == "f":
        return block
    values = block.values.astype(_F64)
    return block._replace(values=values, scratch=values)


class Sum:
    """sum and mean."""

    needs_scratch = False
    cost_ns = 0.15

    def __init__(self, mean: bool) -> None:
        self.mean = mean

    def measure(self, block: Block) -> Partial:
        """Return the sums of the block."""
        if self.mean:
            block = floats(block)
        return (sum_axes(block.values, block.axes),)

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return the sums of both."""
        return (np.asarray(before[0] + after[0]),)

    def finish(self, state: Partial, count: int) -> Array:
        """Return the sum, or the mean."""
        return np.asarray(np.divide(state[0], count)) if self.mean else state[0]


class Fold:
    """prod, min, max, any, all: one associative function; zeros meet by softcuda's rules."""

    needs_scratch = False
    cost_ns = 0.15

    def __init__(self, name: str) -> None:
        self.name = name
        self.ufunc: Any = {
            "prod": np.multiply,
            "min": np.minimum,
            "max": np.maximum,
            "any": np.logical_or,
            "all": np.logical_and,
        }[name]
        self.meet = {
            "min": ELEMENTWISE["minimum"],
            "max": ELEMENTWISE["maximum"],
        }.get(name, self.ufunc)

    def measure(self, block: Block) -> Partial:
        """Return the block's values under the one function."""
        x = block.values
        if self.name in ("any", "all") and x.dtype.kind != "b":
            x = np.not_equal(x, 0)
        dtype = wide(x.dtype) if self.name == "prod" else None
        found = fold_axis(self.ufunc, x, block.axes, dtype)
        if self.name in ("min", "max") and x.dtype.kind == "f":
            _sign_zeros(x, block.axes, found, self.name)
        return (found,)

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return the function of both, zeros by sign."""
        met = np.empty_like(before[0])
        self.meet(before[0], after[0], out=met)
        return (met,)

    def finish(self, state: Partial, count: int) -> Array:
        """Return the state's only array."""
        return state[0]


def _sign_zeros(x: Array, axes: Dims, found: Array, name: str) -> None:
    """Give a zero among extremes its sign: -0 is below +0.

    Where the least element is a zero no element is below it, so as an integer a -0 is the least
    of all; where the greatest is a zero, a +0 is the only integer that is not negative.
    """
    zeros = np.equal(found, 0)
    if not zeros.any():
        return
    bits = x.view(np.int32 if x.dtype == _F32 else np.int64)
    if name == "min":
        negative = fold_axis(np.minimum, bits, axes, None) < 0
    else:
        negative = fold_axis(np.maximum, bits, axes, None) != 0
    np.copyto(found, 0.0, where=zeros)
    np.copyto(found, -0.0, where=np.logical_and(zeros, negative))


class Argument:
    """argmin and argmax: the first NaN, else the first extreme, as index over all reduced axes."""

    needs_scratch = False
    cost_ns = 0.3

    def __init__(self, name: str, dims: Dims, axes: Dims) -> None:
        self.find = np.argmin if name == "argmin" else np.argmax
        self.better: Any = np.less if name == "argmin" else np.greater
        self.extents = [dims[axis] for axis in axes]

    def measure(self, block: Block) -> Partial:
        """Return the block's first extremes and their places."""
        x, axes = block.values, block.axes
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose(*kept, *axes).reshape(*(x.shape[a] for a in kept), -1)
        place = np.asarray(self.find(rows, axis=-1))
        best = np.take_along_axis(rows, place[..., None], axis=-1)[..., 0]
        index = np.zeros_like(place)
        stride = 1
        for axis, extent in zip(reversed(axes), reversed(self.extents), strict=True):
            place, rest = np.divmod(place, x.shape[axis])
            index += (rest + block.starts[axis]) * stride
            stride *= extent
        return (np.asarray(best), index)

    def merge(self, before: Partial, after: Partial) -> Partial:
        """Return the better of both, the earlier one of equals."""
        (a, i), (b, j) = before, after
        nan_a, nan_b = a != a, b != b
        tie = np.where(nan_a | nan_b, nan_a & nan_b, a == b)
        take = np.where(tie, j < i, (nan_b & ~nan_a) | (~nan_a & self.better(b, a)))
        return (np.where(take, b, a), np.where(take, j, i))

    def finish(self, state: Partial, count: int) -> Array:
        """Return the places."""
        return state[1]
