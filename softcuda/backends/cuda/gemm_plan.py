"""A contraction seen as batch x M x N x K, each of a few axes, and its packed parameters.

Labels of a class that are jointly contiguous in every operand become one axis; what is left is a
multi-index of up to 8 axes. Rows and columns change places where the result's innermost axis is
one of rows, so that neighbouring columns are stored beside each other.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcuda.backends.cuda.axes import Axes, broadcast_strides, fuse_axes
from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.gemm_tiles import GemmSize, GemmVariant
from softcuda.backends.cuda.naive_contraction import Factor, PreparedPair
from softcuda.backends.host.contraction import Axes as LabelledAxes
from softcuda.backends.steps import Operand, Unit
from softcuda.dtype import DType, compute_dtype
from softcuda.graph.params import Dims
from softcuda.graph.shapes import numel
from softcuda.kernelspec import fast_divisor

__all__ = ["MAX_AXES", "GemmIndex", "GemmPlan", "pack_extras", "pack_problem", "plan_gemm"]

MAX_AXES: Final = 8
VECTOR_BYTES: Final = 16

_RANKS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class GemmIndex:
    """One of batch, rows, columns, depth.

    Attributes:
        axes: fused axes with the strides of the operands that have the index.
        count: iterations; 0 where the depth is empty.
    """

    axes: Axes
    count: int

    def strides(self, operand: int) -> Dims:
        """Return the strides of an operand, innermost axis first, padded with 0 to 8."""
        given = self.axes.strides[operand]
        return (*reversed(given), *(0,) * (MAX_AXES - len(given)))

    def nearest(self, operand: int) -> float:
        """Return how far neighbours lie apart [elements]; infinity where there are none."""
        return abs(self.axes.strides[operand][-1]) if self.axes.rank else math.inf

    def has_vectors(self, operand: int, width: int) -> bool:
        """Return whether `width` neighbours are contiguous, aligned if the first element is."""
        if not self.axes.rank:
            return False
        *outer, inner = self.axes.strides[operand]
        is_whole = self.axes.dims[-1] % width == 0 and inner == 1
        return is_whole and all(stride % width == 0 for stride in outer)

    def keeps_aligned(self, operand: int, width: int) -> bool:
        """Return whether every step of the index is a multiple of `width` elements."""
        return all(stride % width == 0 for stride in self.axes.strides[operand])

    def pack(self) -> bytes:
        """Return the bytes of a MultiIndex of tile.cuh."""
        extents = self.axes.dims[::-1] or (1,)
        padded = (*extents, *(1,) * (MAX_AXES - len(extents)))
        divisors = b"".join(struct.pack("<3I", *fast_divisor(extent)) for extent in padded)
        return struct.pack("<i", len(extents)) + divisors


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """A product of matrices: what every launch of it is made from.

    Attributes:
        a: what gives the rows.
        b: what gives the columns.
        dtype: of the product.
        batches: operands a, b, out, extras.
        rows: operands a, out, extras.
        columns: operands b, out, extras.
        depth: operands a, b.
        epilogue: the chain behind the product; its further operands are the extras.
    """

    a: Factor
    b: Factor
    dtype: DType
    batches: GemmIndex
    rows: GemmIndex
    columns: GemmIndex
    depth: GemmIndex
    epilogue: Part

    @property
    def size(self) -> GemmSize:
        """Extents of the product."""
        return GemmSize(self.batches.count, self.rows.count, self.columns.count, self.depth.count)

    @property
    def width(self) -> int:
        """Elements of a 16-byte vector of the compute dtype."""
        return VECTOR_BYTES // compute_dtype(self.dtype).itemsize

    @property
    def extra_rank(self) -> int:
        """For how many axes of an index the kernel takes strides of the extras."""
        if not self.epilogue.operands:
            return 1
        most = max(index.axes.rank for index in (self.batches, self.rows, self.columns))
        return next(rank for rank in _RANKS if most <= rank)


def plan_gemm(unit: Unit, made: PreparedPair, product: Operand, epilogue: Part) -> GemmPlan:
    """Return the product with its labels fused, rows and columns swapped where that helps.

    Args:
        unit: whose operands the epilogue reads.
        made: the pair, without private labels.
        product: the dense result of the contraction, which has elements.
        epilogue: the chain behind it.
    """
    pair, classes = made.pair, made.pair.classes
    kept = [axis for axis, extent in enumerate(product.dims) if extent != 1]
    dims = tuple(product.dims[axis] for axis in kept)
    outs = [pair.out]
    for number in epilogue.operands:
        x = unit.operands[number]
        strides = broadcast_strides(x.dims, x.strides, product.dims)
        outs.append(LabelledAxes(pair.out.labels, dims, tuple(strides[axis] for axis in kept)))
    a, b, a_axes, b_axes = made.a, made.b, pair.a, pair.b
    rows, columns = classes.m, classes.n
    if pair.out.labels and pair.out.labels[-1] in rows:
        a, b, a_axes, b_axes, rows, columns = b, a, b_axes, a_axes, columns, rows
    return GemmPlan(
        a=a,
        b=b,
        dtype=product.dtype,
        batches=_index(classes.batch, (a_axes, b_axes, *outs), pair.dims(classes.batch)),
        rows=_index(rows, (a_axes, *outs), pair.dims(rows)),
        columns=_index(columns, (b_axes, *outs), pair.dims(columns)),
        depth=_depth(classes.k, a_axes, b_axes, pair.dims(classes.k)),
        epilogue=epilogue,
    )


def _index(labels: Sequence[int], operands: Sequence[LabelledAxes], dims: Dims) -> GemmIndex:
    count = numel(dims)
    if count == 0:
        return GemmIndex(Axes((), tuple(() for _ in operands)), 0)
    return GemmIndex(fuse_axes(dims, [x.over(labels).strides for x in operands]), count)


def _depth(labels: Dims, a: LabelledAxes, b: LabelledAxes, dims: Dims) -> GemmIndex:
    """Return the summed labels in the order, of a or of b, that leaves the fewest axes."""
    extents = dict(zip(labels, dims, strict=True))
    found = []
    for operand in (a, b):
        steps = dict(zip(operand.labels, operand.strides, strict=True))
        order = sorted(labels, key=lambda label: -abs(steps[label]))
        found.append(_index(order, (a, b), tuple(extents[label] for label in order)))
    return min(found, key=lambda index: index.axes.rank)


def pack_problem(plan: GemmPlan, variant: GemmVariant, first_batch: int) -> bytes:
    """Return the bytes of GemmProblem of gemm.cuh."""
    size, tile, width = plan.size, variant.tile, plan.width
    batches, rows, columns = plan.batches, plan.rows, plan.columns
    out_vectors = (
        columns.has_vectors(1, width)
        and rows.keeps_aligned(1, width)
        and batches.keeps_aligned(2, width)
    )
    numbers = (
        *(size.m, size.n, size.k, size.batches, first_batch),
        *(-(-size.m // tile.m), -(-size.n // tile.n), variant.splits, variant.k_chunk),
        out_vectors,
    )
    return b"".join(
        (
            _pack_layout(plan, rows, 0),
            _pack_layout(plan, columns, 1),
            struct.pack("<8q", *batches.strides(2)),
            struct.pack("<8q", *rows.strides(1)),
            struct.pack("<8q", *columns.strides(1)),
            *(index.pack() for index in (batches, rows, columns, plan.depth)),
            struct.pack("<10i", *numbers),
        )
    )


def _pack_layout(plan: GemmPlan, rows: GemmIndex, operand: int) -> bytes:
    """Return the bytes of OperandLayout: of a with its rows, or of b with its columns."""
    width = plan.width
    is_along_depth = plan.depth.nearest(operand) < rows.nearest(0)
    if is_along_depth:
        has_vectors = plan.depth.has_vectors(operand, width) and rows.keeps_aligned(0, width)
    else:
        has_vectors = rows.has_vectors(0, width) and plan.depth.keeps_aligned(operand, width)
    has_vectors = has_vectors and plan.batches.keeps_aligned(operand, width)
    strides = (
        *plan.batches.strides(operand),
        *rows.strides(0),
        *plan.depth.strides(operand),
    )
    return struct.pack("<24q2i", *strides, is_along_depth, has_vectors)


def pack_extras(plan: GemmPlan) -> bytes:
    """Return the bytes of Extras of gemm.cuh; one of zeros where there are none."""
    rank = plan.extra_rank
    numbers: list[int] = []
    for extra in range(len(plan.epilogue.operands)):
        for index, operand in ((plan.batches, 3), (plan.rows, 2), (plan.columns, 2)):
            numbers.extend(index.strides(operand + extra)[:rank])
    numbers = numbers or [0] * (3 * rank)
    return struct.pack(f"<{len(numbers)}q", *numbers)
