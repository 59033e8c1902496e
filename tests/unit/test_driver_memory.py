"""Memory, copies and fills over the fake driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver, checked

from softcuda.driver import copies
from softcuda.driver.context import Context
from softcuda.driver.copies import CopyEnd
from softcuda.driver.device import Device
from softcuda.driver.memory import DeviceMemory, PinnedMemory, PointerInfo, pointer_info
from softcuda.driver.stream import Stream
from softcuda.errors import (
    ArgumentError,
    DriverError,
)

Array = np.ndarray[Any, Any]


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    yield from checked()


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[Context]:
    with Context(Device(0, fake.driver())) as made:
        yield made


def at(array: Array) -> int:
    return array.ctypes.data


def test_memory_of_no_bytes(fake: FakeDriver, context: Context) -> None:
    with DeviceMemory(context, 0) as memory, PinnedMemory(context, 0) as pinned:
        assert memory.ptr == pinned.ptr == 0
        assert pinned.array().shape == (0,)
    for kind in (DeviceMemory, PinnedMemory):
        with pytest.raises(ArgumentError, match="of -1 bytes"):
            kind(context, -1)
    assert "cuMemAlloc_v2" not in fake.names()


def test_copies(fake: FakeDriver, context: Context) -> None:
    data = np.arange(64, dtype=np.uint8)
    with (
        Stream(context) as stream,
        DeviceMemory(context, 64) as a,
        DeviceMemory(context, 64, stream=stream) as b,
        PinnedMemory(context, 64, write_combined=True) as pinned,
    ):
        pinned.array()[:] = data
        copies.copy_to_device(context, a.ptr, at(data), 32)
        copies.copy_to_device_async(context, a.ptr + 32, pinned.ptr + 32, 32, stream=stream)
        copies.copy_on_device(context, b.ptr, a.ptr, 32)
        copies.copy_on_device_async(context, b.ptr + 32, a.ptr + 32, 16, stream=stream)
        copies.copy_to_peer_async(context, b.ptr + 48, context, a.ptr + 48, 16, stream=stream)
        back = np.zeros(64, np.uint8)
        copies.copy_to_host(context, at(back), b.ptr, 40)
        copies.copy_to_host_async(context, at(back) + 40, b.ptr + 40, 24, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(back, data)
        with pytest.raises(DriverError, match="cuMemcpyHtoD_v2 failed: CUDA_ERROR_INVALID_VALUE"):
            copies.copy_to_device(context, a.ptr, at(data), 65)
        assert pointer_info(a.ptr, context.driver) == PointerInfo(True, 0)
        assert pointer_info(at(data), context.driver) is None


def test_copies_of_nothing_call_nothing(fake: FakeDriver, context: Context) -> None:
    with Stream(context) as stream:
        fake.calls.clear()
        copies.copy_to_device(context, 0, 0, 0)
        copies.copy_to_host(context, 0, 0, 0)
        copies.copy_on_device(context, 0, 0, 0)
        copies.copy_to_device_async(context, 0, 0, 0, stream=stream)
        copies.copy_to_host_async(context, 0, 0, 0, stream=stream)
        copies.copy_on_device_async(context, 0, 0, 0, stream=stream)
        copies.copy_to_peer_async(context, 0, context, 0, 0, stream=stream)
        copies.copy_2d(context, CopyEnd(0), CopyEnd(0), 0, 4)
        copies.copy_2d_async(context, CopyEnd(0), CopyEnd(0), 4, 0, stream=stream)
        copies.fill(context, 0, 0, 0)
        copies.fill_async(context, 0, 0, 0, stream=stream)
        assert not fake.calls


def test_copies_of_rows(context: Context) -> None:
    table = np.arange(40, dtype=np.uint8).reshape(4, 10)
    with Stream(context) as stream, DeviceMemory(context, 64) as memory:
        host = CopyEnd(at(table) + 2, is_host=True, pitch_bytes=10)
        device = CopyEnd(memory.ptr, pitch_bytes=16)
        copies.copy_2d(context, device, host, 5, 4)
        back = np.zeros((4, 5), np.uint8)
        copies.copy_2d_async(context, CopyEnd(at(back), is_host=True), device, 5, 4, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(back, table[:, 2:7])
        with pytest.raises(ArgumentError, match="rows closer than that"):
            copies.copy_2d(context, CopyEnd(memory.ptr, pitch_bytes=4), host, 5, 4)


@pytest.mark.parametrize(("itemsize", "value"), [(1, 0xAB), (2, 0xBEEF), (4, 0xDEADBEEF)])
def test_fills(context: Context, itemsize: int, value: int) -> None:
    with Stream(context) as stream, DeviceMemory(context, 64) as memory:
        copies.fill(context, memory.ptr, value, 32 // itemsize, itemsize)
        copies.fill_async(context, memory.ptr + 32, value, 32 // itemsize, itemsize, stream=stream)
        back = np.zeros(64 // itemsize, f"u{itemsize}")
        copies.copy_to_host(context, at(back), memory.ptr, 64)
        assert set(back.tolist()) == {value}
        for wrong in (
            (memory.ptr, 1 << 8 * itemsize, 1, itemsize),
            (memory.ptr, -1, 1, itemsize),
            (memory.ptr, 0, 1, 8),
        ):
            with pytest.raises(ArgumentError, match="allowed are items of 1, 2 or 4"):
                copies.fill(context, *wrong)
    with pytest.raises(ArgumentError, match="multiple"):
        copies.fill(context, 1, 0, 1, 2)
