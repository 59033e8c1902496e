"""What the sweep of matrix products tries: its cases and its tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from softcuda.backends.cuda.gemm_narrow import NarrowTile
from softcuda.backends.cuda.gemm_tiles import GEMM_TILES, GemmTile
from softcuda.dtype import f32

__all__ = ["BASIC", "BYTES", "Case", "cases", "narrow_tiles", "shown", "tiles"]

BYTES: Final = 4 * 8192 * 8192


class Case(NamedTuple):
    """A batched product of row-major matrices, each of which may be stored transposed."""

    batches: int
    m: int
    n: int
    k: int
    is_a_turned: bool = False
    is_b_turned: bool = False

    @property
    def name(self) -> str:
        """Its name in tables."""
        order = ("t" if self.is_a_turned else "n") + ("t" if self.is_b_turned else "n")
        return f"{self.batches}x{self.m}x{self.n}x{self.k} {order}"

    @property
    def flops(self) -> int:
        """Floating point operations."""
        return 2 * self.batches * self.m * self.n * self.k

    @property
    def is_large(self) -> bool:
        """Whether small tiles need not be tried."""
        return self.m * self.n >= 3000 * 3000 and self.k >= 64


def cases() -> list[Case]:
    """Return all cases, those that matter most first."""
    sides = (1024, 2048, 4096, 1031, 2053, 4099, 8192, 8191, 512, 1536, 3072)
    orders = ((False, True), (True, False), (True, True))
    return [
        *(Case(1, side, side, side) for side in sides),
        *(Case(1, side, side, side, *turned) for side in (2048, 2053) for turned in orders),
        Case(4096, 32, 32, 32),
        Case(1024, 64, 64, 64),
        Case(256, 128, 128, 128),
        Case(1, 1, 4096, 4096),
        Case(1, 8, 4096, 4096),
        Case(1, 16, 4096, 4096),
        Case(1, 4096, 16, 4096),
        Case(1, 8192, 8192, 8),
        Case(1, 64, 65536, 64),
        Case(1, 1, 4096, 4096, is_b_turned=True),
        Case(1, 8, 4096, 4096, is_b_turned=True),
        Case(1, 16, 4096, 4096, is_b_turned=True),
        Case(1, 4096, 1, 4096),
        Case(1, 300, 300, 100_000),
        Case(1, 256, 256, 4096),
        Case(16, 512, 512, 512),
        *(product for batch, width in PERCEPTRONS for product in _perceptron(batch, width)),
    ]


# Rows of a batch and width of a layer.
PERCEPTRONS: Final = ((32, 64), (128, 256), (512, 1024))


def _perceptron(batch: int, width: int) -> tuple[Case, ...]:
    """Return the products of a layer: forward, the gradient of its input, that of its weight."""
    return (
        Case(1, batch, width, width),
        Case(1, batch, width, width, is_b_turned=True),
        Case(1, width, width, batch, is_a_turned=True),
    )


# m, n, k of a block's tile, m and n of a thread's part, stages, lanes along m, k of the copies;
# then slices, 1 where nothing stands.
Shape = tuple[int, ...]

_LARGE: Final[tuple[Shape, ...]] = (
    (128, 128, 8, 8, 16, 3, 8, 2),
    (128, 128, 8, 8, 16, 3, 8, 0),
    (128, 128, 16, 8, 16, 2, 8, 2),
    (128, 64, 16, 8, 8, 2, 8, 2),
    (128, 128, 8, 8, 16, 2, 8, 0),
    (128, 128, 8, 8, 16, 4, 8, 0),
    (128, 128, 16, 8, 16, 2, 8, 0),
    (128, 256, 8, 8, 16, 3, 8, 0),
    (256, 128, 8, 8, 16, 3, 8, 0),
    (128, 128, 8, 8, 8, 4, 8, 0),
    (128, 128, 16, 8, 8, 2, 8, 0),
    (128, 64, 16, 8, 8, 2, 8, 0),
)
_SMALL: Final[tuple[Shape, ...]] = (
    (128, 64, 8, 8, 8, 3, 8, 0),
    (64, 128, 16, 8, 8, 2, 8, 0),
    (64, 64, 16, 8, 8, 2, 8, 0),
    (64, 64, 16, 4, 8, 2, 8, 0),
    (64, 64, 16, 4, 8, 3, 8, 0),
    (64, 64, 32, 4, 8, 2, 8, 0),
    (32, 128, 16, 4, 8, 2, 8, 0),
    (64, 32, 32, 4, 4, 2, 8, 0),
    (32, 32, 32, 4, 4, 2, 8, 0),
    (16, 128, 32, 4, 4, 2, 4, 0),
    (128, 16, 32, 4, 4, 2, 8, 0),
)
_SLICED: Final[tuple[Shape, ...]] = (
    (64, 64, 32, 4, 8, 2, 8, 0, 2),
    (64, 64, 32, 4, 8, 2, 8, 0, 4),
    (64, 64, 16, 4, 8, 3, 8, 0, 2),
    (64, 32, 32, 4, 4, 3, 8, 0, 2),
    (32, 64, 32, 4, 8, 3, 8, 0, 4),
    (32, 32, 64, 4, 4, 2, 8, 0, 4),
    (32, 32, 32, 4, 4, 4, 8, 0, 4),
    (16, 32, 64, 4, 4, 2, 4, 0, 8),
    (16, 32, 32, 4, 4, 4, 4, 0, 4),
    (32, 16, 64, 4, 4, 2, 8, 0, 8),
)
# Tried in every order of storage; the others with row-major operands alone.
BASIC: Final[tuple[Shape, ...]] = (
    *(_LARGE[number] for number in (0, 3, 6, 7, 10, 11)),
    *_SMALL[3:4],
    *_SMALL[-4:],
    *_SLICED,
)


def tiles(case: Case) -> list[GemmTile]:
    """Return the tiles that are tried for a case; how many fit is not known yet."""
    given = _LARGE if case.is_large else _LARGE + _SMALL + _SLICED
    if case.is_a_turned or case.is_b_turned or (case.is_large and case.m % 4):
        given = tuple(shape for shape in given if shape in BASIC)
    rates = {_shape(tile): (tile.full, tile.alone) for tile in GEMM_TILES[f32]}
    made = []
    for shape in given:
        m, n, k, thread_m, thread_n, stages, lanes_m, fetch_k, *slices = shape
        part = thread_m, thread_n, stages, lanes_m, fetch_k
        full, alone = rates.get(shape, (0.7, 0.3))
        made.append(GemmTile(m, n, k, *part, 1, full, alone, *slices))
    return made


def shown(tile: GemmTile) -> str:
    """Return a tile as the sweep names it."""
    lanes = "" if tile.lanes_m == 8 else f" lanes {tile.lanes_m}"
    fetch = "" if tile.fetch_k == 0 else f" fetch {tile.fetch_k}"
    slices = "" if tile.slices == 1 else f" slices {tile.slices}"
    return f"{tile.name} {tile.thread_m}x{tile.thread_n} s{tile.stages}{lanes}{fetch}{slices}"


# Warps of a block, and columns of a lane or, where lanes share out k, of a warp.
_NARROW_ALONG: Final = ((8, 4), (8, 2), (8, 8), (4, 4), (16, 2))
_NARROW_LINES: Final = ((8, 4), (16, 4), (4, 4), (32, 1), (16, 1))


def narrow_tiles(tile: NarrowTile) -> list[NarrowTile]:
    """Return the tiles of a few rows that are tried beside the rule's."""
    pairs = _NARROW_ALONG if tile.is_along_depth else _NARROW_LINES
    return [
        replace(tile, warps=warps, columns=columns, width=width)
        for warps, columns in pairs
        for width in (tile.width if tile.is_along_depth else min(tile.width, columns),)
    ]


def _shape(tile: GemmTile) -> Shape:
    part = (tile.thread_m, tile.thread_n, tile.stages, tile.lanes_m, tile.fetch_k)
    return (tile.m, tile.n, tile.k, *part, *((tile.slices,) if tile.slices > 1 else ()))
