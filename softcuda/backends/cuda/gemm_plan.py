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
from enum import Enum
from functools import lru_cache
from typing import Final

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.gemm_tiles import Block, GemmSize, GemmVariant
from softcuda.backends.cuda.naive_contraction import Factor
from softcuda.backends.cuda.products import PreparedProduct
from softcuda.backends.steps import Unit
from softcuda.contraction.axes import Axes as LabelledAxes
from softcuda.dtype import DType, compute_dtype
from softcuda.graph.params import Dims
from softcuda.graph.shapes import numel
from softcuda.kernelspec import fast_divisor

__all__ = [
    "MAX_AXES",
    "GemmIndex",
    "GemmPlan",
    "Reading",
    "pack_extras",
    "pack_problem",
    "plan_gemm",
]

MAX_AXES: Final = 8
VECTOR_BYTES: Final = 16
BAND: Final = 8  # of gemm.cuh
MAX_REACH: Final = 2**31 - 1  # of rows, where the kernel reads in one way [elements]

_RANKS: Final = (1, 2, 4, 8)


class Reading(Enum):
    """How a kernel reads an operand: names are those of tile_loader.cuh, values stand in ids.

    Neighbouring threads read neighbours along the rows or along the depth, elements or vectors of
    16 bytes in the compute dtype. ANY is each of these, chosen by the launch.
    """

    ROWS_SINGLE = "r"
    DEPTH_SINGLE = "k"
    ROWS_VECTOR = "r4"
    DEPTH_VECTOR = "k4"
    ANY = "any"


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

    def reach(self, operand: int) -> int:
        """Return how far the last element lies from the first one [elements], at most."""
        steps = zip(self.axes.dims, self.axes.strides[operand], strict=True)
        return sum((extent - 1) * abs(stride) for extent, stride in steps)

    def keeps_aligned(self, operand: int, width: int) -> bool:
        """Return whether every step of the index is a multiple of `width` elements."""
        return all(stride % width == 0 for stride in self.axes.strides[operand])

    def pack(self) -> bytes:
        """Return the bytes of a MultiIndex of tile.cuh."""
        return _packed_extents(self.axes.dims[::-1] or (1,))


