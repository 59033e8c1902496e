"""The fake driver's memory, copies, streams and events; device memory is host memory."""

from __future__ import annotations

from ctypes import addressof, c_int, c_ubyte, c_uint64, memmove, memset
from typing import Any

from fake_driver_graphs import FakeGraphs

INVALID_VALUE, OUT_OF_MEMORY, NOT_READY = 1, 2, 600
HOST = 1


class FakeMemory(FakeGraphs):
    """Memory that is checked: a copy outside a live block is an invalid value."""

    live: dict[int, str]

    def __init__(self) -> None:
        super().__init__()
        self.memory_bytes = 1 << 30
        self.blocks: dict[int, tuple[Any, int]] = {}
        self.peers: set[tuple[int, int]] = set()
        self.recorded: dict[int, float] = {}
        self.capturing: dict[int, int] = {}  # stream -> graph
        self.pending: set[int] = set()  # streams and events that are not done
        self.clock = 0.0

    # Allocation

    def used_bytes(self) -> int:
        """Return the bytes of all live device blocks."""
        return sum(size for at, (_, size) in self.blocks.items() if self.live[at] == "device")

    def _allocate(self, kind: str, nbytes: int) -> int:
        buffer = (c_ubyte * (nbytes + 512))()
        address = addressof(buffer) + -addressof(buffer) % 512
        self.blocks[address] = (buffer, nbytes)
        self.live[address] = kind
        return address

    def _release(self, address: int | None, kind: str) -> int:
        code = self.drop(address, kind)
        if code == 0:
            del self.blocks[address or 0]
        return code

    def holds(self, address: int, nbytes: int) -> bool:
        """Return whether a range lies inside one live block."""
        return any(a <= address and address + nbytes <= a + n for a, (_, n) in self.blocks.items())

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> None:
        free[0], total[0] = self.memory_bytes - self.used_bytes(), self.memory_bytes

    def cuMemAlloc_v2(self, out: Any, nbytes: int) -> int:
        if nbytes == 0:
            return INVALID_VALUE
        if nbytes > self.memory_bytes - self.used_bytes():
            return OUT_OF_MEMORY
        out[0] = self._allocate("device", nbytes)
        return 0

    def cuMemFree_v2(self, address: int) -> int:
        return self._release(address, "device")

    def cuMemAllocAsync(self, out: Any, nbytes: int, stream: int) -> int:
        return self.cuMemAlloc_v2(out, nbytes) if stream in self.live else INVALID_VALUE

    def cuMemFreeAsync(self, address: int, stream: int) -> int:
        return self.cuMemFree_v2(address) if stream in self.live else INVALID_VALUE

    def cuMemHostAlloc(self, out: Any, nbytes: int, flags: int) -> None:
        out[0] = self._allocate("pinned", nbytes)

    def cuMemFreeHost(self, address: int) -> int:
        return self._release(address, "pinned")

    def cuPointerGetAttribute(self, out: int, attribute: int, address: int) -> int:
        if not self.holds(address, 1):
            return INVALID_VALUE
        start = next(a for a, (_, n) in self.blocks.items() if a <= address < a + n)
        if attribute in (11, 12):
            answer = start if attribute == 11 else self.blocks[start][1]
            c_uint64.from_address(out).value = answer
        else:
            c_int.from_address(out).value = {2: 2, 10: 1}.get(attribute, 0)
        return 0

    # Copies and fills

    def move(self, dst: int, src: int, nbytes: int, on_device: tuple[int, ...]) -> int:
        """Copy bytes; the addresses of `on_device` must lie in live blocks."""
        if not all(self.holds(address, nbytes) for address in on_device):
            return INVALID_VALUE
        memmove(dst, src, nbytes)
        return 0

    def cuMemcpyHtoD_v2(self, dst: int, src: int, nbytes: int) -> int:
        return self.move(dst, src, nbytes, (dst,))

    def cuMemcpyDtoH_v2(self, dst: int, src: int, nbytes: int) -> int:
        return self.move(dst, src, nbytes, (src,))

    def cuMemcpyDtoD_v2(self, dst: int, src: int, nbytes: int) -> int:
        return self.move(dst, src, nbytes, (dst, src))

    def cuMemcpyHtoDAsync_v2(self, dst: int, src: int, nbytes: int, stream: int) -> int:
        if self.record(stream, "copy", dst, src, nbytes):
            return 0
        return self.move(dst, src, nbytes, (dst,))

    def cuMemcpyDtoHAsync_v2(self, dst: int, src: int, nbytes: int, stream: int) -> int:
        if self.record(stream, "copy", dst, src, nbytes):
            return 0
        return self.move(dst, src, nbytes, (src,))

    def cuMemcpyDtoDAsync_v2(self, dst: int, src: int, nbytes: int, stream: int) -> int:
        if self.record(stream, "copy", dst, src, nbytes):
            return 0
        return self.move(dst, src, nbytes, (dst, src))

    def cuMemcpyPeerAsync(
        self, dst: int, to: int, src: int, at: int, nbytes: int, stream: int
    ) -> int:
        return self.move(dst, src, nbytes, (dst, src))

    def rows(self, copy: Any) -> int:
        """Do a 2-D or a flat 3-D copy."""
        src = copy.srcHost if copy.srcMemoryType == HOST else copy.srcDevice
        dst = copy.dstHost if copy.dstMemoryType == HOST else copy.dstDevice
        if copy.srcPitch < copy.WidthInBytes or copy.dstPitch < copy.WidthInBytes:
            return INVALID_VALUE
        on_device = []
        for row in range(copy.Height):
            ends = (dst + row * copy.dstPitch, src + row * copy.srcPitch)
            kinds = (copy.dstMemoryType, copy.srcMemoryType)
            on_device = [e for e, kind in zip(ends, kinds, strict=True) if kind != HOST]
            code = self.move(*ends, copy.WidthInBytes, tuple(on_device))
            if code:
                return code
        return 0

    def cuMemcpy2DUnaligned_v2(self, copy: Any) -> int:
        return self.rows(copy.contents)

    def cuMemcpy2DAsync_v2(self, copy: Any, stream: int) -> int:
        return self.rows(copy.contents)

    def set_items(self, dst: int, value: int, count: int, itemsize: int) -> int:
        """Fill memory with items."""
        if not self.holds(dst, count * itemsize):
            return INVALID_VALUE
        if itemsize == 1:
            memset(dst, value, count)
        else:
            memmove(dst, value.to_bytes(itemsize, "little") * count, count * itemsize)
        return 0

    def cuMemsetD8_v2(self, dst: int, value: int, count: int) -> int:
        return self.set_items(dst, value, count, 1)

    def cuMemsetD16_v2(self, dst: int, value: int, count: int) -> int:
        return self.set_items(dst, value, count, 2)

    def cuMemsetD32_v2(self, dst: int, value: int, count: int) -> int:
        return self.set_items(dst, value, count, 4)

    def cuMemsetD8Async(self, dst: int, value: int, count: int, stream: int) -> int:
        return self.set_items(dst, value, count, 1)

    def cuMemsetD16Async(self, dst: int, value: int, count: int, stream: int) -> int:
        return self.set_items(dst, value, count, 2)

    def cuMemsetD32Async(self, dst: int, value: int, count: int, stream: int) -> int:
        return self.set_items(dst, value, count, 4)

    # Streams and events

    def cuStreamCreateWithPriority(self, out: Any, flags: int, priority: int) -> None:
        out[0] = self.make("stream")

    def cuStreamDestroy_v2(self, stream: int) -> int:
        return self.drop(stream, "stream")

    def cuStreamGetPriority(self, stream: int, out: Any) -> None:
        out[0] = -1

    def cuStreamSynchronize(self, stream: int) -> int:
        return 900 if stream in self.capturing else 0

    def cuStreamQuery(self, stream: int) -> int:
        return NOT_READY if stream in self.pending else 0

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> int:
        return 0 if event in self.live else INVALID_VALUE

    def cuStreamIsCapturing(self, stream: int, out: Any) -> None:
        out[0] = int(stream in self.capturing)

    def cuEventCreate(self, out: Any, flags: int) -> None:
        out[0] = self.make("event")

    def cuEventDestroy_v2(self, event: int) -> int:
        return self.drop(event, "event")

    def cuEventRecord(self, event: int, stream: int) -> None:
        self.clock += 1.5
        self.recorded[event] = self.clock

    def cuEventQuery(self, event: int) -> int:
        return NOT_READY if event in self.pending else 0

    def cuEventSynchronize(self, event: int) -> None:
        """Everything is done already."""

    def cuEventElapsedTime(self, out: Any, start: int, end: int) -> int:
        if start not in self.recorded or end not in self.recorded:
            return 400
        out[0] = self.recorded[end] - self.recorded[start]
        return 0
