"""Memory: bump pools over raw blocks, aligned host buffers, windows."""

from softcuda.pool.blocks import Allocation, BlockSource, Mark, RawBlock
from softcuda.pool.buffers import ALIGNMENT, aligned_empty, separate, strided
from softcuda.pool.bump import BumpPool
from softcuda.pool.host import HostBlocks, HostPool

__all__ = [
    "ALIGNMENT",
    "Allocation",
    "BlockSource",
    "BumpPool",
    "HostBlocks",
    "HostPool",
    "Mark",
    "RawBlock",
    "aligned_empty",
    "separate",
    "strided",
]