@lru_cache(maxsize=1024)
def _packed_extents(extents: Dims) -> bytes:
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
        starts: of a and b, from the first element of the buffer that holds them [elements].
    """

    a: Factor
    b: Factor
    dtype: DType
    batches: GemmIndex
    rows: GemmIndex
    columns: GemmIndex
    depth: GemmIndex
    epilogue: Part
    starts: tuple[int, int]

    @property
    def size(self) -> GemmSize:
        """Extents of the product."""
        return GemmSize(self.batches.count, self.rows.count, self.columns.count, self.depth.count)

    @property
    def width(self) -> int:
        """Elements of a 16-byte vector of the compute dtype."""
        return VECTOR_BYTES // compute_dtype(self.dtype).itemsize

    @property
    def stores_vectors(self) -> bool:
        """Whether neighbouring columns of the result are aligned vectors."""
        return (
            self.columns.has_vectors(1, self.width)
            and self.rows.keeps_aligned(1, self.width)
            and self.batches.keeps_aligned(2, self.width)
        )

    @property
    def readings(self) -> tuple[Reading, Reading]:
        """How a and b are read; the launch decides where the depth has several axes."""
        far = max(self._rows_of(operand).reach(0) for operand in (0, 1))
        if self.depth.axes.rank > 1 or far > MAX_REACH:
            return Reading.ANY, Reading.ANY
        return self._reading(0), self._reading(1)

    def _reading(self, operand: int) -> Reading:
        if self.is_along_depth(operand):
            return Reading.DEPTH_VECTOR if self.has_vectors(operand) else Reading.DEPTH_SINGLE
        return Reading.ROWS_VECTOR if self.has_vectors(operand) else Reading.ROWS_SINGLE

    def is_along_depth(self, operand: int) -> bool:
        """Return whether neighbours along the depth lie closer than those along the rows."""
        return self.depth.nearest(operand) < self._rows_of(operand).nearest(0)

    def has_vectors(self, operand: int) -> bool:
        """Return whether the operand can be read in vectors, aligned if its first element is."""
        stored, rows, width = (self.a, self.b)[operand].dtype, self._rows_of(operand), self.width
        if stored.itemsize * width > VECTOR_BYTES or self.starts[operand] % width:
            return False
        if not self.batches.keeps_aligned(operand, width):
            return False
        if self.is_along_depth(operand):
            return self.depth.has_vectors(operand, width) and rows.keeps_aligned(0, width)
        return rows.has_vectors(0, width) and self.depth.keeps_aligned(operand, width)

    def _rows_of(self, operand: int) -> GemmIndex:
        return (self.rows, self.columns)[operand]

    @property
    def extra_rank(self) -> int:
        """For how many axes of an index the kernel takes strides of the extras."""
        if not self.epilogue.operands:
            return 1
        most = max(index.axes.rank for index in (self.batches, self.rows, self.columns))
        return next(rank for rank in _RANKS if most <= rank)


def plan_gemm(unit: Unit, made: PreparedProduct) -> GemmPlan:
    """Return the product with its labels fused, rows and columns swapped where that helps.

    Args:
        unit: whose operands are read.
        made: its contraction, whose result has elements.
    """
    pair, classes = made.pair.pair, made.pair.pair.classes
    outs = [pair.out, *made.extras]
    a, b, a_axes, b_axes = made.pair.a, made.pair.b, pair.a, pair.b
    rows, columns = classes.m, classes.n
    if pair.out.labels and pair.out.labels[-1] in rows:
        a, b, a_axes, b_axes, rows, columns = b, a, b_axes, a_axes, columns, rows
    return GemmPlan(
        a=a,
        b=b,
        dtype=made.product.dtype,
        batches=_index(classes.batch, (a_axes, b_axes, *outs), pair.dims(classes.batch)),
        rows=_index(rows, (a_axes, *outs), pair.dims(rows)),
        columns=_index(columns, (b_axes, *outs), pair.dims(columns)),
        depth=_depth(classes.k, a_axes, b_axes, pair.dims(classes.k)),
        epilogue=made.epilogue,
        starts=(_start(unit, a), _start(unit, b)),
    )


def _start(unit: Unit, factor: Factor) -> int:
    """Return where a factor begins in its buffer; sums of private labels begin at 0."""
    kind, value = factor.argument
    return unit.operands[value].offset if kind == "read" and isinstance(value, int) else 0


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


def pack_problem(
    plan: GemmPlan, variant: GemmVariant[Block], first_batch: int, whole: int
) -> bytes:
    """Return the bytes of GemmProblem of gemm.cuh.

    Args:
        plan: the product.
        variant: how it is computed.
        first_batch: where the launch begins.
        whole: tiles of the launch that a block sums alone.
    """
    size, tile = plan.size, variant.tile
    batches, rows, columns = plan.batches, plan.rows, plan.columns
    tiles_m, tiles_n = -(-size.m // tile.m), -(-size.n // tile.n)
    divisors = tiles_m * tiles_n, BAND * tiles_n, (tiles_m - 1) % BAND + 1
    numbers = (
        *(size.m, size.n, size.k, size.batches, first_batch, tiles_m, tile.m, tile.n),
        *(whole, variant.splits, variant.k_chunk, plan.stores_vectors),
        *(number for divisor in divisors for number in fast_divisor(divisor)),
    )
    strides = *batches.strides(2), *rows.strides(1), *columns.strides(1)
    return b"".join(
        (
            *(_pack_layout(plan, operand) for operand in (0, 1)),
            struct.pack("<24q", *strides),
            *(index.pack() for index in (batches, rows, columns, plan.depth)),
            struct.pack("<12i9I4x", *numbers),
        )
    )


def _pack_layout(plan: GemmPlan, operand: int) -> bytes:
    """Return the bytes of OperandLayout: of a with its rows, or of b with its columns."""
    strides = (
        *plan.batches.strides(operand),
        *(plan.rows, plan.columns)[operand].strides(0),
        *plan.depth.strides(operand),
    )
    ways = plan.is_along_depth(operand), plan.has_vectors(operand)
    return struct.pack("<24q2i", *strides, *ways)


def pack_extras(plan: GemmPlan) -> bytes:
    """Return the bytes of Extras of gemm.cuh; one of zeros where there are none."""
    rank = plan.extra_rank
    numbers: list[int] = []
    for extra in range(len(plan.epilogue.operands)):
        for index, operand in ((plan.batches, 3), (plan.rows, 2), (plan.columns, 2)):
            numbers.extend(index.strides(operand + extra)[:rank])
    numbers = numbers or [0] * (3 * rank)
    return struct.pack(f"<{len(numbers)}q", *numbers)
