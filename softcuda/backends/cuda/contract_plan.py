"""A contraction seen as batches x rows x columns x depth, each of several labels.

Labels that are jointly contiguous in every operand that has them are one. The rows are the labels
among which the result is contiguous: neighbouring rows are stored beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcuda.backends.cuda.contract_sides import Digit, SideAxes, distance
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.naive_contraction import Factor
from softcuda.backends.cuda.products import PreparedProduct
from softcuda.contraction.axes import Axes, fuse_axes
from softcuda.contraction.classes import classify
from softcuda.dtype import DType, compute_dtype
from softcuda.graph.params import Dims

__all__ = ["ContractProblem", "Depth", "plan_contraction"]

VECTOR_BYTES: Final = 16
_NEAR: Final = 8  # of a summed label that is walked first


@dataclass(frozen=True, slots=True)
class Depth:
    """The summed labels.

    Attributes:
        dims: their extents.
        a: strides in the operand that gives the rows [elements].
        b: strides in the other.
        digits: the order in which they are summed, innermost first.
    """

    dims: Dims
    a: Dims
    b: Dims
    digits: tuple[Digit, ...]

    @property
    def count(self) -> int:
        """Terms of a sum; 0 where a label is empty."""
        return math.prod(self.dims)


@dataclass(frozen=True, slots=True)
class ContractProblem:
    """A contraction without private labels: what every launch of it is made from.

    Attributes:
        a: what gives the rows.
        b: what gives the columns.
        dtype: of the product.
        batches: labels of both and the result; `source` are the strides in a.
        batches_b: strides of the batches in b.
        rows: labels of a and the result.
        columns: labels of b and the result.
        depth: summed labels.
        epilogue: the chain behind it, whose further operands are the extras of the sides.
    """

    a: Factor
    b: Factor
    dtype: DType
    batches: SideAxes
    batches_b: Dims
    rows: SideAxes
    columns: SideAxes
    depth: Depth
    epilogue: Part

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """What gives the rows, and what gives the columns."""
        return self.a, self.b

    @property
    def extras(self) -> int | None:
        """Further operands of the chain behind; None where there is no chain."""
        return len(self.epilogue.operands) if self.epilogue.chain else None

    @property
    def width(self) -> int:
        """Elements of a 16-byte vector of the compute dtype."""
        return VECTOR_BYTES // compute_dtype(self.dtype).itemsize

    @property
    def ways(self) -> tuple[Way, Way]:
        """How a and b are read: single k, whose copies wait for nothing, or rows, in vectors."""
        return (
            self._way(self.a.dtype, self.rows, self.batches.source, self.depth.a),
            self._way(self.b.dtype, self.columns, self.batches_b, self.depth.b),
        )

    @property
    def can_store_vectors(self) -> bool:
        """Return whether neighbouring rows can be stored as vectors."""
        rest = (*self.columns.result, *self.batches.result)
        return _has_vectors(self.rows.dims, self.rows.result, rest, self.width)

    def _way(self, stored: DType, side: SideAxes, batches: Dims, depth: Dims) -> Way:
        if is_along_depth(side, depth):
            return Way.DEPTH_SINGLE
        fits = stored.itemsize * self.width <= VECTOR_BYTES
        has_vectors = fits and _has_vectors(side.dims, side.source, (*batches, *depth), self.width)
        return Way.ROWS_VECTOR if has_vectors else Way.ROWS_SINGLE


def is_along_depth(side: SideAxes, depth: Dims) -> bool:
    """Return whether neighbours along the depth lie closer than those along the side."""
    nearest = min(map(distance, side.source), default=math.inf)
    return min(map(distance, depth), default=math.inf) < nearest


def _has_vectors(dims: Dims, strides: Dims, rest: Sequence[int], width: int) -> bool:
    """Return whether `width` neighbours along the nearest label are one aligned vector."""
    if 1 not in strides:
        return False
    axis = strides.index(1)
    others = (*strides[:axis], *strides[axis + 1 :], *rest)
    return dims[axis] % width == 0 and all(stride % width == 0 for stride in others)


def plan_contraction(made: PreparedProduct) -> ContractProblem:
    """Return a contraction, whose result has elements, with its labels fused and classified."""
    pair, (first_factor, second_factor) = made.pair.pair, (made.pair.a, made.pair.b)
    is_empty = 0 in pair.extents.values()
    fused = (pair.a, pair.b, pair.out, *made.extras)
    if not is_empty:
        fused = fuse_axes(fused).operands
    a, b, out, *extras = fused
    classes = classify(a.labels, b.labels, out.labels)
    first, second = (first_factor, a, classes.m), (second_factor, b, classes.n)
    if _nearest(out, classes.n) < _nearest(out, classes.m):
        first, second = second, first
    sides = [
        _side(axes, out, extras, labels)
        for axes, labels in (
            (first[1], first[2]),
            (second[1], second[2]),
            (first[1], classes.batch),
        )
    ]
    summed = [axes.over(classes.k) for axes in (first[1], second[1])]
    rows, columns, batches = sides
    depth = _depth(
        tuple(max(pair_of) for pair_of in zip(summed[0].dims, summed[1].dims, strict=True)),
        (rows, summed[0].strides),
        (columns, summed[1].strides),
    )
    return ContractProblem(
        a=first[0],
        b=second[0],
        dtype=made.product.dtype,
        batches=batches,
        batches_b=second[1].over(classes.batch).strides,
        rows=rows,
        columns=columns,
        depth=depth,
        epilogue=made.epilogue,
    )


def _nearest(axes: Axes, labels: Sequence[int]) -> float:
    return min(map(distance, axes.over(labels).strides), default=math.inf)


def _side(source: Axes, out: Axes, extras: Sequence[Axes], labels: Sequence[int]) -> SideAxes:
    return SideAxes(
        source.over(labels).dims,
        source.over(labels).strides,
        out.over(labels).strides,
        tuple(axes.over(labels).strides for axes in extras),
    )


def _depth(dims: Dims, a: tuple[SideAxes, Dims], b: tuple[SideAxes, Dims]) -> Depth:
    """Return the summed labels in an order that serves what is read along the depth."""
    orders = [
        sorted(range(len(dims)), key=lambda axis: distance(strides[axis]))
        for side, strides in (a, b)
        if is_along_depth(side, strides)
    ]
    if not orders:
        orders = [sorted(range(len(dims)), key=lambda axis: distance(a[1][axis]))]
    digits = [Digit(axis, dims[axis], 1) for axis in orders[0] if 0 not in dims]
    if digits and len(orders) == 2 and orders[0][:1] != orders[1][:1]:
        near = [orders[0][0], orders[1][0]]
        digits = []
        far = []
        for axis in near:
            part = next(x for x in range(min(_NEAR, dims[axis]), 0, -1) if dims[axis] % x == 0)
            digits.append(Digit(axis, part, 1))
            far.append(Digit(axis, dims[axis] // part, part))
        digits += [*far, *(Digit(axis, dims[axis], 1) for axis in orders[0] if axis not in near)]
        digits = [digit for digit in digits if digit.extent > 1]
    return Depth(dims, a[1], b[1], tuple(digits))
