"""The tiles of gemm_tiled.cu, and the rule that chooses one and how tiles are cut along k.

    cycles = time(whole, k) + time(cut * splits, k_chunk) + start
             + (splits > 1) * (second + 2 * bytes of the parts / (part_bytes * multiprocessors))
    time(blocks, k) = max(rounds / full, lone_rounds / alone) * BLOCK_M * BLOCK_N * k / rate
                      + lone_rounds * edge + rounds * bytes of a tile / store_bytes

with rounds = blocks / multiprocessors and lone_rounds = blocks / (multiprocessors * resident), both
rounded up. `whole` tiles are summed by a block each, the `cut` others by `splits` blocks each; cut
are none, all, or those that would not fill the device, or each multiprocessor once, a last time.
The fewest cycles win, the earlier row of the table and the fewer splits where they are equal. The
numbers of the rule and of the tiles are fitted to what an H200 took
(benchmarks/sweeps/gemm_rule.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from softcuda.backends.cuda.product_tile import ProductTile
from softcuda.dtype import DType, bf16, compute_dtype, f16, f32, f64

__all__ = [
    "CLOCK",
    "GEMM_TILES",
    "RULE",
    "Block",
    "GemmSize",
    "GemmTile",
    "GemmVariant",
    "Rule",
    "choose_variant",
    "cut_variant",
    "gemm_cycles",
    "part_bytes",
    "tile_count",
    "variants",
]

MAX_PART_BYTES: Final = 1 << 28  # scratch of the parts
SPLITS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MAX_WHOLE: Final = 1 << 30  # with the parts behind them still a grid
MIN_STEPS: Final = 4  # steps of BLOCK_K that a split has at least
MULTIPROCESSORS: Final = 128  # where the target does not say
CLOCK: Final = 1980.0  # cycles a microsecond, as the rule counts them


@dataclass(frozen=True, slots=True)
class Rule:
    """What a product costs beside its FMA.

    Attributes:
        start: cycles of a launch, from its start to its last store.
        second: cycles of the launch that adds parts.
        part_bytes: bytes of parts a cycle and multiprocessor, written or read.
        edge: cycles of a block before its first FMA and behind its last one.
        store_bytes: bytes of the result a cycle and multiprocessor.
    """

    start: float
    second: float
    part_bytes: float
    edge: float
    store_bytes: float


RULE: Final = Rule(start=9995, second=7099, part_bytes=7.4, edge=2388, store_bytes=10.4)


@dataclass(frozen=True, slots=True)
class GemmTile(ProductTile):
    """A tile: what a block and a thread make, and how well; lanes_m is 8 or 4.

    Attributes:
        fetch_k: k of a step before which the copies of a later one start.
        resident: blocks that a multiprocessor holds at once.
        full: share of a multiprocessor's FMA rate where it holds that many.
        alone: share where it holds one.
        slices: groups of warps that share out the k of a step; their sums are added at the end.
    """

    fetch_k: int
    resident: int
    full: float
    alone: float
    slices: int = 1

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.slices * (self.m // self.thread_m) * (self.n // self.thread_n)

    @property
    def expression(self) -> str:
        """The type in device code."""
        part = (self.thread_m, self.thread_n, self.stages, self.lanes_m, self.fetch_k, self.slices)
        return f"Tile<{', '.join(map(str, (self.m, self.n, self.k, *part)))}>"


_HALF: Final = (
    GemmTile(128, 128, 8, 8, 16, 3, 8, 0, 2, 0.70, 0.40),
    GemmTile(64, 64, 16, 4, 8, 2, 8, 0, 4, 0.55, 0.25),
)

# Tiles of a dtype of the product, the largest first.
GEMM_TILES: Final[Mapping[DType, tuple[GemmTile, ...]]] = MappingProxyType(
    {
        f32: (
            GemmTile(128, 256, 8, 8, 16, 3, 8, 0, 1, 0.700, 0.700),
            GemmTile(128, 128, 8, 8, 16, 3, 8, 2, 2, 0.734, 0.601),
            GemmTile(128, 64, 16, 8, 8, 2, 8, 0, 3, 0.757, 0.310),
            GemmTile(64, 64, 16, 4, 8, 2, 8, 0, 4, 0.641, 0.310),
            GemmTile(64, 64, 32, 4, 8, 2, 8, 0, 2, 0.620, 0.550, 2),
            GemmTile(64, 32, 32, 4, 4, 2, 8, 0, 4, 0.510, 0.290),
            GemmTile(32, 64, 32, 4, 8, 3, 8, 0, 2, 0.580, 0.500, 4),
            GemmTile(32, 32, 32, 4, 4, 2, 8, 0, 8, 0.467, 0.170),
            GemmTile(16, 32, 64, 4, 4, 2, 4, 0, 3, 0.550, 0.330, 8),
            GemmTile(16, 128, 32, 4, 4, 2, 4, 0, 5, 0.506, 0.201),
            GemmTile(128, 16, 32, 4, 4, 2, 8, 0, 5, 0.388, 0.254),
        ),
        f64: (
            GemmTile(64, 64, 8, 4, 8, 2, 8, 0, 3, 0.75, 0.40),
            GemmTile(32, 32, 16, 4, 4, 2, 8, 0, 6, 0.40, 0.10),
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


class Block(Protocol):
    """What a block sums: rows, columns, and what k of a part is a multiple of."""

    @property
    def m(self) -> int:
        """Rows."""

    @property
    def n(self) -> int:
        """Columns."""

    @property
    def k(self) -> int:
        """Depth of a step."""


BLOCK = TypeVar("BLOCK", bound=Block)
BLOCK_co = TypeVar("BLOCK_co", bound=Block, covariant=True)


class GemmVariant(NamedTuple, Generic[BLOCK_co]):
    """A tile, and how many blocks sum each tile of the product.

    Attributes:
        tile: what a block sums.
        whole: tiles that one block sums; the others are cut.
        splits: blocks that a tile behind them is cut into, along k.
        k_chunk: k of a part, a multiple of the tile's.
    """

    tile: BLOCK_co
    whole: int
    splits: int
    k_chunk: int


def tile_count(size: GemmSize, tile: Block) -> int:
    """Return how many tiles a product has."""
    return size.batches * -(-size.m // tile.m) * -(-size.n // tile.n)


def part_bytes(size: GemmSize, variant: GemmVariant[Block], itemsize: int) -> int:
    """Return the scratch that the parts of cut tiles take [bytes]."""
    cut = tile_count(size, variant.tile) - variant.whole
    return itemsize * variant.splits * cut * variant.tile.m * variant.tile.n


def cut_variant(size: GemmSize, tile: BLOCK, whole: int, splits: int) -> GemmVariant[BLOCK]:
    """Return the variant of at most so many splits that leaves no part without work."""
    steps = max(-(-size.k // tile.k), 1)
    chunk = -(-steps // splits)
    return GemmVariant(tile, whole, -(-steps // chunk), chunk * tile.k)


def gemm_cycles(
    size: GemmSize,
    variant: GemmVariant[GemmTile],
    multiprocessors: int,
    itemsize: int,
    rule: Rule = RULE,
) -> float:
    """Return the cycles that a product is expected to take: the rule of this module.

    Args:
        size: the product, at least one element.
        variant: how it is computed.
        multiprocessors: of the device; 0 counts as 128.
        itemsize: bytes of an element of the compute dtype.
        rule: what surrounds the FMA.
    """
    tile, whole, splits, k_chunk = variant
    units = multiprocessors or MULTIPROCESSORS
    rate = 128.0 if itemsize == 4 else 64.0

    def time(blocks: int, k: int) -> float:
        rounds = -(-blocks // units)
        lone_rounds = -(-blocks // (units * tile.resident))
        fma = max(rounds / tile.full, lone_rounds / tile.alone) * tile.m * tile.n * k / rate
        stored = rounds * tile.m * tile.n * itemsize / rule.store_bytes
        return fma + lone_rounds * rule.edge + stored

    cut = tile_count(size, tile) - whole
    cycles = time(whole, size.k) if whole else 0.0
    if cut:
        cycles += time(cut * splits, min(k_chunk, size.k))
    cycles += rule.start
    if splits > 1:
        moved = 2 * part_bytes(size, variant, itemsize)
        cycles += rule.second + moved / (rule.part_bytes * units)
    return cycles


@lru_cache(maxsize=1024)
def choose_variant(size: GemmSize, dtype: DType, multiprocessors: int) -> GemmVariant[GemmTile]:
    """Return the tile and cut with the fewest cycles by `gemm_cycles`.

    Args:
        size: the product, at least one element.
        dtype: of the product: f16, bf16, f32 or f64.
        multiprocessors: of the device; 0 counts as 128.

    Example:
        >>> variant = choose_variant(GemmSize(1, 8192, 8192, 8192), f32, 132)
        >>> variant.tile.name, variant.splits
        ('128x64x16', 32)
    """
    itemsize = compute_dtype(dtype).itemsize
    units = multiprocessors or MULTIPROCESSORS
    return min(
        (
            variant
            for tile in GEMM_TILES[dtype]
            for variant in variants(size, tile, units, itemsize)
        ),
        key=lambda variant: gemm_cycles(size, variant, units, itemsize),
    )


def variants(
    size: GemmSize, tile: GemmTile, multiprocessors: int, itemsize: int
) -> Iterator[GemmVariant[GemmTile]]:
    """Yield a tile with every cut that leaves enough steps and takes little enough scratch."""
    tiles = tile_count(size, tile)
    yield cut_variant(size, tile, tiles, 1)
    slots = multiprocessors * tile.resident
    rounds = (tiles // filled * filled for filled in (slots, multiprocessors))
    for whole in dict.fromkeys((0, *rounds)):
        if whole == tiles or whole > MAX_WHOLE:
            continue
        last, cut = 1, tiles - whole
        for splits in sorted({*SPLITS, multiprocessors // cut, slots // cut} - {0, 1}):
            variant = cut_variant(size, tile, whole, splits)
            is_short = variant.k_chunk < MIN_STEPS * tile.k
            if is_short or part_bytes(size, variant, itemsize) > MAX_PART_BYTES:
                break
            if variant.splits > last:
                yield variant
            last = variant.splits
