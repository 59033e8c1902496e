"""Arrays in CUDA memory taken from and given to other libraries, over the fake driver."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dlpack_capsules import counting
from fake_driver import FakeDriver
from fake_sessions import CUDA, Described, Theirs, fake_sessions, on_device

import softcuda as sc
from softcuda import errors
from softcuda.executor import devices
from softcuda.interop.capsules import taken
from softcuda.pool.device import DeviceArray


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_sessions(monkeypatch)


# From other libraries


@pytest.mark.parametrize("take", [sc.from_dlpack, sc.asarray])
def test_device_memory_is_shared(fake: FakeDriver, take: Any) -> None:
    theirs = Theirs(fake, counting(6).reshape(2, 3))
    tensor = take(theirs)
    assert isinstance(tensor.data, DeviceArray)
    assert tensor.data.ptr == theirs.memory.ptr
    assert str(tensor.device) == "cuda:0"
    assert theirs.producer.streams == [devices.session().stream.handle]
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    theirs.write(np.ones((2, 3), np.float32))
    assert tensor.tolist() == [[1, 1, 1], [1, 1, 1]]
    waited = len(fake.calls)
    assert theirs.producer.deleted == 0
    del tensor
    gc.collect()
    assert theirs.producer.deleted == 1
    assert "cuStreamQuery" in [call.name for call in fake.calls[waited:]]


def test_a_busy_stream_is_waited_for_before_memory_is_given_back(fake: FakeDriver) -> None:
    theirs = Theirs(fake, counting(3))
    tensor = sc.from_dlpack(theirs)
    fake.pending.add(devices.session().stream.handle)
    before = len(fake.calls)
    del tensor
    gc.collect()
    names = [call.name for call in fake.calls[before:] if call.name.startswith("cuStream")]
    assert names == ["cuStreamQuery", "cuStreamSynchronize"]
    assert theirs.producer.deleted == 1


def test_tensor_copies_on_the_device(fake: FakeDriver) -> None:
    theirs = Theirs(fake, counting(6).reshape(2, 3), strides=(1, 2))
    before = len(fake.calls)
    tensor = sc.tensor(theirs)
    names = {call.name for call in fake.calls[before:]}
    assert "cuMemcpyDtoDAsync_v2" in names
    assert not names & {"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2"}
    assert theirs.producer.deleted == 1
    theirs.write(np.zeros((2, 3), np.float32))
    assert tensor.tolist() == [[0, 2, 4], [1, 3, 5]]
    wider = sc.tensor(Theirs(fake, counting(3)), sc.f64)
    assert (wider.dtype, wider.tolist()) == (sc.f64, [0, 1, 2])


@pytest.mark.parametrize(
    ("dims", "strides", "offset"),
    [
        ((3, 4), (4, -1), 12),
        ((4, 1), (10, 1), 0),
        ((4, 2), (10, 1), 8),
        ((2, 2, 2), (20, 10, 1), 0),
        ((2, 2, 2), (20, 6, 2), 0),
        ((3, 5), (0, 1), 0),
        ((0, 5), (7, 9), 0),
        ((), (), 4),
    ],
)
def test_any_strides(
    fake: FakeDriver, dims: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    base = counting(60)
    expected = np.ndarray(dims, np.float32, base, offset, [4 * s for s in strides])
    for take in (sc.tensor, sc.asarray):
        theirs = Theirs(fake, base, dims=dims, strides=strides, byte_offset=offset)
        np.testing.assert_array_equal(take(theirs).numpy(), expected, strict=True)


def test_operands_and_feeds(fake: FakeDriver) -> None:
    ones = sc.ones((3,))
    assert (ones + Theirs(fake, counting(3))).tolist() == [1, 2, 3]
    assert sc.add(Theirs(fake, counting(3)), 2).tolist() == [2, 3, 4]
    executable = sc.compile(sc.input((3,), name="x") + 1, "default")
    theirs = Theirs(fake, counting(3))
    assert executable.run(x=theirs).tolist() == [1, 2, 3]
    gc.collect()
    assert theirs.producer.deleted == 1
    with pytest.raises(errors.FeedError, match=r"x.*shape \[4\]"):
        executable.run(x=Theirs(fake, counting(4)))
    with pytest.raises(errors.FeedError, match="dtype float64"):
        executable.run(x=Theirs(fake, counting(3).astype(np.float64)))
    with pytest.raises(errors.FeedError, match=r"input 'x' cannot be read.*was taken before"):
        executable.run(x=theirs)


def test_refused_device_arrays(fake: FakeDriver) -> None:
    second = Theirs(fake, counting(3))
    second.__dlpack_device__ = lambda: (2, 1)
    with pytest.raises(errors.ArgumentTypeError, match=r"type 2, index 1.*device 0"):
        sc.asarray(second)
    with pytest.raises(errors.DTypeError, match=r"uint8.*convert it to int32"):
        sc.asarray(Theirs(fake, np.zeros(3, np.uint8)))
    with pytest.raises(errors.ExchangeError, match="no multiple of the 4 bytes"):
        sc.asarray(Theirs(fake, counting(8), dims=(2,), byte_offset=2))
    with pytest.raises(errors.ExchangeError, match=r"copy to cpu.*copy=False"):
        sc.from_dlpack(Theirs(fake, counting(3)), device="cpu", copy=False)
    assert sc.from_dlpack(Theirs(fake, counting(3)), device="cpu").data.tolist() == [0, 1, 2]


# The CUDA array interface


def test_the_interface_names_the_stream_to_wait_for(fake: FakeDriver) -> None:
    theirs = Theirs(fake, counting(3))
    for fields, expected in (
        ({"stream": 2}, [2]),
        ({"stream": None}, []),
        ({"version": 2}, [1]),
        ({}, []),
    ):
        before = len(fake.calls)
        tensor = sc.asarray(Described(theirs, **fields))
        assert tensor.tolist() == [0, 1, 2]
        recorded = [c.arguments[1] for c in fake.calls[before:] if c.name == "cuEventRecord"]
        assert recorded[: len(expected)] == expected
    flipped = Described(theirs, data=(theirs.memory.ptr + 8, True), strides=(-4,))
    assert sc.tensor(flipped).tolist() == [2, 1, 0]
    empty = Described(theirs, shape=(0, 3), data=(0, False))
    assert sc.asarray(empty).shape == (0, 3)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"mask": 1}, errors.ExchangeError, "has a mask"),
        ({"stream": 0}, errors.ExchangeError, "stream 0, which is ambiguous"),
        ({"typestr": "<M8[s]"}, errors.DTypeError, r"'<M8\[s\]'"),
        ({"typestr": "<V2"}, errors.DTypeError, "bfloat16 goes by DLPack"),
        ({"strides": (2,)}, errors.ExchangeError, "divide elements of 4"),
        ({"strides": (4, 4)}, errors.ShapeError, "2 strides were given for 1"),
        ({"shape": None}, errors.ArgumentTypeError, "cannot be read"),
        ({"data": (64, False)}, errors.ExchangeError, "no CUDA memory"),
    ],
)
def test_refused_interfaces(
    fake: FakeDriver, fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        sc.asarray(Described(Theirs(fake, counting(3)), **fields))


def test_the_interface_of_a_tensor(fake: FakeDriver) -> None:
    tensor = on_device(counting(6).reshape(2, 3))
    fields = tensor.__cuda_array_interface__
    assert fields["shape"] == (2, 3)
    assert fields["strides"] == (12, 4)
    assert fields["typestr"] == "<f4"
    assert fields["data"] == (tensor.data.ptr, False)
    assert fields["stream"] == devices.session().stream.handle
    again = sc.asarray(Described(Theirs(fake, counting(1)), **fields))
    assert again.data.ptr == tensor.data.ptr
    assert not hasattr(on_device(np.ones(2, ml_dtypes.bfloat16)), "__cuda_array_interface__")
    assert not hasattr(sc.ones((2,)), "__cuda_array_interface__")


# To other libraries


@pytest.mark.parametrize("dtype", ["bool", "i32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_exports(fake: FakeDriver, dtype: str, version: Any) -> None:
    array = np.array([[1, 0, 1]]).astype(sc.dtype.as_dtype(dtype).numpy)
    tensor = on_device(array)
    assert tensor.__dlpack_device__() == CUDA
    block = taken("test", tensor.__dlpack__(max_version=version))
    assert (block.device, block.ordinal) == CUDA
    assert block.dtype == array.dtype
    assert (block.ptr, block.dims, block.strides) == (tensor.data.ptr, (1, 3), (3, 1))
    assert block.is_read_only is (version is not None)
    address, tensor = block.ptr, None
    gc.collect()
    assert fake.holds(address, array.nbytes)
    del block
    gc.collect()
    assert not fake.holds(address, array.nbytes)


def test_the_consumers_stream_waits(fake: FakeDriver) -> None:
    tensor = on_device(counting(3))
    own = devices.session().stream.handle
    for stream, waiting in ((None, [1]), (1, [1]), (2, [2]), (4096, [4096]), (-1, []), (own, [])):
        before = len(fake.calls)
        tensor.__dlpack__(stream=stream)
        calls = fake.calls[before:]
        assert [c.arguments[0] for c in calls if c.name == "cuStreamWaitEvent"] == waiting
        assert all(c.arguments[1] == own for c in calls if c.name == "cuEventRecord")
    for wrong in (0, -2, True, "1"):
        with pytest.raises(errors.ExchangeError, match="allowed are None and 1"):
            tensor.__dlpack__(stream=wrong)


def test_dropped_exports_leave_nothing(fake: FakeDriver) -> None:
    tensor = on_device(counting(3))
    used = fake.used_bytes()
    for number in range(300):
        tensor.__dlpack__(max_version=(1, 0) if number % 2 else None)
        assert sc.from_dlpack(tensor).data.ptr == tensor.data.ptr
    gc.collect()
    assert fake.used_bytes() == used


def test_a_copy_for_the_host(fake: FakeDriver) -> None:
    tensor = on_device(counting(3))
    block = taken("test", tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert (block.device, block.is_read_only) == (1, False)
    with pytest.raises(errors.ExchangeError, match="copy=False"):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    own = taken("test", tensor.__dlpack__(copy=True, max_version=(1, 0)))
    assert own.ptr != tensor.data.ptr
    assert own.device == 2
    assert not own.is_read_only


def test_the_current_context_stays(fake: FakeDriver) -> None:
    other = 0xFFFF
    fake._thread.stack.append(other)
    try:
        tensor = sc.from_dlpack(Theirs(fake, counting(3)))
        tensor.__dlpack__()
        tensor.tolist()
        assert fake.current == other
        assert fake._thread.stack == [other]
    finally:
        fake._thread.stack.pop()


def test_a_refused_capsule_leaves_the_consumers_error(fake: FakeDriver) -> None:
    """NumPy drops the capsule amid its own error, which must come through."""
    tensor = on_device(counting(3))
    with pytest.raises((BufferError, RuntimeError), match="device"):
        np.from_dlpack(tensor)
    assert np.from_dlpack(tensor, device="cpu").tolist() == [0, 1, 2]
