"""Staging: copies between pageable host arrays and a device, through pinned buffers.

Large arrays go in chunks, in any order: every thread has pinned buffers of its own, which it fills
or empties while the copy engine works on those of the others. Small ones go through a ring of
pinned slots.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.workers import SHARED
from softcuda.driver.context import Context
from softcuda.driver.copies import copy_to_device_async, copy_to_host_async
from softcuda.driver.memory import PinnedMemory, pointer_info
from softcuda.driver.stream import Event, Stream
from softcuda.knobs import thread_count

__all__ = ["SLOT_BYTES", "PinnedSlot", "Staging"]

Array = np.ndarray[Any, Any]

CHUNK_BYTES: Final = 4 << 20  # what a thread fills or empties at a time
_EACH: Final = 2  # buffers of a thread: one is filled while the device takes the other
SLOT_BYTES: Final = 64 << 10
SLOTS: Final = 64
_SLOTS_AT_ONCE: Final = 8  # pinning takes time: the ring grows as far as copies are under way
_THREADS: Final = 8  # 33 GB/s to an H200; 4 threads make 28
_DIRECT_BYTES: Final = 1 << 20  # from here on it pays to ask whether an array is pinned


class PinnedSlot(NamedTuple):
    """Pinned memory of SLOT_BYTES: its address, and its bytes as an array."""

    ptr: int
    memory: Array


class _Buffer(NamedTuple):
    """Pinned memory of CHUNK_BYTES, and the event of the last copy that used it."""

    ptr: int
    memory: Array
    event: Event


def _slots(part: PinnedMemory) -> list[PinnedSlot]:
    memory = part.array()  # holds that part of the ring
    starts = range(0, part.nbytes, SLOT_BYTES)
    return [PinnedSlot(part.ptr + at, memory[at : at + SLOT_BYTES]) for at in starts]


class Staging:
    """The pinned buffers of one device and one stream; used by one thread at a time."""

    def __init__(self, context: Context, stream: Stream) -> None:
        self._context = context
        self._stream = stream
        self._ring: list[PinnedSlot] = []
        self._next = 0
        self._buffers: dict[int, _Buffer] = {}

    def upload(self, array: Array, dst: int) -> None:
        """Copy an array to the device, in the order of the stream; `array` is free afterwards."""
        source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        nbytes = source.nbytes
        if nbytes <= SLOT_BYTES:
            self._upload_small(source, dst)
        elif self._is_pinned(source):
            copy_to_device_async(
                self._context, dst, source.ctypes.data, nbytes, stream=self._stream
            )
            self._stream.synchronize()
        else:
            self._upload_large(source, dst)

    def download(self, src: int, array: Array) -> None:
        """Copy from the device into a contiguous array; returns when it is there."""
        target = array.reshape(-1).view(np.uint8)
        nbytes = target.nbytes
        if not nbytes:
            self._stream.synchronize()
        elif nbytes <= SLOT_BYTES:
            slot = self.slot()
            copy_to_host_async(self._context, slot.ptr, src, nbytes, stream=self._stream)
            self._stream.synchronize()
            target[...] = slot.memory[:nbytes]
        elif self._is_pinned(target):
            copy_to_host_async(self._context, target.ctypes.data, src, nbytes, stream=self._stream)
            self._stream.synchronize()
        else:
            self._download_large(src, target)

    def _is_pinned(self, flat: Array) -> bool:
        if flat.nbytes < _DIRECT_BYTES:
            return False
        return pointer_info(flat.ctypes.data, self._context.driver) is not None

    def slot(self) -> PinnedSlot:
        """Return a pinned slot that no copy uses any more.

        It is the caller's until 63 more have been given out.
        """
        if self._next == SLOTS:
            self._stream.synchronize()
            self._next = 0
        if self._next == len(self._ring):
            self._ring += _slots(PinnedMemory(self._context, SLOT_BYTES * _SLOTS_AT_ONCE))
        self._next += 1
        return self._ring[self._next - 1]

    def reserve(self, count: int) -> None:
        """See to it that the next `count` slots are given out without reusing one of them.

        Args:
            count: 1 to SLOTS.
        """
        if self._next + count > SLOTS:
            self._stream.synchronize()
            self._next = 0

    def _upload_small(self, source: Array, dst: int) -> None:
        if source.nbytes:
            slot = self.slot()
            slot.memory[: source.nbytes] = source
            copy_to_device_async(self._context, dst, slot.ptr, source.nbytes, stream=self._stream)

    def _buffer(self, which: int) -> _Buffer:
        """Return a pinned buffer of the calling thread, made when it is first needed."""
        known = self._buffers.get(which)
        if known is None:
            memory = PinnedMemory(self._context, CHUNK_BYTES)
            known = _Buffer(memory.ptr, memory.array(), Event(self._context))
            self._buffers[which] = known
        return known

    def _upload_large(self, source: Array, dst: int) -> None:
        """Copy in chunks: each thread fills a buffer of its own, then lets the device take it."""
        turns = [0] * _THREADS

        def chunk(worker: int, number: int) -> None:
            buffer = self._buffer(worker * _EACH + turns[worker])
            turns[worker] = (turns[worker] + 1) % _EACH
            start = number * CHUNK_BYTES
            stop = min(start + CHUNK_BYTES, source.nbytes)
            buffer.event.synchronize()
            np.copyto(buffer.memory[: stop - start], source[start:stop])
            copy_to_device_async(
                self._context, dst + start, buffer.ptr, stop - start, stream=self._stream
            )
            self._stream.record(buffer.event)

        SHARED.run(chunk, -(-source.nbytes // CHUNK_BYTES), min(_THREADS, thread_count()))

    def _download_large(self, src: int, target: Array) -> None:
        """Copy in chunks: each thread waits for a buffer of its own, then empties it."""

        def chunk(worker: int, number: int) -> None:
            buffer = self._buffer(worker * _EACH)
            start = number * CHUNK_BYTES
            stop = min(start + CHUNK_BYTES, target.nbytes)
            copy_to_host_async(
                self._context, buffer.ptr, src + start, stop - start, stream=self._stream
            )
            self._stream.record(buffer.event)
            buffer.event.synchronize()
            np.copyto(target[start:stop], buffer.memory[: stop - start])

        SHARED.run(chunk, -(-target.nbytes // CHUNK_BYTES), min(_THREADS, thread_count()))
        self._stream.synchronize()
