"""Arrays of other libraries that lie about themselves, and fetches larger than what is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from dlpack_capsules import LENT, Producer, counting
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import Described, Theirs

import softcuda as sc
from softcuda.errors import ArgumentTypeError, ExchangeError, PoolExhausted, SoftCudaError
from softcuda.executor import devices
from softcuda.executor.sharing import share
from softcuda.pool.buffers import aligned_empty
from softcuda.pool.device import DeviceArray

HUGE = np.broadcast_to(np.float32(1), (1 << 50,))  # 4 PiB: no address space holds it


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


# DLPack


def struct_with(**fields: Any) -> Callable[[], Producer]:
    """Return what makes a producer whose struct says something else in these fields."""

    def made() -> Producer:
        producer = Producer(counting(4))
        for name, value in fields.items():
            setattr(producer.managed.dl_tensor, name, value)
        return producer

    return made


STRUCTS = {
    "rank far above 64": struct_with(ndim=1 << 30),
    "rank 65": struct_with(ndim=65),
    "rank below 0": struct_with(ndim=-1),
    "no extents": struct_with(shape=None),
    "no memory": struct_with(data=None),
    "no memory, an offset": struct_with(data=None, byte_offset=8),
    "an offset around the address space": struct_with(byte_offset=(1 << 64) - 4),
    "strides below address 0": lambda: Producer(counting(4), strides=(-(1 << 58),)),
}


@pytest.mark.parametrize("make", STRUCTS.values(), ids=STRUCTS)
def test_a_struct_that_lies_is_refused(make: Callable[[], Producer]) -> None:
    x = sc.input((4,), name="x")
    executable = sc.compile(x + 1.0, "default")
    for take in (sc.from_dlpack, sc.asarray, sc.tensor, lambda value: executable.run(x=value)):
        with pytest.raises(SoftCudaError):
            take(make())
    LENT.clear()


def test_an_empty_array_may_have_any_offset() -> None:
    made = sc.from_dlpack(Producer(counting(4), dims=(0,), byte_offset=(1 << 64) - 4))
    assert made.shape == (0,)
    del made
    LENT.clear()


@pytest.mark.parametrize("place", [None, 5, (1,), ("a", "b"), (1, 0, 0), (1.5, 0)])
def test_a_place_that_is_no_pair_of_numbers(place: Any) -> None:
    producer = Producer(counting(4))
    producer.device = place
    for take in (sc.from_dlpack, sc.asarray, sc.tensor):
        with pytest.raises(ArgumentTypeError, match="does not say by DLPack where it lives"):
            take(producer)


@pytest.mark.parametrize("error", [OverflowError, AssertionError, KeyError, OSError])
def test_whatever_a_producer_raises_is_told(error: type[Exception]) -> None:
    class Raising(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            raise error("their own")

    for take in (sc.from_dlpack, sc.asarray, sc.tensor):
        with pytest.raises(ArgumentTypeError, match="their own"):
            take(Raising(counting(4)))


# The CUDA array interface

MALFORMED: dict[str, Any] = {
    "strides": [4, ("a",), (None,), (4.0,)],
    "stream": ["x", [1], 1.5, -5, 1 << 70],
    "data": [("abc", 0), ([1], 0), (1.5, False), (-8, False), (1 << 70, False)],
    "shape": [(float("inf"),), (2.7,), ("3",), 6],
    "version": [float("inf"), -1, "a"],
    "typestr": [None, 5],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field in MALFORMED for value in MALFORMED[field]]
)
def test_a_malformed_interface_is_refused(fake: FakeDriver, field: str, value: Any) -> None:
    theirs = Theirs(fake, counting(6))
    for take in (sc.asarray, sc.tensor):
        with pytest.raises((ArgumentTypeError, ExchangeError)):
            take(Described(theirs, **{field: value}))


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (7,)},
        {"shape": (1 << 20,)},
        {"strides": (8,)},
        {"strides": (-4,)},
        {"strides": (1 << 59,)},
        {"strides": (-(1 << 59),)},
    ],
)
def test_an_array_past_its_allocation_is_refused(fake: FakeDriver, fields: Any) -> None:
    """The whole span is looked at, not the first address alone."""
    theirs = Theirs(fake, counting(6))
    for take in (sc.asarray, sc.tensor):
        with pytest.raises(ExchangeError):
            take(Described(theirs, **fields))
    assert sc.asarray(Described(theirs)).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError])
def test_an_interface_that_raises(fake: FakeDriver, error: type[Exception]) -> None:
    class Raising:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise error("their own")

    for take in (sc.asarray, sc.tensor):
        with pytest.raises(ArgumentTypeError, match="their own"):
            take(Raising())


# Bools that are neither 0 nor 1


@pytest.mark.parametrize("by", ["dlpack", "interface"])
def test_bools_of_other_bytes_become_plain(fake: FakeDriver, by: str) -> None:
    """Kernels compare the bytes; a copy with ones is made, as on the host."""
    bytes_given = np.array([0, 1, 2, 255, 128, 0], np.uint8)
    x = sc.input((6,), sc.bool_, "x", device="cuda")
    executable = sc.compile(sc.permute_dims(x, (0,)), kernel_profile())

    def given() -> Any:
        theirs = Theirs(fake, bytes_given.view(np.bool_))
        return theirs if by == "dlpack" else Described(theirs)

    for take in (sc.asarray, sc.tensor, lambda value: executable.run(x=value)):
        made = take(given())
        assert made.numpy().view(np.uint8).tolist() == [0, 1, 1, 1, 1, 0]
    made = sc.asarray(given())
    assert isinstance(made.data, DeviceArray)
    on_device = np.empty(6, np.uint8)
    devices.session().download(made.data.ptr, on_device)
    assert on_device.tolist() == [0, 1, 1, 1, 1, 0]
    del made
    LENT.clear()


def test_plain_bools_are_shared(fake: FakeDriver) -> None:
    theirs = Theirs(fake, np.array([True, False, True]))
    made = sc.asarray(theirs)
    assert made.data.ptr == theirs.memory.ptr
    theirs.write(np.array([False, False, True]))
    assert made.tolist() == [False, False, True]
    del made
    LENT.clear()


def test_bools_that_need_a_copy_where_none_may_be(fake: FakeDriver) -> None:
    theirs = Theirs(fake, np.array([0, 7], np.uint8).view(np.bool_))
    with pytest.raises(ExchangeError, match="copy=False forbids it"):
        sc.from_dlpack(theirs, copy=False)
    LENT.clear()


def test_bools_that_will_be_written_are_shared_as_they_are(fake: FakeDriver) -> None:
    theirs = Theirs(fake, np.array([0, 7], np.uint8).view(np.bool_))
    array = share("test", Described(theirs), is_target=True)
    assert array.ptr == theirs.memory.ptr


# Fetching


def strided(dims: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> Any:
    """Return a device array [dims] on 8 MiB that hold 0, 1, 2, ... as f32, and its values.

    Strides and start are in elements.
    """
    on = devices.session()
    values = np.arange(1 << 21, dtype=np.float32)
    memory = on.ledger.memory(values.nbytes)
    on.upload(values, memory.ptr)
    steps = tuple(4 * stride for stride in strides)
    array = DeviceArray(
        memory.ptr + 4 * start, dims, steps, values.dtype, 0, memory, on.fetch, is_volatile=True
    )
    return array, np.lib.stride_tricks.as_strided(values[start:], dims, steps)


LAYOUTS = {
    "a column": ((2000,), (1000,), 0),
    "a column, backwards": ((2000,), (-1000,), 1_999_000),
    "columns of columns": ((20, 10, 30), (100_000, 7000, 200), 0),
    "two axes apart": ((30, 40), (60_000, 1000), 0),
    "one axis backwards": ((30, 2, 5), (60_000, -20_000, 3), 20_000),
    "repeated": ((30, 4, 2), (60_000, 0, 500), 0),
    "one element an axis": ((1, 30, 1), (5, 60_000, 7), 0),
}


@pytest.mark.parametrize(("dims", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_strided_array_is_fetched_in_parts(
    fake: FakeDriver,
    monkeypatch: pytest.MonkeyPatch,
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    start: int,
) -> None:
    """The host takes parts of bounded size, not all that the array spans."""
    monkeypatch.setattr(devices, "_PART_BYTES", 32 << 10)
    array, expected = strided(dims, strides, start)
    made: list[int] = []

    def counted(dims: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        buffer = aligned_empty(dims, dtype)
        made.append(buffer.nbytes)
        return buffer

    monkeypatch.setattr(devices, "aligned_empty", counted)
    np.testing.assert_array_equal(array.host(), expected)
    assert expected.nbytes < 32 << 10
    assert max(made) <= 32 << 10
    del array


# Host memory that runs out


def test_exhausted_host_memory_is_told() -> None:
    x = sc.input(HUGE.shape, sc.f32, "x")
    executable = sc.compile(sc.sum(x), "default")
    for take in (
        lambda: sc.tensor(HUGE),
        lambda: sc.variable(HUGE),
        lambda: sc.asarray(HUGE).__dlpack__(copy=True),
        lambda: executable.run(x=HUGE),
        lambda: sc.tensor(HUGE, dtype="f64"),
        lambda: sc.from_dlpack(HUGE, copy=True),
        lambda: np.array(sc.asarray(HUGE), copy=True),
    ):
        with pytest.raises(PoolExhausted, match="host memory exhausted"):
            take()
