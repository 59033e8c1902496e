"""The boxes of contract.cu: what a block and a thread sum, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from softcuda.backends.cuda.product_tile import ProductTile
from softcuda.dtype import DType, bf16, f16, f32, f64

__all__ = ["CONTRACT_TILES", "STATIC_BYTES", "ContractTile"]

STATIC_BYTES: Final = 48 << 10  # of shared memory a block, on every architecture
TABLE_DEPTH: Final = 256  # k whose offsets are in shared memory at once
GAP_ROWS: Final = 32  # of a long line in shared memory, until a vector is left free
HELD_COLUMNS: Final = 2  # of a thread's sums, in front of a chain
TASK_BYTES: Final = 1920  # of what a block knows of its tasks


@dataclass(frozen=True, slots=True)
class ContractTile(ProductTile):
    """A box: what a block and a thread make, and how well; lanes_m is 2, 4, 8 or 16.

    Attributes:
        resident: blocks that a multiprocessor holds at once.
        full: share of a multiprocessor's FMA rate where it holds that many.
        alone: share where it holds one.
        is_usual: it serves many contractions, and is compiled ahead.
        fetch_k: copies of a step start before its k of that number, among its products; in front
            of the step where negative.
        names_part: its name says what a thread sums too: another box has its extents.
    """

    resident: int
    full: float
    alone: float
    is_usual: bool = True
    fetch_k: int = 1
    names_part: bool = False

    @property
    def name(self) -> str:
        """Such as "128x256x8", or "128x256x8by4x12" where a thread's part is named."""
        part = f"by{self.thread_m}x{self.thread_n}" if self.names_part else ""
        return f"{self.m}x{self.n}x{self.k}{part}"

    @property
    def expression(self) -> str:
        """The type in device code."""
        numbers = (
            *(self.m, self.n, self.k, self.thread_m, self.thread_n),
            *(self.stages, self.lanes_m, self.resident, self.fetch_k),
        )
        return f"Box<{', '.join(map(str, numbers))}>"

    def shared_bytes(self, itemsize: int, is_wide: bool, extras: int | None) -> int:
        """Return what a kernel takes of shared memory at most [bytes].

        Args:
            itemsize: bytes of an element of the compute dtype.
            is_wide: offsets are 64 bits.
            extras: further operands of the chain behind; None where there is no chain.
        """
        offset, lines = (8 if is_wide else 4), self.m + self.n
        gaps = sum(
            1 + (side // GAP_ROWS if side >= 4 * GAP_ROWS else 0) for side in (self.m, self.n)
        )
        ring = self.stages * self.k * (lines * itemsize + 16 * gaps)
        tables = 3 * lines * offset + 2 * TABLE_DEPTH * offset + TASK_BYTES
        if extras is None:
            return ring + tables
        held = HELD_COLUMNS * self.thread_m * self.threads * itemsize
        return ring + tables + held + 8 * max(extras, 1) * lines


_SQUARE: Final = ContractTile(128, 64, 8, 8, 8, 4, 8, 3, 0.77, 0.29, False)
_SMALL: Final = ContractTile(64, 64, 8, 8, 8, 4, 8, 6, 0.77, 0.15, False)

# Boxes of a dtype of the product, the largest first.
CONTRACT_TILES: Final[Mapping[DType, tuple[ContractTile, ...]]] = MappingProxyType(
    {
        f32: (
            ContractTile(128, 128, 8, 8, 16, 3, 8, 2, 0.73, 0.47),
            _SQUARE,
            ContractTile(128, 72, 8, 4, 12, 4, 16, 2, 0.63, 0.45, False),
            ContractTile(72, 128, 8, 12, 4, 4, 2, 2, 0.61, 0.41, False),
            ContractTile(256, 24, 8, 8, 12, 3, 16, 4, 0.64, 0.17),
            ContractTile(256, 24, 8, 4, 12, 3, 16, 3, 0.65, 0.22, False, names_part=True),
            ContractTile(24, 256, 8, 12, 8, 3, 2, 4, 0.66, 0.26, False),
            _SMALL,
            ContractTile(32, 32, 16, 4, 4, 4, 8, 8, 0.63, 0.08, False),
        ),
        f64: (
            ContractTile(64, 64, 8, 4, 8, 3, 8, 3, 0.75, 0.40),
            ContractTile(32, 32, 8, 4, 4, 3, 8, 8, 0.40, 0.08),
        ),
        f16: (_SQUARE, _SMALL),
        bf16: (_SQUARE, _SMALL),
    }
)
