"""Tiles of softmax, log_softmax and layer_norm: how rows lie in threads, and their kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from softcuda.backends.cuda.reduce_shapes import REDUCE_THREADS
from softcuda.dtype import REAL_DTYPES, DType
from softcuda.kernelspec import KernelSpec

__all__ = [
    "ROW_KERNELS",
    "VECTOR_BYTES",
    "FullTile",
    "HeldTile",
    "full_spec",
    "full_tiles",
    "further_rows",
    "general_spec",
    "held_spec",
    "held_tiles",
]

VECTOR_BYTES: Final = 16
_WARP: Final = 32
_FLOATS: Final = tuple(d for d in REAL_DTYPES.values() if d.is_float)


class HeldTile(NamedTuple):
    """How a block holds rows in its registers.

    Attributes:
        vectors: of 16 bytes, of a thread.
        threads: of a block.
        blocks: that a multiprocessor holds; they bound the registers of a thread.
        is_ahead: these blocks go over all rows, and a team's next row is on its way meanwhile;
            else a team has one row.
        team: threads of a row at most.
    """

    vectors: int
    threads: int
    blocks: int
    is_ahead: bool
    team: int


class FullTile(NamedTuple):
    """How rows fill the registers of teams.

    Attributes:
        vectors: of 16 bytes, of a thread.
        team: threads of a row.
        threads: of a block.
        blocks: that a multiprocessor holds; they bound the registers of a thread.
        ahead: these blocks go over all rows, and so many of a team's next rows are on their way
            meanwhile, in shared memory; 0: a team has one row.
        is_first: what was read is the first to leave L2.
    """

    vectors: int
    team: int
    threads: int
    blocks: int
    ahead: int
    is_first: bool

    @property
    def ring_bytes(self) -> int:
        """Shared memory of a block in which rows lie [bytes]."""
        return self.ahead * self.vectors * self.threads * VECTOR_BYTES


# By dtype, for the shortest rows first: 16 elements of a thread in registers, then 32 (f64: half as
# many). f16 takes more registers than bf16: its vectors are converted in pairs.
_SHORT_16: Final = HeldTile(2, 256, 4, True, 32)
_SHORT_32: Final = HeldTile(4, 256, 4, True, 32)
_LONG_32: Final = HeldTile(8, 256, 3, False, 256)
_LONGEST: Final = HeldTile(4, 1024, 1, False, 1024)
_LONGEST_F16: Final = HeldTile(2, 1024, 1, False, 1024)
_TILES: Final = {
    "softmax": {
        "f16": (HeldTile(2, 256, 5, False, 256), HeldTile(4, 256, 3, False, 256), _LONGEST_F16),
        "bf16": (HeldTile(2, 256, 6, False, 256), HeldTile(4, 256, 4, False, 256), _LONGEST),
        "f32": (_SHORT_32, _LONG_32, _LONGEST),
        "f64": (HeldTile(4, 256, 3, False, 256), HeldTile(4, 512, 1, False, 512), _LONGEST),
    },
    "layer_norm": {
        "f16": (_SHORT_16, HeldTile(4, 256, 2, False, 256), _LONGEST_F16),
        "bf16": (_SHORT_16, HeldTile(4, 256, 4, False, 256), _LONGEST),
        "f32": (HeldTile(4, 256, 5, False, 256), _LONG_32, _LONGEST),
        "f64": (HeldTile(4, 256, 4, False, 256), HeldTile(8, 256, 2, False, 256), _LONGEST),
    },
}
# Rows that fill these have kernels of their own. The short ones are 16 elements a thread (f64: 8),
# of teams that lie in a warp.
_WITHIN_WARPS: Final = (8, 16, 32)
_LONG_FULL_16: Final = FullTile(4, 256, 256, 3, 0, True)
_LONG_FULL_32: Final = FullTile(4, 512, 512, 1, 0, False)
_FULL: Final = {
    "softmax": {
        "f16": (FullTile(2, 8, 256, 4, 2, True),),
        "bf16": (FullTile(2, 8, 256, 6, 2, True),),
        "f32": (FullTile(4, 8, 256, 4, 3, True), _LONG_FULL_32),
        "f64": (FullTile(4, 8, 256, 3, 3, True),),
    },
    "layer_norm": {
        "f16": (FullTile(2, 8, 256, 4, 4, True),),
        "bf16": (FullTile(2, 8, 256, 4, 4, True), _LONG_FULL_16),
        "f32": (FullTile(4, 8, 256, 4, 3, True), _LONG_FULL_32),
        "f64": (FullTile(4, 8, 256, 3, 3, True),),
    },
}


def held_tiles(family: str, dtype: DType) -> tuple[HeldTile, ...]:
    """Return the tiles of "softmax" or "layer_norm" of a dtype, that of the shortest rows first."""
    return _TILES[family][dtype.name]


def full_tiles(family: str, dtype: DType) -> Iterator[FullTile]:
    """Yield the tiles of rows that fill them, that of the shortest rows first."""
    for tile in _FULL[family][dtype.name]:
        if tile.team > _WARP:
            yield tile
        else:
            yield from (tile._replace(team=team) for team in _WITHIN_WARPS)


def held_spec(family: str, dtype: DType, tile: HeldTile) -> KernelSpec:
    """Return the kernel that holds rows in registers.

    Args:
        family: "softmax" or "layer_norm".
        dtype: of elements and results.
        tile: how it holds them.
    """
    name, numbers = dtype.name, [str(n) for n in (tile.vectors, tile.threads, tile.blocks)]
    return KernelSpec(
        f"{family}_held",
        f"{name}_{'x'.join(numbers)}{'_ahead' if tile.is_ahead else ''}",
        f"{family}.cu",
        f"{family}_held<{name}, {', '.join(numbers)}, {str(tile.is_ahead).lower()}>",
        (name, name),
        tile.threads,
    )


def full_spec(family: str, dtype: DType, tile: FullTile) -> KernelSpec:
    """Return the kernel of rows that fill registers.

    Args:
        family: "softmax" or "layer_norm".
        dtype: of elements and results.
        tile: how they fill them.
    """
    name, numbers = dtype.name, [str(n) for n in tile[:5]]
    return KernelSpec(
        f"{family}_full",
        f"{name}_{'x'.join(numbers)}{'' if tile.is_first else '_kept'}",
        f"{family}_full.cu",
        f"{family}_full<{name}, {', '.join(numbers)}, {str(tile.is_first).lower()}>",
        (name, name),
        tile.threads,
        shared_bytes=tile.ring_bytes,
        min_arch=80 if tile.ahead else 75,
    )


def general_spec(family: str, dtype: DType) -> KernelSpec:
    """Return the kernel of a family that takes rows of any length and any strides."""
    file = "layer_norm.cu" if family == "layer_norm" else "softmax.cu"
    name = dtype.name
    return KernelSpec(family, name, file, f"{family}<{name}>", (name, name), REDUCE_THREADS)


# The tiles of the shortest rows.
ROW_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(
        held_spec(family, dtype, tile)
        for family in _TILES
        for dtype in _FLOATS
        for tile in held_tiles(family, dtype)[:1]
    ),
    *(
        full_spec(family, dtype, next(full_tiles(family, dtype)))
        for family in _FULL
        for dtype in _FLOATS
    ),
    *(
        general_spec(family, dtype)
        for family in ("softmax_rows", "softmax_columns", "layer_norm")
        for dtype in _FLOATS
    ),
)


def further_rows() -> Iterator[KernelSpec]:
    """Yield the kernels of every tile, those that are compiled when met too."""
    for family, tiles in _TILES.items():
        for dtype in _FLOATS:
            yield from (held_spec(family, dtype, tile) for tile in tiles[dtype.name])
            yield from (full_spec(family, dtype, tile) for tile in full_tiles(family, dtype))
