"""Bump allocation over chained blocks: one interface for host, pinned and device memory.

Small requests move a top through blocks of block_size bytes; a larger request gets a block of
its own. `reset` moves the top back in O(1) and keeps the blocks.
"""

from __future__ import annotations

import operator
import threading
import warnings
import weakref
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    PoolExhausted,
    SoftCudaError,
    SoftCudaWarning,
)
from softcuda.pool.buffers import ALIGNMENT

__all__ = ["BLOCK_BYTES", "Allocation", "Block", "BlockSource", "BumpPool", "Mark"]

BLOCK_BYTES: Final = 2 << 20  # the block_size of DEFAULT.soft

_CLOSED: Final = -1  # a room that no request fits, so that closing costs `allocate` nothing

Memory = TypeVar("Memory")


class Block(NamedTuple, Generic[Memory]):
    """A raw piece of memory: 256-byte aligned address, bytes, the object that owns it."""

    ptr: int
    nbytes: int
    memory: Memory


class BlockSource(Protocol[Memory]):
    """Where a pool takes its blocks from."""

    @property
    def name(self) -> str:
        """What kind of memory it is; the pool prints it."""

    def allocate(self, nbytes: int) -> Block[Memory]:
        """Return a block of `nbytes` bytes, 256-byte aligned; raise MemoryError when it cannot."""

    def free(self, block: Block[Memory]) -> None:
        """Give a block back."""

    def window(self, block: Block[Memory], offset: int, nbytes: int) -> Memory:
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


class _Own(NamedTuple, Generic[Memory]):
    """A block for one large request; `serial` counts them, so the oldest is reused first."""

    serial: int
    block: Block[Memory]


