"""The kernels of permuted copies: what each is compiled for, as rows of the kernel table."""

from __future__ import annotations

from typing import Final, NamedTuple

from softcuda.backends.cuda.tiles import Access
from softcuda.backends.cuda.walks import INDICES, SIZED, sized_dtypes
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["KINDS", "THREADS", "TileKind", "multiprocessors"]

THREADS: Final = 256

_LANES: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "uint4"}
_OWN_BYTES: Final = 1024  # of shared memory, that the system takes of every block
_MULTIPROCESSORS: Final = 128  # where the target does not say


class TileKind(NamedTuple):
    """What one kernel is compiled for, and how it is launched.

    Attributes:
        lane_bytes: bytes of what moves as one.
        rows: lanes of a vector that is written.
        columns: lanes of a vector that is read.
        items: blocks of rows x columns lanes that a thread moves of a tile.
        blocks: of a multiprocessor at once: what registers are limited to.
        turns: tiles that a block takes one after the other; 0: an equal share of all of them, by
            as many blocks as the device holds at once.
        tile_us: what a tile takes at least [microseconds].
        is_direct: tiles go straight through registers, without shared memory.
        is_wide: offsets inside a tile are 64 bits.
    """

    lane_bytes: int
    rows: int
    columns: int
    items: int
    blocks: int
    turns: int
    tile_us: float = 1.5
    is_direct: bool = False
    is_wide: bool = False

    @property
    def access(self) -> Access:
        """How it moves a tile."""
        capacity = THREADS * self.items * self.rows * self.columns
        return Access(self.lane_bytes, self.rows, self.columns, capacity, self.is_direct)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block [bytes]."""
        return 0 if self.is_direct else self.access.capacity * self.lane_bytes

    def resident(self, target: Target) -> int:
        """Return the blocks that the device holds at once, as registers and memory allow."""
        each = self.blocks
        if self.shared_bytes and target.shared_memory_kib:
            fit = (target.shared_memory_kib << 10) // (self.shared_bytes + _OWN_BYTES)
            each = max(min(each, fit), 1)
        return each * multiprocessors(target)

    def grid(self, tiles: int, target: Target) -> int:
        """Return the number of blocks that take the tiles of a copy."""
        return -(-tiles // self.turns) if self.turns else min(tiles, self.resident(target))

    @property
    def spec(self) -> KernelSpec:
        """The row of the kernel table."""
        lane, index = _LANES[self.lane_bytes], INDICES[self.is_wide]
        family = "permute_runs" if self.is_direct else "permute_tile"
        block = [] if self.is_direct else [self.rows, self.columns]
        shape = "x".join(map(str, (*block, self.items)))
        given = ", ".join(map(str, (*block, self.items, self.blocks)))
        return KernelSpec(
            family,
            f"u{8 * self.lane_bytes}_{shape}_{index}",
            "permute.cu",
            f"{family}<{lane}, {given}, {index}>",
            _dtypes(self.lane_bytes),
            THREADS,
            tile=(self.access.capacity,),
            shared_bytes=self.shared_bytes,
        )


def multiprocessors(target: Target) -> int:
    """Return the multiprocessors of a target, or those of a usual one."""
    return target.multiprocessors or _MULTIPROCESSORS


def _dtypes(lane_bytes: int) -> tuple[str, ...]:
    """Return the tokens of the dtypes of which lanes of a size are made."""
    return tuple(
        name for size in SIZED if 8 * lane_bytes >= int(size[1:]) for name in sized_dtypes(size)
    )


# Measured on an H200 with benchmarks/sweeps/permute.py: short prologues gain by a block a tile,
# long ones (many items, small vectors) by few blocks. One wide kernel a size of lanes serves views
# that reach far.
KINDS: Final = (
    TileKind(16, 1, 1, 4, 4, turns=1, tile_us=1.4, is_direct=True),
    TileKind(16, 1, 1, 4, 3, turns=0, tile_us=1.4),
    TileKind(8, 2, 2, 4, 2, turns=2, tile_us=1.4),
    TileKind(8, 1, 1, 8, 3, turns=0, tile_us=1.3),
    TileKind(4, 4, 4, 2, 3, turns=1, tile_us=1.8),
    TileKind(4, 4, 4, 1, 4, turns=1, tile_us=1.2),
    TileKind(4, 1, 4, 4, 3, turns=2, tile_us=1.1),
    TileKind(4, 4, 1, 4, 3, turns=0, tile_us=1.3),
    TileKind(4, 1, 1, 16, 2, turns=0, tile_us=1.5),
    TileKind(2, 8, 8, 1, 2, turns=2, tile_us=1.9),
    TileKind(2, 4, 4, 2, 3, turns=1, tile_us=1.5),
    TileKind(2, 2, 2, 4, 4, turns=0, tile_us=1.4),
    TileKind(2, 1, 8, 2, 4, turns=2, tile_us=1.6),
    TileKind(2, 8, 1, 4, 3, turns=1, tile_us=2.9),
    TileKind(2, 1, 1, 16, 2, turns=0, tile_us=1.8),
    TileKind(1, 4, 4, 4, 3, turns=0, tile_us=1.6),
    TileKind(1, 1, 8, 2, 4, turns=2, tile_us=2.3),
    TileKind(1, 8, 1, 2, 4, turns=0, tile_us=1.5),
    TileKind(1, 1, 1, 16, 2, turns=0, tile_us=1.7),
    *(TileKind(nbytes, 1, 1, 4, 2, turns=0, tile_us=1.2, is_wide=True) for nbytes in _LANES),
)
