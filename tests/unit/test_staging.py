"""Staging over the fake driver: what arrives, and how much host memory is pinned for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_sessions import fake_sessions

from softcuda.driver.memory import DeviceMemory
from softcuda.executor import devices, staging
from softcuda.executor.devices import DeviceSession

KIB = 1 << 10


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_sessions(monkeypatch)


def pinned(fake: FakeDriver) -> list[int]:
    """Return the bytes of each block that was pinned so far."""
    return [call.arguments[1] for call in fake.calls if call.name == "cuMemHostAlloc"]


def round_trip(on: DeviceSession, array: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
    """Bring an array to the device and back, and compare."""
    memory = DeviceMemory(on.context, array.nbytes)
    back = np.zeros_like(array)
    on.upload(array, memory.ptr)
    on.download(memory.ptr, back)
    assert np.array_equal(back, array)


def numbers(nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)


def test_a_small_copy_pins_a_part_of_the_ring(fake: FakeDriver) -> None:
    on = devices.session()
    before = len(pinned(fake))
    round_trip(on, numbers(KIB))
    assert pinned(fake)[before:] == [staging.SLOT_BYTES * staging._SLOTS_AT_ONCE]
    assert pinned(fake)[-1] <= 512 * KIB


def test_the_ring_grows_to_its_end_and_begins_anew(fake: FakeDriver) -> None:
    on = devices.session()
    before = len(pinned(fake))
    for size in range(1, staging.SLOTS + 8):
        round_trip(on, numbers(size))
    assert sum(pinned(fake)[before:]) == staging.SLOTS * staging.SLOT_BYTES


def test_a_large_copy_pins_what_its_threads_use(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTCUDA_THREADS", "2")
    on = devices.session()
    before = len(pinned(fake))
    round_trip(on, numbers(200 * KIB))
    assert pinned(fake)[before:] == [staging.CHUNK_BYTES]
    round_trip(on, numbers(6 * staging.CHUNK_BYTES + 3))
    most = 2 * staging._EACH
    assert pinned(fake)[before:] == [staging.CHUNK_BYTES] * len(pinned(fake)[before:])
    assert 1 < len(pinned(fake)[before:]) <= most
