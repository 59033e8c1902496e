"""Products of a matrix with a few rows: which of them gemm_narrow.cu takes, and how they are cut.

    splits = min(ceil(FILL * multiprocessors / tiles), k / MIN_CHUNK)

A product is narrow if it has at most 8 rows or columns, at least 64 of the other, and a depth of
one axis. The few become rows. More than 4 rows of f32 beside vectors along k are left to the tile
of 16 rows, which shares each of them among more sums; so are more than 4 rows beside any operand
along k whose elements are made as they are loaded, which takes registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from softcuda.backends.cuda.axes import Axes
from softcuda.backends.cuda.gemm_plan import GemmIndex, GemmPlan, Reading
from softcuda.backends.cuda.gemm_tiles import (
    MAX_PART_BYTES,
    MULTIPROCESSORS,
    GemmVariant,
    cut_variant,
    part_bytes,
    tile_count,
)
from softcuda.dtype import compute_dtype, f32

__all__ = ["MAX_FEW", "NarrowTile", "narrow_tile", "narrow_variant", "turned"]

MAX_FEW: Final = 8
MAX_FEW_ALONG: Final = 4  # of f32, where lanes share out k in vectors
MIN_WIDE: Final = 64
MIN_CHUNK: Final = 256  # of k, for each part
FILL: Final = 2  # blocks a multiprocessor that need no cut
WARP: Final = 32

_ALONG: Final = (Reading.DEPTH_SINGLE, Reading.DEPTH_VECTOR)
_VECTORS: Final = (Reading.ROWS_VECTOR, Reading.DEPTH_VECTOR)


@dataclass(frozen=True, slots=True)
class NarrowTile:
    """What a block of gemm_narrow sums.

    Attributes:
        m: rows, as many as the kernel keeps.
        warps: of a block.
        columns: that a lane keeps, or a warp where lanes share out k.
        width: elements of a read of the wide operand.
        is_along_depth: whether neighbouring lanes read neighbours of k.
    """

    m: int
    warps: int
    columns: int
    width: int
    is_along_depth: bool

    @property
    def n(self) -> int:
        """Columns of a block."""
        return self.columns * (self.warps if self.is_along_depth else WARP)

    @property
    def k(self) -> int:
        """What k of a part is a multiple of."""
        return MIN_CHUNK

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.warps * WARP

    @property
    def name(self) -> str:
        """Such as "1x128_k4": rows, columns, and how the wide operand is read."""
        vectors = "" if self.width == 1 else str(self.width)
        return f"{self.m}x{self.n}_{'k' if self.is_along_depth else 'r'}{vectors}"

    @property
    def expression(self) -> str:
        """Its template arguments in device code."""
        along = "true" if self.is_along_depth else "false"
        return f"{self.m}, {self.warps}, {self.columns}, {self.width}, {along}"


def turned(plan: GemmPlan) -> GemmPlan:
    """Return the same product with rows and columns in each other's place."""
    return replace(
        plan,
        a=plan.b,
        b=plan.a,
        rows=plan.columns,
        columns=plan.rows,
        batches=_exchanged(plan.batches),
        depth=_exchanged(plan.depth),
        starts=plan.starts[::-1],
    )


def _exchanged(index: GemmIndex) -> GemmIndex:
    first, second, *others = index.axes.strides
    return replace(index, axes=Axes(index.axes.dims, (second, first, *others)))


def narrow_tile(rows: int, width: int, reading: Reading) -> NarrowTile:
    """Return the tile of a product of so many rows.

    Args:
        rows: 1 to 8.
        width: elements of a vector of 16 bytes in the compute dtype.
        reading: of the wide operand; not ANY.
    """
    few = next(few for few in (1, 2, 4, MAX_FEW) if rows <= few)
    read_at_once = width if reading in _VECTORS else 1
    if reading not in _ALONG:
        return NarrowTile(few, 8, width, read_at_once, is_along_depth=False)
    warps, columns = (16, 2) if few == 1 else (8, 4)
    return NarrowTile(few, warps, columns, read_at_once, is_along_depth=True)


def narrow_variant(plan: GemmPlan, multiprocessors: int) -> GemmVariant[NarrowTile] | None:
    """Return how a product of a few rows is computed; None where gemm_tiled takes it.

    Args:
        plan: the product; one of a few columns is turned before.
        multiprocessors: of the device; 0 counts as 128.
    """
    size, reading = plan.size, plan.readings[1]
    has_flat_tile = plan.dtype is f32 and reading is Reading.DEPTH_VECTOR
    most = MAX_FEW_ALONG if has_flat_tile or _makes_along(plan) else MAX_FEW
    if size.m > most or size.n < MIN_WIDE or not size.k or reading is Reading.ANY:
        return None
    units = multiprocessors or MULTIPROCESSORS
    tile = narrow_tile(size.m, plan.width, reading)
    tiles = tile_count(size, tile)
    splits = min(-(-FILL * units // tiles), size.k // MIN_CHUNK)
    if splits > 1:
        variant = cut_variant(size, tile, 0, splits)
        if part_bytes(size, variant, compute_dtype(plan.dtype).itemsize) <= MAX_PART_BYTES:
            return variant
    return cut_variant(size, tile, tiles, 1)


def _makes_along(plan: GemmPlan) -> bool:
    """Return whether elements of a product are made, where lanes share out k."""
    return plan.readings[1] in _ALONG and any(each.making for each in (plan.a, plan.b))
