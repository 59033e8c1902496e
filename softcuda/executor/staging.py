"""Staging: copies between pageable host arrays and a device, through pinned buffers.

Large arrays go in chunks, in any order: every thread has pinned buffers of its own, which it fills
or empties while the copy engine works on those of the others. Small ones go through a ring of
pinned slots.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.backends.host.workers import SHARED
from softcuda.driver.context import Context
from softcuda.driver.copies import copy_to_device_async, copy_to_host_async
from softcuda.driver.memory import PinnedMemory, pointer_info
from softcuda.driver.stream import Event, Stream
from softcuda.knobs import thread_count

__all__ = ["Staging"]

Array = np.ndarray[Any, Any]

CHUNK_BYTES: Final = 4 << 20  # what a thread fills or empties at a time
_EACH: Final = 2  # buffers of a thread: one is filled while the device takes the other
SLOT_BYTES: Final = 64 << 10
SLOTS: Final = 64
_THREADS: Final = 8  # 33 GB/s to an H200; 4 threads make 28
_DIRECT_BYTES: Final = 1 << 20  # from here on it pays to ask whether an array is pinned


class Staging:
    """The pinned buffers of one device and one stream; used by one thread at a time."""

    def __init__(self, context: Context, stream: Stream) -> None:
        self._context = context
        self._stream = stream
        self._ring: PinnedMemory | None = None
        self._ring_array: Array = np.empty(0, np.uint8)
        self._next = 0
        self._buffers: list[PinnedMemory] = []
        self._arrays: list[Array] = []
        self._events: list[Event] = []

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
            slot = self._slot(nbytes)
            copy_to_host_async(self._context, slot.ctypes.data, src, nbytes, stream=self._stream)
            self._stream.synchronize()
            target[...] = slot
        elif self._is_pinned(target):
            copy_to_host_async(self._context, target.ctypes.data, src, nbytes, stream=self._stream)
            self._stream.synchronize()
        else:
            self._download_large(src, target)

    def _is_pinned(self, flat: Array) -> bool:
        if flat.nbytes < _DIRECT_BYTES:
            return False
        return pointer_info(flat.ctypes.data, self._context.driver) is not None

    def _slot(self, nbytes: int) -> Array:
        """Return a pinned slot that no copy uses any more."""
        if self._ring is None:
            self._ring = PinnedMemory(self._context, SLOT_BYTES * SLOTS)
            self._ring_array = self._ring.array()
        if self._next == SLOTS:
            self._stream.synchronize()
            self._next = 0
        start = self._next * SLOT_BYTES
        self._next += 1
        return self._ring_array[start : start + nbytes]

    def _upload_small(self, source: Array, dst: int) -> None:
        if source.nbytes:
            slot = self._slot(source.nbytes)
            slot[...] = source
            copy_to_device_async(
                self._context, dst, slot.ctypes.data, source.nbytes, stream=self._stream
            )

    def _prepare(self) -> None:
        """Make the pinned buffers, each with the event of its last copy."""
        while len(self._buffers) < _THREADS * _EACH:
            memory = PinnedMemory(self._context, CHUNK_BYTES)
            self._buffers.append(memory)
            self._arrays.append(memory.array())
            self._events.append(self._stream.record(Event(self._context)))

    def _upload_large(self, source: Array, dst: int) -> None:
        """Copy in chunks: each thread fills a buffer of its own, then lets the device take it."""
        self._prepare()
        turns = [0] * _THREADS

        def chunk(worker: int, number: int) -> None:
            which = worker * _EACH + turns[worker]
            turns[worker] = (turns[worker] + 1) % _EACH
            start = number * CHUNK_BYTES
            stop = min(start + CHUNK_BYTES, source.nbytes)
            self._events[which].synchronize()
            np.copyto(self._arrays[which][: stop - start], source[start:stop])
            copy_to_device_async(
                self._context,
                dst + start,
                self._buffers[which].ptr,
                stop - start,
                stream=self._stream,
            )
            self._stream.record(self._events[which])

        SHARED.run(chunk, -(-source.nbytes // CHUNK_BYTES), min(_THREADS, thread_count()))

    def _download_large(self, src: int, target: Array) -> None:
        """Copy in chunks: each thread waits for a buffer of its own, then empties it."""
        self._prepare()

        def chunk(worker: int, number: int) -> None:
            which = worker * _EACH
            start = number * CHUNK_BYTES
            stop = min(start + CHUNK_BYTES, target.nbytes)
            copy_to_host_async(
                self._context,
                self._buffers[which].ptr,
                src + start,
                stop - start,
                stream=self._stream,
            )
            self._stream.record(self._events[which])
            self._events[which].synchronize()
            np.copyto(target[start:stop], self._arrays[which][: stop - start])

        SHARED.run(chunk, -(-target.nbytes // CHUNK_BYTES), min(_THREADS, thread_count()))
        self._stream.synchronize()