class BumpPool(Generic[Memory]):
    """A bump allocator: 256-byte aligned, O(1), deterministic, chained blocks.

    After `reset` the same sequence of requests gives the same addresses, as long as no block was
    released in between. What was handed out above a mark must not be used after the reset to it.
    Every method may be called from several threads; marks and resets among threads are theirs to
    order.
    """

    __slots__ = (
        "__weakref__",
        "_block",
        "_bytes_before",
        "_chain",
        "_current",
        "_finalizer",
        "_high_water",
        "_key",
        "_lock",
        "_offset",
        "_own_bytes",
        "_own_free",
        "_own_serial",
        "_own_used",
        "_room",
        "_source",
        "block_size",
        "capacity_bytes",
        "limit_bytes",
    )

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
        """
        if block_size < 1 or (limit_bytes is not None and limit_bytes < 0):
            raise ArgumentError(
                f"BumpPool({source.name}): block_size {block_size}, limit_bytes {limit_bytes}; "
                "allowed are a block_size of at least 1 and a limit_bytes of at least 0 or None"
            )
        self.block_size = _aligned(block_size)
        self.limit_bytes = limit_bytes
        self.capacity_bytes = 0
        self._source = source
        self._lock = threading.RLock()
        self._key = object()
        self._chain: list[Block[Memory]] = []
        self._bytes_before: list[int] = []  # bytes handed out before each block of the chain
        self._own_used: list[_Own[Memory]] = []
        self._own_free: list[_Own[Memory]] = []  # by serial
        self._own_serial = 0
        self._own_bytes = 0  # of the own blocks in use
        self._block: Block[Memory] | None = None
        self._current = -1
        self._offset = 0
        self._room = 0  # bytes of the current block
        self._high_water = 0
        self._finalizer = weakref.finalize(
            self, _free_at_exit, source, self._chain, self._own_used, self._own_free
        )

    def allocate(self, nbytes: int) -> Allocation[Memory]:
        """Return `nbytes` bytes of memory, uninitialised, in O(1).

        Args:
            nbytes: bytes; 0 takes nothing and gives the address of the top (0 in an empty pool).

        Raises:
            PoolExhausted: the limit or the source leaves no room; the pool is as before.
            ArgumentError: `nbytes` is negative.
            ArgumentTypeError: `nbytes` is no whole number.
            ClosedError: the pool is closed.
        """
        if type(nbytes) is not int:
            nbytes = _whole(nbytes)
        with self._lock:
            start = self._offset
            end = start + ((nbytes + ALIGNMENT - 1) & -ALIGNMENT)
            block = self._block
            if nbytes <= 0 or end > self._room or block is None:
                return self._allocate_elsewhere(nbytes)
            self._offset = end
            return Allocation(block.ptr + start, nbytes, self._source.window(block, start, nbytes))

    def _allocate_elsewhere(self, nbytes: int) -> Allocation[Memory]:
        """Serve what the current block cannot: the next block, a block of its own, an error."""
        self._check_open("allocate")
        if nbytes < 0:
            raise ArgumentError(
                f"{self!r}: allocate was asked for {nbytes} bytes; allowed is at least 0"
            )
        if nbytes == 0:
            return self._allocate_nothing()
        size = _aligned(nbytes)
        refusal: MemoryError | None = None
        for kept_is_released in (False, True):
            if kept_is_released and not self._release_unused():
                break
            try:
                if size <= self.block_size and self._advance():
                    return self.allocate(nbytes)
                own = self._own_block(size)
            except MemoryError as error:
                refusal = error
                continue
            if own is not None:
                window = self._source.window(own.block, 0, nbytes)
                return Allocation(own.block.ptr, nbytes, window)
        raise self._exhausted(nbytes, refusal) from refusal

    def _allocate_nothing(self) -> Allocation[Memory]:
        block = self._block
        if block is None:
            empty: Block[Any] = self._source.allocate(0)
            return Allocation(0, 0, empty.memory)
        return Allocation(block.ptr + self._offset, 0, self._source.window(block, self._offset, 0))

    def _advance(self) -> bool:
        """Make the next block of the chain the current one; False where the limit forbids it."""
        following = self._current + 1
        if following == len(self._chain):
            if not self._within_limit(self.block_size):
                return False
            self._chain.append(self._source.allocate(self.block_size))
            self._bytes_before.append(0)
            self.capacity_bytes += self.block_size
        before = self._chain_bytes
        self._bytes_before[following] = before
        self._set_top(following, 0)
        return True

    def _own_block(self, size: int) -> _Own[Memory] | None:
        """Take the oldest kept block of at least `size` bytes, or a new one within the limit."""
        for place, own in enumerate(self._own_free):
            if own.block.nbytes >= size:
                del self._own_free[place]
                break
        else:
            if not self._within_limit(size):
                return None
            own = _Own(self._own_serial, self._source.allocate(size))
            self._own_serial += 1
            self.capacity_bytes += size
        self._own_used.append(own)
        self._own_bytes += own.block.nbytes
        return own

    def _within_limit(self, more: int) -> bool:
        return self.limit_bytes is None or self.capacity_bytes + more <= self.limit_bytes

    def _set_top(self, current: int, offset: int) -> None:
        self._current = current
        self._offset = offset
        self._block = self._chain[current] if current >= 0 else None
        self._room = self._block.nbytes if self._block is not None else 0

    def mark(self) -> Mark:
        """Return the current top of the pool, to hand to `reset`.

        Raises:
            ClosedError: the pool is closed.
        """
        with self._lock:
            self._check_open("mark")
            return Mark(self._key, self._current, self._offset, len(self._own_used))

    def reset(self, mark: Mark | None = None) -> None:
        """Take back everything that was handed out after `mark`; the blocks are kept.

        Args:
            mark: what `mark` returned; None takes everything back.

        Raises:
            ArgumentError: the mark is of another pool, or above the top.
            ClosedError: the pool is closed.
        """
        with self._lock:
            self._check_open("reset")
            if mark is None:
                mark = Mark(self._key, -1, 0, 0)
            if mark.key is not self._key:
                raise ArgumentError(
                    f"{self!r}: reset was given a mark of another pool; allowed are marks that "
                    "mark() of this pool returned"
                )
            top = (self._current, self._offset)
            if (mark.block, mark.offset) > top or mark.own > len(self._own_used):
                raise ArgumentError(
                    f"{self!r}: reset to block {mark.block}, offset {mark.offset}, {mark.own} own "
                    f"blocks is above the top, which is at block {top[0]}, offset {top[1]}, "
                    f"{len(self._own_used)} own blocks; allowed are marks below it"
                )
            self._high_water = self.high_water_bytes
            self._set_top(mark.block, mark.offset)
            if len(self._own_used) > mark.own:
                taken_back = self._own_used[mark.own :]
                del self._own_used[mark.own :]
                self._own_bytes -= sum(own.block.nbytes for own in taken_back)
                self._own_free.extend(taken_back)
                self._own_free.sort(key=_serial)

    def release(self) -> int:
        """Free the blocks that nothing lies in; return how many bytes that gave back.

        Raises:
            ClosedError: the pool is closed.
        """
        with self._lock:
            self._check_open("release")
            return self._release_unused()

    def _release_unused(self) -> int:
        unused = self._chain[self._current + 1 :] + [own.block for own in self._own_free]
        del self._chain[self._current + 1 :]
        del self._bytes_before[self._current + 1 :]
        self._own_free.clear()
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
            self._high_water = self.high_water_bytes
            self._set_top(-1, 0)
            self._own_free.extend(self._own_used)
            self._own_used.clear()
            self._own_bytes = 0
            self._room = _CLOSED
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
        return self._room == _CLOSED

    @property
    def _chain_bytes(self) -> int:
        return self._bytes_before[self._current] + self._offset if self._current >= 0 else 0

    @property
    def used_bytes(self) -> int:
        """Bytes handed out, each request rounded up to a multiple of 256 or to its own block."""
        with self._lock:
            return self._chain_bytes + self._own_bytes

    @property
    def high_water_bytes(self) -> int:
        """The most that `used_bytes` ever was."""
        return max(self._high_water, self.used_bytes)

    @property
    def block_count(self) -> int:
        """Number of blocks held, in use or kept for reuse."""
        with self._lock:
            return len(self._chain) + len(self._own_used) + len(self._own_free)

    def __repr__(self) -> str:
        limit = "" if self.limit_bytes is None else f", limit {_readable(self.limit_bytes)}"
        state = ", closed" if self.is_closed else ""
        return (
            f"BumpPool({self._source.name}, {_readable(self.used_bytes)} used of "
            f"{_readable(self.capacity_bytes)} in {self.block_count} blocks{limit}, "
            f"high water {_readable(self.high_water_bytes)}{state})"
        )

    def _check_open(self, what: str) -> None:
        if self.is_closed:
            raise ClosedError(f"{self!r}: {what} was called after close(); make a new pool")

    def _exhausted(self, nbytes: int, refusal: MemoryError | None) -> PoolExhausted:
        inside = max(self._room - self._offset, 0)
        if self.limit_bytes is None:
            left = "no limit is set"
        else:
            beyond = (self.limit_bytes - self.capacity_bytes) // ALIGNMENT * ALIGNMENT
            left = (
                f"{_exactly(beyond)} left below the limit of {_exactly(self.limit_bytes)}, and "
                f"{_exactly(inside)} in the current block"
            )
        why = "" if refusal is None else f"; the source refused: {refusal}"
        return PoolExhausted(
            f"BumpPool({self._source.name}) exhausted: asked {_exactly(nbytes)}, {left}; "
            f"{_exactly(self.used_bytes)} are in use{why}; a request may be as large as what is "
            "left: reset(mark) what is no longer needed, or make the pool with a larger limit_bytes"
        )


def _serial(own: _Own[Any]) -> int:
    return own.serial


def _aligned(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) & -ALIGNMENT


def _whole(nbytes: object) -> int:
    try:
        return operator.index(nbytes)  # type: ignore[arg-type]
    except TypeError as error:
        raise ArgumentTypeError(
            f"allocate was asked for {nbytes!r} of type {type(nbytes).__name__}; allowed is a "
            "whole number of bytes"
        ) from error


def _readable(nbytes: int) -> str:
    """Return a byte count with a unit, such as 1.5 MiB."""
    amount = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{nbytes} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _exactly(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < 1024 else f"{_readable(nbytes)} ({nbytes} bytes)"


def _free_at_exit(
    source: BlockSource[Any],
    chain: list[Block[Any]],
    own_used: list[_Own[Any]],
    own_free: list[_Own[Any]],
) -> None:
    """Free the blocks of a pool that was dropped without close(); a failure is a warning."""
    try:
        for block in [*chain, *(own.block for own in (*own_used, *own_free))]:
            source.free(block)
    except SoftCudaError as error:
        warnings.warn(
            f"a dropped BumpPool({source.name}) could not free its blocks: {error}",
            SoftCudaWarning,
            stacklevel=1,
        )
