"""Out of memory on a device: idle memory makes room, else the error says who holds what."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import on_device

import softcuda as sc

COUNT = 1 << 20  # elements of 4 MiB
ONES = np.ones(COUNT, np.float32)
ROOM = 1 << 20


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def outputs_of(count: int) -> Any:
    """Return an executable of so many outputs of 4 MiB, made of x."""
    x = sc.input((COUNT,), name="x")
    made = [-x]
    while len(made) < count:
        made.append(made[-1] + x)
    return sc.compile(made, kernel_profile())


def chain() -> Any:
    """Return an executable with intermediates and one output of 4 MiB."""
    x = sc.input((COUNT,), name="x")
    return sc.compile(-(-(x + x) + x) + x, kernel_profile())


def leave(fake: FakeDriver, nbytes: int) -> None:
    """Let the device have so many bytes beside those that are taken."""
    gc.collect()
    fake.memory_bytes = fake.used_bytes() + nbytes


def test_idle_outputs_of_another_executable_make_room(fake: FakeDriver) -> None:
    other = outputs_of(6)
    other.run(x=ONES)
    leave(fake, ROOM)
    np.testing.assert_array_equal(chain().run(x=ONES).numpy(), 2 * ONES)
    fake.memory_bytes = 1 << 30
    assert [result.numpy()[0] for result in other.run(x=ONES)] == [-1, 0, 1, 2, 3, 4]


def test_an_idle_arena_makes_room(fake: FakeDriver) -> None:
    other = chain()
    np.testing.assert_array_equal(other.run(x=ONES).numpy(), 2 * ONES)
    leave(fake, ROOM)
    arena = other.program.arena_bytes("cuda")
    assert arena >= 8 << 20
    taken = on_device(np.ones(arena // 4, np.float32))
    assert taken.numpy()[-1] == 1
    del taken
    np.testing.assert_array_equal(other.run(x=ONES).numpy(), 2 * ONES)


def test_a_request_is_tried_once_more(fake: FakeDriver) -> None:
    executable = chain()
    fake.fail("cuMemAlloc_v2", 2)
    np.testing.assert_array_equal(executable.run(x=ONES).numpy(), 2 * ONES)


def test_the_error_says_who_holds_what(fake: FakeDriver) -> None:
    other = outputs_of(6)
    held = other.run(x=ONES)
    leave(fake, ROOM)
    executable = chain()
    tries = len(fake.calls)
    with pytest.raises(MemoryError) as caught:
        executable.run(x=ONES)
    text = str(caught.value)
    asked = [call for call in fake.calls[tries:] if call.name.startswith("cuMemAlloc")]
    assert 2 <= len(asked) <= 6, "asked once more, and no oftener"
    assert re.search(r"asked \d+\.\d MiB", text), text
    assert re.search(r"\d+\.\d (KiB|MiB) free|free \d+\.\d (KiB|MiB)", text), text
    for holder in ("arenas", "outputs"):
        assert re.search(rf"{holder}\D*\d+(\.\d)? (B|KiB|MiB)|\d+(\.\d)? \w+ .*{holder}", text), (
            text
        )
    largest = re.findall(r"(?:add|neg)[^,;]*4\.0 MiB", text)
    assert len(largest) == 3, text
    # Nothing is lost: neither what is held, nor what can still be run.
    assert [result.numpy()[0] for result in held] == [-1, 0, 1, 2, 3, 4]
    small = sc.compile(-sc.input((5,), name="x"), kernel_profile())
    assert small.run(x=np.arange(5.0, dtype=np.float32)).tolist() == [0, -1, -2, -3, -4]
    del held
    np.testing.assert_array_equal(executable.run(x=ONES).numpy(), 2 * ONES)


def test_what_is_too_large_for_the_device_alone(fake: FakeDriver) -> None:
    fake.memory_bytes = 8 << 20
    with pytest.raises(MemoryError, match=r"asked 16\.0 MiB.*MiB free"):
        on_device(np.ones(4 * COUNT, np.float32))
    assert on_device(ONES).numpy()[-1] == 1
