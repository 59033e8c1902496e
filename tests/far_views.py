"""Small arrays whose elements lie more than 2^31 elements apart, and work that reads them.

The gaps between the elements are never touched, so a device needs the memory and no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from view_works import DIMS, view_works

from softcuda.dtype import DType
from softcuda.graph.node import Node
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

Array = np.ndarray[Any, Any]

_ROW = 2**29 + 16  # between rows: 4 of them pass 2^31, and vectors stay aligned
_COLUMN = 55_100_000  # between columns: 39 of them pass 2^31
_SHIFT_BYTES = 1 << 16  # between arrays in one buffer


class FarView(NamedTuple):
    """Strides [elements] of an array of DIMS, and where its first element lies in the buffer."""

    first: int
    strides: tuple[int, int]

    def places(self, itemsize: int, number: int) -> Array:
        """Return where each element of the array of a number lies [bytes from the buffer]."""
        rows, columns = np.indices(DIMS)
        elements = self.first + rows * self.strides[0] + columns * self.strides[1]
        return np.asarray(elements * itemsize + number * _SHIFT_BYTES)


# Dtypes of every size, of numbers and of bools.
FAR_DTYPES = ("bool", "bf16", "f32", "i64", "f64")

VIEWS = {
    "rows": FarView(0, (_ROW, 1)),
    "columns": FarView(1024, (1, _COLUMN)),
    "backwards": FarView(2048 + 4 * _ROW + 39, (-_ROW, -1)),
}


class FarWork(NamedTuple):
    """A workload, and which of its arrays is to lie apart, by which view.

    The far arrays of all works of a dtype are numbered, so that they find room in one buffer.
    """

    name: str
    work: Workload
    operand: int
    view: FarView
    number: int

    @property
    def array(self) -> Array:
        """The array that lies apart."""
        return self.work.arrays[self.operand]

    @property
    def places(self) -> Array:
        """Where its elements lie [bytes from the buffer]."""
        return self.view.places(self.array.itemsize, self.number)

    @property
    def strides(self) -> tuple[int, ...]:
        """Its strides there [bytes]."""
        return tuple(stride * self.array.itemsize for stride in self.view.strides)

    def node(self, leaf: Node) -> Node:
        """Return its node, with a leaf for the far array."""
        leaves = [Node.leaf(array) for array in self.work.arrays]
        leaves[self.operand] = leaf
        return self.work.build(Node, tuple(leaves))


def far_works(dtype: DType) -> Iterator[FarWork]:
    """Yield work of every family on arrays of a dtype, each operand far in turn."""
    source = Source(np.random.default_rng(29))
    numbers: dict[int, int] = {}
    for name, work in view_works(dtype, source).items():
        for operand, array in enumerate(work.arrays):
            if array.shape != DIMS:
                continue
            number = numbers.setdefault(id(array), len(numbers))
            for kind, view in VIEWS.items():
                yield FarWork(f"{name}, operand {operand}, {kind}", work, operand, view, number)
