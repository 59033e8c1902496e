"""Bump allocation over chained blocks: one interface for host, pinned and device memory.

Small requests move a top through blocks of block_size bytes; a larger request gets a block of
its own. `reset` moves the top back and keeps the blocks.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final, Generic, Self

from softcuda.errors import ArgumentError, ClosedError, PoolExhausted
from softcuda.forks import renew_in_child
from softcuda.pool.blocks import (
    BLOCK_BYTES,
    Allocation,
    BlockSource,
    Chain,
    Mark,
    Memory,
    OwnBlocks,
    RawBlock,
    drop_blocks,
    exact_bytes,
    round_up,
    whole_bytes,
)
from softcuda.pool.buffers import ALIGNMENT
from softcuda.sizes import bytes_text

__all__ = ["BumpPool"]

_CLOSED: Final = -1  # a room that no request fits, so that closing costs `allocate` nothing


class BumpPool(Generic[Memory]):
    """A bump allocator: 256-byte aligned, O(1), deterministic, chained blocks.

    After `reset` the same sequence of requests gives the same addresses, as long as no block was
    released in between. What was handed out above a mark must not be used after the reset to it.
    Every method may be called from several threads; the order of marks and resets among threads
    is theirs to agree on.

    Attributes:
        block_size: bytes of a block.
        limit_bytes: most bytes of all blocks together; None for no limit.
        capacity_bytes: bytes of the blocks held, in use or kept for reuse.
    """

    __slots__ = (
        "__weakref__", "_chain", "_finalizer", "_high_water", "_key", "_lock", "_own", "_source",
        "block_size", "capacity_bytes", "limit_bytes",
    )  # fmt: skip

    def __init__(
        self,
        source: BlockSource[Memory],
        block_size: int = BLOCK_BYTES,
        limit_bytes: int | None = None,
    ) -> None:
        """Make an empty pool; the first request takes the first block.

        Args:
            source: gives and takes back raw blocks.
            block_size: bytes of a block; rounded up to a multiple of 256.
            limit_bytes: most bytes of all blocks together; None for no limit.

        Raises:
            ArgumentError: `block_size` is below 1 or `limit_bytes` below 0.
            ArgumentTypeError: one of them is no whole number.
        """
        block_size = whole_bytes("block_size", block_size)
        limit_bytes = None if limit_bytes is None else whole_bytes("limit_bytes", limit_bytes)
        if block_size < 1 or (limit_bytes is not None and limit_bytes < 0):
            raise ArgumentError(
                f"BumpPool({source.name}): block_size {block_size}, limit_bytes {limit_bytes}; "
                "allowed are a block_size of at least 1 and a limit_bytes of at least 0 or None"
            )
        self.block_size = round_up(block_size)
        self.limit_bytes = limit_bytes
        self.capacity_bytes = 0
        self._source = source
        self._lock = threading.RLock()
        self._key = object()
        self._chain: Chain[Memory] = Chain()
        self._own: OwnBlocks[Memory] = OwnBlocks()
        self._high_water = 0
        self._finalizer = weakref.finalize(self, drop_blocks, source, self._chain, self._own)
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.RLock()

    def allocate(self, nbytes: int) -> Allocation[Memory]:
        """Return `nbytes` bytes of memory, uninitialised, in O(1).

        Args:
            nbytes: bytes; 0 takes as much room as 1, so that its address is its own.

        Raises:
            PoolExhausted: the limit or the source leaves no room; the pool is as before.
            ArgumentError: `nbytes` is negative.
            ArgumentTypeError: `nbytes` is no whole number.
            ClosedError: the pool is closed.
        """
        if type(nbytes) is not int:
            nbytes = whole_bytes("nbytes", nbytes)
        with self._lock:
            chain = self._chain
            start = chain.offset
            end = start + ((nbytes + ALIGNMENT - 1) & -ALIGNMENT)
            if nbytes <= 0 or end > chain.room or chain.block is None:
                return self._allocate_elsewhere(nbytes)
            chain.offset = end
            block = chain.block
            return Allocation(block.ptr + start, nbytes, self._source.window(block, start, nbytes))

    def _allocate_elsewhere(self, nbytes: int) -> Allocation[Memory]:
        """Serve what does not simply fit the current block, or raise."""
        self._check_open("allocate")
        if nbytes < 0:
            raise ArgumentError(
                f"{self!r}: allocate was asked for {nbytes} bytes; allowed is at least 0"
            )
        size = round_up(nbytes)
        found, refusal = self._place(size)
        if found is None and self._release_unused():
            found, refusal = self._place(size)
        if found is None:
            raise self._exhausted(nbytes, refusal) from refusal
        block, start = found
        return Allocation(block.ptr + start, nbytes, self._source.window(block, start, nbytes))

    def _place(self, size: int) -> tuple[tuple[RawBlock[Memory], int] | None, MemoryError | None]:
        """Return a block and an offset for `size` bytes, or None and what the source said.

        The order is fixed, which keeps addresses the same when requests repeat: the current
        block, the next of the chain, a block of the request's own.
        """
        chain, own = self._chain, self._own
        try:
            if size <= self.block_size:
                fits = size <= chain.room - chain.offset or chain.advance()
                if not fits and self._may_grow(self.block_size):
                    chain.append(self._new_block(self.block_size))
                    fits = chain.advance()
                if fits and chain.block is not None:
                    chain.offset += size
                    return (chain.block, chain.offset - size), None
            block = own.reuse(size)
            if block is None and self._may_grow(size):
                block = self._new_block(size)
                own.append(block)
        except MemoryError as error:
            return None, error
        return None if block is None else (block, 0), None

    def _may_grow(self, nbytes: int) -> bool:
        return self.limit_bytes is None or self.capacity_bytes + nbytes <= self.limit_bytes

    def _new_block(self, nbytes: int) -> RawBlock[Memory]:
        block = self._source.allocate(nbytes)
        self.capacity_bytes += nbytes
        return block

    def mark(self) -> Mark:
        """Return the current top of the pool, to hand to `reset`.

        Raises:
            ClosedError: the pool is closed.
        """
        with self._lock:
            self._check_open("mark")
            return Mark(self._key, self._chain.current, self._chain.offset, len(self._own.used))

    def reset(self, mark: Mark | None = None) -> None:
        """Take back everything that was handed out after `mark`; the blocks are kept.

        Args:
            mark: what `mark` returned; None takes everything back.

        Raises:
            ArgumentError: the mark is no mark of this pool, or above the top.
            ClosedError: the pool is closed.
        """
        with self._lock:
            self._check_open("reset")
            if mark is None:
                mark = Mark(self._key, -1, 0, 0)
            if not isinstance(mark, Mark) or mark.key is not self._key:
                given = "a mark of another pool" if isinstance(mark, Mark) else repr(mark)
                raise ArgumentError(
                    f"{self!r}: reset was given {given}; allowed are marks of this pool's mark()"
                )
            chain, own = self._chain, self._own
            top = (chain.current, chain.offset)
            if (mark.block, mark.offset) > top or mark.own > len(own.used):
                raise ArgumentError(
                    f"{self!r}: reset to block {mark.block}, offset {mark.offset}, {mark.own} own "
                    f"blocks is above the top, which is at block {top[0]}, offset {top[1]}, "
                    f"{len(own.used)} own blocks; allowed are marks below it"
                )
            self._high_water = self.high_water_bytes
            chain.move(mark.block, mark.offset)
            own.take_back(mark.own)

    def release(self) -> int:
        """Free the blocks that are kept for reuse; return how many bytes that gave back.

        Raises:
            ClosedError: the pool is closed.
        """
        with self._lock:
            self._check_open("release")
            return self._release_unused()

    def _release_unused(self) -> int:
        unused = self._chain.take_unused() + self._own.take_unused()
        freed = sum(block.nbytes for block in unused)
        self.capacity_bytes -= freed
        for block in unused:
            self._source.free(block)
        return freed

    def close(self) -> None:
        """Give every block back; a second call does nothing."""
        with self._lock:
            if self.is_closed:
                return
            self.reset()
            self._chain.room = _CLOSED
            self._finalizer.detach()
            self._release_unused()

    def __enter__(self) -> Self:
        self._check_open("with")
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._chain.room == _CLOSED

    @property
    def used_bytes(self) -> int:
        """Bytes handed out, each request rounded up to a multiple of 256 or to its own block."""
        with self._lock:
            return self._chain.used_bytes + self._own.used_bytes

    @property
    def high_water_bytes(self) -> int:
        """The most that `used_bytes` ever was."""
        return max(self._high_water, self.used_bytes)

    @property
    def block_count(self) -> int:
        """Number of blocks held, in use or kept for reuse."""
        with self._lock:
            return len(self._chain.blocks) + self._own.count

    def __repr__(self) -> str:
        limit = "" if self.limit_bytes is None else f", limit {bytes_text(self.limit_bytes)}"
        state = ", closed" if self.is_closed else ""
        return (
            f"BumpPool({self._source.name}, {bytes_text(self.used_bytes)} used of "
            f"{bytes_text(self.capacity_bytes)} in {self.block_count} blocks{limit}, "
            f"high water {bytes_text(self.high_water_bytes)}{state})"
        )

    def _check_open(self, what: str) -> None:
        if self.is_closed:
            raise ClosedError(f"{self!r}: {what} was called after close(); make a new pool")

    def _exhausted(self, nbytes: int, refusal: MemoryError | None) -> PoolExhausted:
        inside = self._chain.room - self._chain.offset
        if self.limit_bytes is None:
            limit = "no limit is set"
        else:
            left = (self.limit_bytes - self.capacity_bytes) // ALIGNMENT * ALIGNMENT
            limit = f"{exact_bytes(left)} left below the limit of {exact_bytes(self.limit_bytes)}"
        why = "" if refusal is None else f"; the {self._source.name} refused a block: {refusal}"
        return PoolExhausted(
            f"BumpPool({self._source.name}) exhausted: asked {exact_bytes(nbytes)}; {limit}, "
            f"{exact_bytes(inside)} left in the current block, {exact_bytes(self.used_bytes)} used"
            f"{why}; a request may be as large as what is left in one place: reset(mark) what is "
            "no longer needed, or make the pool with a larger limit_bytes"
        )
