"""Raw blocks of host memory for a bump pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.pool.buffers import aligned_empty
from softcuda.pool.bump import BLOCK_BYTES, Block, BumpPool

__all__ = ["HostBlocks", "host_pool"]

Array = np.ndarray[Any, Any]
_BYTES = np.dtype(np.uint8)


class HostBlocks:
    """A block source whose blocks are 256-byte aligned NumPy byte arrays.

    An array made on a block keeps its memory alive, also after the pool is closed.
    """

    __slots__ = ()
    name = "host"

    def allocate(self, nbytes: int) -> Block[Array]:
        """Return a block of `nbytes` bytes.

        Raises:
            PoolExhausted: the host has not that much memory.
        """
        memory = aligned_empty((nbytes,), _BYTES)
        return Block(memory.ctypes.data, nbytes, memory)

    def free(self, block: Block[Array]) -> None:
        """Forget a block; its memory goes when the last array on it does."""

    def window(self, block: Block[Array], offset: int, nbytes: int) -> Array:
        """Return bytes [offset, offset + nbytes) of a block as an array, without a copy."""
        return block.memory[offset : offset + nbytes]


def host_pool(block_size: int = BLOCK_BYTES, limit_bytes: int | None = None) -> BumpPool[Array]:
    """Return a bump pool of host memory; its allocations are byte arrays.

    Args:
        block_size: bytes of a block.
        limit_bytes: most bytes of all blocks; None for no limit.

    Raises:
        ArgumentError: a size is not allowed, as in `BumpPool`.
    """
    return BumpPool(HostBlocks(), block_size, limit_bytes)
