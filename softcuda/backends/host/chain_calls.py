"""Lists of calls for a few elements: premade views, one scratch, nothing left to plan in a run."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.workers import ALIGNMENT
from softcuda.backends.steps import Operand
from softcuda.dtype import bf16
from softcuda.graph.params import Dims

__all__ = ["SMALL_ELEMS", "CallList", "Field", "in_memory_order", "stand_in"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

# The block of a chain: up to here one thread with bare calls is as fast as two with tiles
# (two-core Xeon, 2 MiB of second-level cache a core).
SMALL_ELEMS = 98304

# Two-core Xeon of 2.1 GHz, NumPy 2.4: what one more inner loop of a reduction takes.
LOOP_NS: Final = 30.0
EXTREME_LOOP_NS: Final = 140.0  # along a reduced axis, max and min of floats, which clear a status
SERIAL_NS: Final = 2.5  # an element of a product along a reduced axis, which has no vector loop
COPY_NS, COPY_ELEMENT_NS, TURN_ELEMENT_NS = 400.0, 0.25, 0.6

_F64: Final = np.dtype(np.float64)


class Field(NamedTuple):
    """What a reduction reads.

    Attributes:
        values: any strides.
        axes: the axes to reduce.
        order: the axes of the laid out space, as values has them.
        own: whether values may be overwritten.
    """

    values: Array
    axes: Dims
    order: Dims
    own: bool

    @property
    def kept(self) -> Dims:
        """Extents of the result, without the reduced axes."""
        return tuple(d for axis, d in enumerate(self.values.shape) if axis not in self.axes)

    @property
    def along(self) -> Dims:
        """Extents of the result with extent 1 at the reduced axes."""
        return tuple(1 if axis in self.axes else d for axis, d in enumerate(self.values.shape))

    @property
    def depth(self) -> int:
        """Elements of the field that one result reduces."""
        return math.prod(self.values.shape[axis] for axis in self.axes)


class CallList:
    """Calls as they are recorded, and the scratch that their views lie in.

    Attributes:
        calls: (function, arguments) in order; every argument is positional.
        used_bytes: the scratch taken so far [bytes].
    """

    def __init__(self, memory: Array | None = None) -> None:
        """Take scratch from `memory`, bytes; beyond its end from memory of the list's own."""
        self.calls: list[Call] = []
        self.used_bytes = 0
        self._memory = memory

    def add(self, function: Any, *arguments: Any) -> None:
        """Record one call."""
        self.calls.append((function, arguments))

    def memory(self, nbytes: int) -> Array:
        """Return bytes of scratch, aligned as the scratch is."""
        start = self.used_bytes
        self.used_bytes = start + -(-nbytes // ALIGNMENT) * ALIGNMENT
        if self._memory is None or self.used_bytes > self._memory.nbytes:
            return np.empty(nbytes, np.uint8)
        return self._memory[start : start + nbytes]

    def take(self, dims: Dims, dtype: np.dtype[Any]) -> Array:
        """Return an array in scratch."""
        taken: Array = self.memory(math.prod(dims) * dtype.itemsize).view(dtype).reshape(dims)
        return taken

    def target(self, out: Array, dtype: np.dtype[Any]) -> Array:
        """Return where a result of `dtype` is computed: `out` itself where it has that dtype."""
        return out if out.dtype == dtype else self.take(out.shape, dtype)

    def deliver(self, values: Array, out: Array) -> None:
        """Record that `values` are written to `out`, rounded once, unless they are `out`."""
        if values is out:
            return
        if out.dtype == bf16.numpy and values.dtype == _F64:
            self.add(convert, values, out)
        else:
            self.add(np.copyto, out, values, "unsafe")

    def lay(
        self,
        field: Field,
        dtype: np.dtype[Any] | None = None,
        *,
        loop_ns: float = LOOP_NS,
        turns: int = 1,
    ) -> Field:
        """Return the field as `dtype`, so laid out that its reduction has few inner loops.

        It is copied only where the dtype is another, or where the copy costs less than it saves:
        then the reduced axes come first or last, each group in order.

        Args:
            field: what is to be reduced.
            dtype: of the values; None for their own.
            loop_ns: what an inner loop along reduced elements takes [ns].
            turns: copies that transpose, where the layout is another: 2 for values that go back.
        """
        values, axes, order, _ = field
        dtype = dtype or values.dtype
        reduced = tuple(axes)
        kept = tuple(axis for axis in range(values.ndim) if axis not in axes)
        size, inside = values.size, values.ndim - 1 in axes
        copied = values.dtype != dtype
        natural = size / values.shape[-1] * (loop_ns if inside else LOOP_NS)
        natural += (COPY_NS + size * COPY_ELEMENT_NS) * copied
        first, last = field.depth * LOOP_NS, size / field.depth * loop_ns
        turned = min(first, last) + (COPY_NS + size * TURN_ELEMENT_NS) * turns
        if turned < natural:
            turn = reduced + kept if first <= last else kept + reduced
            values = values.transpose(turn)
            order = tuple(order[axis] for axis in turn)
            axes = tuple(turn.index(axis) for axis in reduced)
        elif not copied:
            return field
        copy = self.take(values.shape, dtype)
        self.add(np.copyto, copy, values, "unsafe")
        return Field(copy, axes, order, True)

    def room(self, field: Field) -> Array:
        """Return an array of the field's extents and dtype to overwrite: its own if it may be."""
        return field.values if field.own else self.take(field.values.shape, field.values.dtype)


def in_memory_order(values: Array, axes: Dims, *, own: bool) -> Field:
    """Return a field whose last axis is the innermost one in memory."""
    strides = values.strides
    rank = range(values.ndim)
    order = tuple(sorted(rank, key=lambda axis: (strides[axis] != 0, -abs(strides[axis]))))
    places = tuple(place for place, axis in enumerate(order) if axis in axes)
    return Field(values.transpose(order), places, order, own)


def stand_in(operand: Operand) -> Array:
    """Return an array with an operand's extents, strides and dtype whose elements do not exist.

    It is for recording calls whose scratch is to be counted; nothing may read or write it.
    """
    dtype = operand.dtype.numpy
    strides = tuple(stride * dtype.itemsize for stride in operand.strides)
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), operand.dims, strides)
