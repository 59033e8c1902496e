"""Memory: bump pools over raw blocks, aligned host buffers, windows, reuse of output buffers."""

from softcuda.pool.buffers import ALIGNMENT, BufferCache, OutputBuffer, aligned_empty, strided
from softcuda.pool.bump import Allocation, Block, BlockSource, BumpPool, Mark
from softcuda.pool.host import HostBlocks, host_pool

__all__ = [
    "ALIGNMENT",
    "Allocation",
    "Block",
    "BlockSource",
    "BufferCache",
    "BumpPool",
    "HostBlocks",
    "Mark",
    "OutputBuffer",
    "aligned_empty",
    "host_pool",
    "strided",
]
