"""The tiles of gemm_tiled.cu, and the rule that chooses one and the number of splits.

    cycles = max(rounds / full, lone_rounds / alone) * BLOCK_M * BLOCK_N * k / rate
             + START + (splits > 1) * (START + bytes of the parts / PART_BYTES)

with blocks = tiles * splits * batches, rounds = ceil(blocks / multiprocessors) and lone_rounds =
ceil(blocks / (multiprocessors * resident)). The tile and split with the fewest cycles win, the
earlier row of the table and the fewer splits where they are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from softcuda.dtype import DType, bf16, compute_dtype, f16, f32, f64

__all__ = ["GEMM_TILES", "GemmSize", "GemmTile", "GemmVariant", "choose_variant", "gemm_cycles"]

START: Final = 4000.0  # cycles of a launch, from its start to its last store
PART_BYTES: Final = 24.0  # bytes of parts a cycle and multiprocessor, written and read again
MAX_PART_BYTES: Final = 1 << 28  # scratch of the parts
SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MIN_STEPS: Final = 4  # steps of BLOCK_K that a split has at least
MULTIPROCESSORS: Final = 128  # where the target does not say


@dataclass(frozen=True, slots=True)
class GemmTile:
    """A tile: what a block and a thread make, and how well.

    Attributes:
        m: rows of a block's tile.
        n: columns.
        k: depth of a step.
        thread_m: rows of a thread's part.
        thread_n: columns.
        resident: blocks that a multiprocessor holds at once.
        full: share of a multiprocessor's FMA rate where it holds that many.
        alone: share where it holds one.
    """

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int
    resident: int
    full: float
    alone: float

    @property
    def threads(self) -> int:
        """Threads a block."""
        return (self.m // self.thread_m) * (self.n // self.thread_n)

    @property
    def name(self) -> str:
        """Such as "128x256x8"."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def expression(self) -> str:
        """The type in device code."""
        return f"Tile<{self.m}, {self.n}, {self.k}, {self.thread_m}, {self.thread_n}>"


_HALF: Final = (
    GemmTile(128, 128, 8, 8, 16, 2, 0.80, 0.50),
    GemmTile(64, 64, 16, 4, 8, 4, 0.60, 0.25),
)

# Tiles of a dtype of the product, the largest first.
GEMM_TILES: Final[Mapping[DType, tuple[GemmTile, ...]]] = MappingProxyType(
    {
        f32: (
            GemmTile(128, 256, 8, 8, 16, 1, 0.85, 0.85),
            GemmTile(128, 128, 8, 8, 16, 2, 0.80, 0.50),
            GemmTile(64, 64, 16, 4, 8, 4, 0.60, 0.25),
            GemmTile(32, 32, 32, 4, 4, 8, 0.35, 0.08),
        ),
        f64: (
            GemmTile(64, 64, 8, 4, 8, 3, 0.75, 0.40),
            GemmTile(32, 32, 16, 4, 4, 6, 0.40, 0.10),
        ),
        f16: _HALF,
        bf16: _HALF,
    }
)


class GemmSize(NamedTuple):
    """Extents of a batched product of matrices."""

    batches: int
    m: int
    n: int
    k: int


class GemmVariant(NamedTuple):
    """A tile, and the parts that k is cut into: `splits` of at most `k_chunk` each."""

    tile: GemmTile
    splits: int
    k_chunk: int


def gemm_cycles(size: GemmSize, variant: GemmVariant, multiprocessors: int, itemsize: int) -> float:
    """Return the cycles that a product is expected to take: the rule of this module.

    Args:
        size: the product, at least one element.
        variant: how it is computed.
        multiprocessors: of the device; 0 counts as 128.
        itemsize: bytes of an element of the compute dtype.
    """
    tile, splits, k_chunk = variant
    units = multiprocessors or MULTIPROCESSORS
    blocks = _tiles(size, tile) * splits * size.batches
    rounds = -(-blocks // units)
    lone_rounds = -(-blocks // (units * tile.resident))
    rate = 128.0 if itemsize == 4 else 64.0
    work = tile.m * tile.n * min(k_chunk, size.k) / rate
    cycles = max(rounds / tile.full, lone_rounds / tile.alone) * work + START
    if splits > 1:
        parts = 2 * itemsize * splits * size.batches * size.m * size.n
        cycles += START + parts / (PART_BYTES * units)
    return cycles


def choose_variant(size: GemmSize, dtype: DType, multiprocessors: int) -> GemmVariant:
    """Return the tile and split with the fewest cycles by `gemm_cycles`.

    Args:
        size: the product, at least one element.
        dtype: of the product: f16, bf16, f32 or f64.
        multiprocessors: of the device; 0 counts as 128.

    Example:
        >>> variant = choose_variant(GemmSize(1, 8192, 8192, 8192), f32, 132)
        >>> variant.tile.name, variant.splits
        ('128x256x8', 1)
    """
    itemsize = compute_dtype(dtype).itemsize
    return min(
        _variants(size, dtype, itemsize),
        key=lambda variant: gemm_cycles(size, variant, multiprocessors, itemsize),
    )


def _tiles(size: GemmSize, tile: GemmTile) -> int:
    return math.ceil(size.m / tile.m) * math.ceil(size.n / tile.n)


def _variants(size: GemmSize, dtype: DType, itemsize: int) -> Iterator[GemmVariant]:
    """Yield every tile with every split that leaves enough steps and little enough scratch."""
    for tile in GEMM_TILES[dtype]:
        steps = -(-size.k // tile.k)
        yield GemmVariant(tile, 1, max(steps, 1) * tile.k)
        for splits in SPLITS[1:]:
            chunk = -(-steps // splits)
            parts = itemsize * splits * size.batches * size.m * size.n
            if chunk < MIN_STEPS or parts > MAX_PART_BYTES:
                break
            yield GemmVariant(tile, -(-steps // chunk), chunk * tile.k)
