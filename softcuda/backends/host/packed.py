"""Contractions in boxes: what BLAS cannot take where it lies is packed into scratch, box by box.

C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]; each of b, m, n, k stands for any number of labels. A
box has the whole extent of the labels that run fastest in what is packed, if it can: what is read
and written then are runs of neighbours, and the rest of a permutation happens in the cache.

Boxes are computed in turn, each product and each copy shared by all threads; or each by one thread,
with products so small that BLAS does not share them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.blocks import cut_by_rows, multiply_in_blocks
from softcuda.backends.host.packing import Do, LabelBox, PackedOperand, oriented
from softcuda.backends.host.routes import Route
from softcuda.backends.host.sharing import SharedBoxes, parted
from softcuda.backends.host.tiling import Tiling
from softcuda.dtype import DType

__all__ = ["PackedProduct"]

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array, Array], Any]
Labels = tuple[int, ...]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Products = Callable[[Array, Array, Array], list[Call]]

# A call that is listed takes half a kilobyte; what leads to it takes 15 us.
_LISTED_BOXES: Final = 32

# Boxes that threads share, up to which each keeps the calls that it made.
_KEPT_BOXES: Final = 512


class _Part(NamedTuple):
    """A part of a class of labels: the slice of each, and that of their matrix axis."""

    slices: dict[int, slice]
    axis: slice


class PackedProduct:
    """One contraction bound to arrays; calling it computes the result.

    Args:
        route: which operands are packed, and how.
        tiling: the boxes.
        multiply: f(a [..., m, k], b [..., k, n], out [..., m, n]), all in the compute dtype.
        common: the dtype that operands are rounded to before they become the compute dtype.
        apart: the most multiplications of one product where threads take a box each.
    """

    def __init__(
        self, route: Route, tiling: Tiling, multiply: Multiply, common: DType, apart: int
    ) -> None:
        self._route = route
        self._tiling = tiling
        self._multiply = multiply
        self._most = apart
        self._common = common
        self._batch = _parts(route, tiling, route.pair.classes.batch, ())
        self._m = _parts(route, tiling, route.m.loops, route.m.axis)
        self._n = _parts(route, tiling, route.n.loops, route.n.axis)
        self._k = _parts(route, tiling, (), route.k)

    @property
    def _grid(self) -> tuple[int, int]:
        """(items, boxes of the result in each): a tile that they all read is packed once."""
        batch, m, n = len(self._batch), len(self._m), len(self._n)
        if not any(self._tiling.tiled[:2]):
            return batch * m * n, 1
        return (batch * n, m) if self._n_first else (batch * m, n)

    @property
    def _n_first(self) -> bool:
        """Whether the class of n goes outside, since b alone is packed box by box."""
        return self._tiling.tiled[1] and not self._tiling.tiled[0]

    def _boxes(self, number: int) -> list[LabelBox]:
        """Return the boxes along k of a part of the result."""
        if self._n_first:
            rest, row = divmod(number, len(self._m))
            at, column = divmod(rest, len(self._n))
        else:
            rest, column = divmod(number, len(self._n))
            at, row = divmod(rest, len(self._m))
        m, n = self._m[row], self._n[column]
        around = self._batch[at].slices | m.slices | n.slices
        return [LabelBox(around | step.slices, m.axis, n.axis, step.axis) for step in self._k]

    @property
    def _count(self) -> int:
        """Boxes, those along k of each part of the result among them."""
        return math.prod(self._grid) * len(self._k)

    def __call__(self, a: Array, b: Array, out: Array, scratch: Array) -> None:
        """Compute the contraction.

        Args:
            a: axes as in the route's pair.
            b: the same.
            out: the same.
            scratch: what the tiling has in common for all threads, in the compute dtype.
        """
        for function, arguments in self.calls(a, b, out, scratch):
            function(*arguments)

    def calls(self, a: Array, b: Array, out: Array, scratch: Array) -> list[Call]:
        """Return the calls that compute the contraction; arguments as of a call."""
        made: list[Call] = []
        do = partial(_note, made)
        memory = parted(scratch, self._tiling.whole)
        operands = [
            PackedOperand(self._route, self._tiling, number, array, memory[number], self._common)
            for number, array in enumerate((a, b, out))
        ]
        for operand in operands[:2]:
            operand.load_whole(do)
        if self._tiling.is_shared:
            do(self._shared(operands, scratch.dtype))
        elif self._count <= _LISTED_BOXES:
            self._in_turn(do, operands, memory[3])
        else:
            do(self._in_turn, _call, operands, memory[3])
        return made

    def _shared(self, operands: list[PackedOperand], dtype: Any) -> SharedBoxes:
        items, keeps = self._grid[0], self._count <= _KEPT_BOXES
        return SharedBoxes(self._item_calls, operands, items, self._tiling.own, dtype, keeps=keeps)

    def _in_turn(self, do: Do, operands: list[PackedOperand], spare: Array) -> None:
        """Compute all boxes one by one."""
        for operand in operands:
            operand.forget()
        for number in range(math.prod(self._grid)):
            self._fill(do, self._whole, operands, self._boxes(number), spare)

    def _whole(self, a: Array, b: Array, out: Array) -> list[Call]:
        return [(self._multiply, (a, b, out))]

    def _apart(self, a: Array, b: Array, out: Array) -> list[Call]:
        """Return the calls of a product that BLAS shares, whatever it has been told."""
        return [(multiply_in_blocks, (self._multiply, self._most, a, b, out))]

    def _by_rows(self, a: Array, b: Array, out: Array) -> list[Call]:
        return [(self._multiply, part) for part in cut_by_rows(a, b, out)]

    def _fill(
        self,
        do: Do,
        products: Products,
        operands: list[PackedOperand],
        boxes: list[LabelBox],
        spare: Array,
    ) -> None:
        """Compute a part of the result from the boxes along k."""
        left, right, result = operands
        total = result.matrices(boxes[0])
        for number, box in enumerate(boxes):
            place = _like(total, spare) if number else total
            first, second = left.loaded(do, box), right.loaded(do, box)
            for function, arguments in products(*oriented(first, second, place)):
                do(function, *arguments)
            if number:
                do(np.add, total, place, total)
        result.store(do, boxes[0])

    def _item_calls(
        self, number: int, operands: list[PackedOperand], spare: Array, *, is_alone: bool
    ) -> list[Call]:
        """Return the calls of one item of those that threads share.

        Args:
            number: of the item.
            operands: a, b and out, as one thread sees them.
            spare: that thread's memory of a second product, where k is cut.
            is_alone: whether BLAS leaves each product to the thread that asks for it.
        """
        made: list[Call] = []
        inner = self._grid[1]
        products = self._apart if not is_alone else self._whole
        if is_alone and not self._route.packed[2]:
            products = self._by_rows
        for operand in operands:
            operand.forget()
        for place in range(number * inner, (number + 1) * inner):
            self._fill(partial(_note, made), products, operands, self._boxes(place), spare)
        return made


def _like(matrices: Array, memory: Array) -> Array:
    """Return memory as dense matrices of the same extents and order of axes as others."""
    if matrices.strides[-1] <= matrices.strides[-2]:
        return memory[: matrices.size].reshape(matrices.shape)
    return memory[: matrices.size].reshape(matrices.swapaxes(-1, -2).shape).swapaxes(-1, -2)


def _parts(route: Route, tiling: Tiling, loops: Labels, axis: Labels) -> list[_Part]:
    """Return the parts into which the boxes cut a class, in order."""
    extents, made = route.pair.extents, []
    labels = loops + axis
    ranges = [range(0, extents[x], tiling.chunks[x]) for x in labels]
    for starts in itertools.product(*ranges):
        slices = {
            x: slice(start, min(start + tiling.chunks[x], extents[x]))
            for x, start in zip(labels, starts, strict=True)
        }
        first, length = 0, 1
        for label in axis:
            first = first * extents[label] + slices[label].start
            length *= slices[label].stop - slices[label].start
        made.append(_Part(slices, slice(first, first + length)))
    return made


def _call(function: Callable[..., Any], *arguments: Any) -> None:
    function(*arguments)


def _note(made: list[Call], function: Callable[..., Any], *arguments: Any) -> None:
    made.append((function, arguments))
