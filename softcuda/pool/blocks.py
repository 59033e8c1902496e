"""Raw blocks of a pool: the parts of its interface, and how the blocks are kept in order."""

from __future__ import annotations

import operator
import warnings
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from softcuda.errors import ArgumentTypeError, SoftCudaError, SoftCudaWarning
from softcuda.interrupts import Uninterrupted
from softcuda.pool.buffers import ALIGNMENT
from softcuda.sizes import bytes_text

__all__ = [
    "BLOCK_BYTES",
    "Allocation",
    "BlockSource",
    "Chain",
    "Mark",
    "OwnBlocks",
    "RawBlock",
    "drop_blocks",
    "exact_bytes",
    "round_up",
    "whole_bytes",
]

BLOCK_BYTES: Final = 2 << 20  # the block_size of DEFAULT.soft

Memory = TypeVar("Memory")


class RawBlock(NamedTuple, Generic[Memory]):
    """A raw piece of memory: 256-byte aligned address, bytes, the object that owns it."""

    ptr: int
    nbytes: int
    memory: Memory


class BlockSource(Protocol[Memory]):
    """Where a pool takes its blocks from."""

    @property
    def name(self) -> str:
        """What kind of memory it is; the pool prints it."""

    def allocate(self, nbytes: int) -> RawBlock[Memory]:
        """Return a block of `nbytes` bytes, 256-byte aligned; raise MemoryError when it cannot."""

    def free(self, block: RawBlock[Memory]) -> None:
        """Give a block back."""

    def window(self, block: RawBlock[Memory], offset: int, nbytes: int) -> Memory:
        """Return what stands for bytes [offset, offset + nbytes) of a block."""


class Allocation(NamedTuple, Generic[Memory]):
    """Memory handed out by a pool.

    `ptr` is its 256-byte aligned address, `nbytes` what was asked, `memory` the window that the
    pool's source makes of it: for host memory a byte array [nbytes].
    """

    ptr: int
    nbytes: int
    memory: Memory


class Mark(NamedTuple):
    """A top of one pool, to hand to `reset`: the pool's key, block, offset in it, own blocks."""

    key: object
    block: int
    offset: int
    own: int


def round_up(nbytes: int) -> int:
    """Return the room [bytes] that a request takes: a multiple of 256, at least 256."""
    return (nbytes + ALIGNMENT - 1) & -ALIGNMENT or ALIGNMENT


class Chain(Generic[Memory]):
    """Blocks of one size, filled one after the other; the top is a block and an offset in it.

    Attributes:
        blocks: the blocks, those beyond the current one unused.
        current: index of the block that holds the top; -1 before the first.
        block: that block, or None.
        offset: where its free part begins [bytes].
        room: its bytes; 0 where there is none.
    """

    __slots__ = ("_before", "block", "blocks", "current", "offset", "room")

    def __init__(self) -> None:
        self.blocks: list[RawBlock[Memory]] = []
        self._before: list[int] = []  # bytes used in the blocks before each
        self.move(-1, 0)

    def move(self, current: int, offset: int) -> None:
        """Set the top."""
        self.current = current
        self.offset = offset
        self.block: RawBlock[Memory] | None = self.blocks[current] if current >= 0 else None
        self.room = self.block.nbytes if self.block is not None else 0

    def advance(self) -> bool:
        """Go to the beginning of the next block; return False when there is none."""
        following = self.current + 1
        if following == len(self.blocks):
            return False
        self._before[following:] = [self.used_bytes] * (len(self.blocks) - following)
        self.move(following, 0)
        return True

    def append(self, block: RawBlock[Memory]) -> None:
        """Add a block at the end."""
        self.blocks.append(block)
        self._before.append(0)

    @property
    def used_bytes(self) -> int:
        """Bytes below the top."""
        return self._before[self.current] + self.offset if self.current >= 0 else 0

    def take_unused(self) -> list[RawBlock[Memory]]:
        """Remove the blocks beyond the current one and return them."""
        unused = self.blocks[self.current + 1 :]
        del self.blocks[self.current + 1 :]
        del self._before[self.current + 1 :]
        return unused


class OwnBlocks(Generic[Memory]):
    """Blocks that each hold one large request.

    A request takes the oldest free block that is large enough: whatever was made later is then
    no rival, so a repeated sequence of requests finds the same blocks.

    Attributes:
        used: (age, block) of the blocks in use, in the order of the requests.
        used_bytes: their bytes.
    """

    __slots__ = ("_free", "_made", "used", "used_bytes")

    def __init__(self) -> None:
        self.used: list[tuple[int, RawBlock[Memory]]] = []
        self.used_bytes = 0
        self._free: list[tuple[int, RawBlock[Memory]]] = []  # oldest first
        self._made = 0

    @property
    def count(self) -> int:
        """Number of blocks, free ones included."""
        return len(self.used) + len(self._free)

    def reuse(self, nbytes: int) -> RawBlock[Memory] | None:
        """Take the oldest free block of at least `nbytes`, or return None."""
        for place, (age, block) in enumerate(self._free):
            if block.nbytes >= nbytes:
                del self._free[place]
                self._use(age, block)
                return block
        return None

    def append(self, block: RawBlock[Memory]) -> None:
        """Add a new block, in use."""
        self._use(self._made, block)
        self._made += 1

    def _use(self, age: int, block: RawBlock[Memory]) -> None:
        self.used.append((age, block))
        self.used_bytes += block.nbytes

    def take_back(self, count: int) -> None:
        """Make every block in use free, but for the first `count`."""
        if len(self.used) == count:
            return
        self.used_bytes -= sum(block.nbytes for _, block in self.used[count:])
        self._free.extend(self.used[count:])
        self._free.sort(key=_age)
        del self.used[count:]

    def take_unused(self) -> list[RawBlock[Memory]]:
        """Remove the free blocks and return them."""
        unused = [block for _, block in self._free]
        self._free.clear()
        return unused


def _age(entry: tuple[int, Any]) -> int:
    return entry[0]


def drop_blocks(source: BlockSource[Any], chain: Chain[Any], own: OwnBlocks[Any]) -> None:
    """Free the blocks of a pool that was dropped without close(); a failure is a warning."""
    with Uninterrupted(is_finalizer=True):
        chain.move(-1, 0)
        own.take_back(0)
        try:
            for block in (*chain.take_unused(), *own.take_unused()):
                source.free(block)
        except SoftCudaError as error:
            warnings.warn(
                f"a dropped BumpPool({source.name}) could not free its blocks: {error}",
                SoftCudaWarning,
                stacklevel=1,
            )


def exact_bytes(nbytes: int) -> str:
    """Return a byte count with a unit and in bytes."""
    return f"{nbytes} bytes" if nbytes < 1024 else f"{bytes_text(nbytes)} ({nbytes} bytes)"


def whole_bytes(name: str, nbytes: object) -> int:
    """Return an argument of a pool as a whole number.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        return operator.index(nbytes)  # type: ignore[arg-type]
    except TypeError as error:
        raise ArgumentTypeError(
            f"BumpPool: {name} is {nbytes!r} of type {type(nbytes).__name__}; allowed is a whole "
            "number of bytes"
        ) from error
