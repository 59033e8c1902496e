"""Host memory: raw blocks for a bump pool, and the pool made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.pool.blocks import BLOCK_BYTES, RawBlock
from softcuda.pool.buffers import aligned_empty
from softcuda.pool.bump import BumpPool

__all__ = ["HostBlocks", "HostPool"]

Array = np.ndarray[Any, Any]
_BYTES = np.dtype(np.uint8)


class HostBlocks:
    """A block source whose blocks are 256-byte aligned NumPy byte arrays.

    An array made on a block keeps its memory alive, also after the pool is closed.
    """

    __slots__ = ()
    name = "host"

    def allocate(self, nbytes: int) -> RawBlock[Array]:
        """Return a block of `nbytes` bytes.

        Raises:
            PoolExhausted: the host has not that much memory.
        """
        memory = aligned_empty((nbytes,), _BYTES)
        return RawBlock(memory.ctypes.data, nbytes, memory)

    def free(self, block: RawBlock[Array]) -> None:
        """Forget a block; its memory goes when the last array on it does."""

    def window(self, block: RawBlock[Array], offset: int, nbytes: int) -> Array:
        """Return bytes [offset, offset + nbytes) of a block as an array, without a copy."""
        return block.memory[offset : offset + nbytes]


class HostPool(BumpPool[Array]):
    """A bump pool of host memory; its allocations are byte arrays."""

    __slots__ = ()

    def __init__(self, block_size: int = BLOCK_BYTES, limit_bytes: int | None = None) -> None:
        """Make an empty pool.

        Args:
            block_size: bytes of a block; rounded up to a multiple of 256.
            limit_bytes: most bytes of all blocks together; None for no limit.

        Raises:
            ArgumentError: `block_size` is below 1 or `limit_bytes` below 0.
        """
        super().__init__(HostBlocks(), block_size, limit_bytes)
