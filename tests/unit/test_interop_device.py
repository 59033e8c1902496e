"""Arrays in CUDA memory shared with other libraries, over the fake driver."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dlpack_capsules import LENT, Producer, counting
from fake_driver import FakeDriver, checked

import softcuda as sc
from softcuda import errors, running
from softcuda.driver.context import Context
from softcuda.driver.device import Device, available
from softcuda.driver.memory import DeviceMemory
from softcuda.executor import devices
from softcuda.executor.feeds import conform
from softcuda.interop.capsules import taken
from softcuda.pool.device import DeviceArray

CUDA = (2, 0)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Yield a fake driver that every session of the test runs on."""
    running.clear_cache()
    for made in checked():
        driver = made.driver()
        monkeypatch.setattr(devices, "Device", partial(Device, driver=driver))
        monkeypatch.setattr(devices, "available", partial(available, driver))
        sessions = devices._Sessions()
        monkeypatch.setattr(devices, "_SESSIONS", sessions)
        yield made
        running.clear_cache()
        sessions._by_ordinal.clear()
        LENT.clear()
        del sessions, driver


class Theirs:
    """An array of another library in device memory, with both protocols."""

    def __init__(self, fake: FakeDriver, array: Any, **options: Any) -> None:
        self.context = Context(Device(0, fake.driver()))
        self.memory = DeviceMemory(self.context, max(array.nbytes, 1))
        ctypes.memmove(self.memory.ptr, array.ctypes.data, array.nbytes)
        self.array = array
        self.producer = Producer(array, device=CUDA, ptr=self.memory.ptr, **options)
        self.producer.holder = self
        self.__dlpack__ = self.producer.__dlpack__
        self.__dlpack_device__ = self.producer.__dlpack_device__

    def write(self, array: Any) -> None:
        ctypes.memmove(self.memory.ptr, array.ctypes.data, array.nbytes)


class Described:
    """An object with the CUDA array interface alone."""

    def __init__(self, theirs: Theirs, **fields: Any) -> None:
        self.theirs = theirs
        self.__cuda_array_interface__ = {
            "shape": theirs.array.shape,
            "typestr": theirs.array.dtype.str,
            "data": (theirs.memory.ptr, False),
            "version": 3,
            **fields,
        }


def on_device(values: Any, **options: Any) -> Any:
    """Return a tensor whose data the fake device holds."""
    return sc.from_dlpack(np.asarray(values), device="cuda", **options)


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
    with pytest.raises(errors.FeedError, match="input 'x' cannot be read.*was taken before"):
        executable.run(x=theirs)


def test_refused_device_arrays(fake: FakeDriver) -> None:
    second = Theirs(fake, counting(3))
    second.__dlpack_device__ = lambda: (2, 1)  # type: ignore[method-assign]
    with pytest.raises(errors.ArgumentTypeError, match=r"type 2, index 1.*device 0"):
        sc.asarray(second)
    with pytest.raises(errors.DTypeError, match="uint8.*convert it to int32"):
        sc.asarray(Theirs(fake, np.zeros(3, np.uint8)))
    with pytest.raises(errors.ExchangeError, match="no multiple of the 4 bytes"):
        sc.asarray(Theirs(fake, counting(8), dims=(2,), byte_offset=2))
    with pytest.raises(errors.ExchangeError, match="copy to cpu.*copy=False"):
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
        ({"typestr": "<c8"}, errors.DTypeError, "'<c8'"),
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


# Variables and inputs on the device


def test_a_variable_on_the_device(fake: FakeDriver) -> None:
    state = sc.variable([1.0, 2.0, 3.0], "state", device="cuda")
    buffer = state.data.ptr
    assert str(state.device) == "cuda:0"
    doubled = sc.compile(state * 2, "default")
    assert doubled.run().tolist() == [2, 4, 6]
    state.assign([4, 5, 6])
    assert state.tolist() == [4, 5, 6]
    state.assign(Theirs(fake, counting(3)))
    state.assign(state)
    assert doubled.run().tolist() == [0, 2, 4]
    state.assign(sc.tensor(counting(3)) + 1)
    assert state.data.ptr == buffer
    assert state.numpy().tolist() == [1, 2, 3]
    with pytest.raises(errors.ShapeError, match="state"):
        state.assign(Theirs(fake, counting(2)))
    host = sc.variable([0.0, 0.0, 0.0])
    host.assign(Theirs(fake, counting(3)))
    assert host.tolist() == [0, 1, 2]
    assert "1., 2., 3." in repr(state)


def test_updates_write_the_device_buffer(fake: FakeDriver) -> None:
    state = sc.variable(Theirs(fake, counting(3)), device="cuda")
    step = sc.compile(state + 0, "default", updates={state: state + 1})
    for count in range(3):
        assert step.run().tolist() == [count, 1 + count, 2 + count]
    assert state.tolist() == [3, 4, 5]
    loaded = pickle.loads(pickle.dumps(step))
    assert loaded.run().tolist() == [3, 4, 5]
    assert loaded.run().tolist() == [4, 5, 6]
    assert str(loaded.leaves[0].device) == "cuda:0"
    assert state.tolist() == [3, 4, 5]
    other = copy.deepcopy(state)
    other.assign([0.0, 0.0, 0.0])
    assert other.data.ptr != state.data.ptr
    assert state.tolist() == [3, 4, 5]


def test_variables_of_tensors(fake: FakeDriver) -> None:
    given = on_device(counting(3))
    kept = sc.variable(given, device="cuda")
    assert kept.data.ptr != given.data.ptr
    assert sc.variable(given).data.tolist() == [0, 1, 2]
    assert sc.variable(given, dtype="f64", device="cuda").dtype is sc.f64
    kept_copy = sc.tensor(kept)
    kept.assign([9.0, 9.0, 9.0])
    assert kept_copy.tolist() == [0, 1, 2]
    with pytest.raises(errors.ArgumentError, match="no device 'gpu'"):
        sc.variable([1.0], device="gpu")


def test_an_input_on_the_device(fake: FakeDriver) -> None:
    x = sc.input((2, 3), name="x", device="cuda")
    executable = sc.compile(x * 2, "default")
    assert "h2d" not in str(executable)
    array = counting(6).reshape(2, 3)
    for feed in (
        array,
        array.tolist(),
        np.asfortranarray(array),
        Theirs(fake, array),
        on_device(array),
        Theirs(fake, counting(6).reshape(3, 2).T.copy().reshape(2, 3)),
    ):
        expected = 2 * (feed.array if isinstance(feed, Theirs) else array)
        assert executable.run(x=feed).tolist() == expected.tolist()
    strided = Theirs(fake, counting(6), dims=(2, 3), strides=(1, 2))
    assert executable.run(x=strided).tolist() == [[0, 4, 8], [2, 6, 10]]
    loaded = pickle.loads(pickle.dumps(executable))
    assert loaded.run(x=array).tolist() == (2 * array).tolist()
    gc.collect()


def test_a_strided_leaf_is_fed_in_its_layout(fake: FakeDriver) -> None:
    leaf = sc.asarray(Theirs(fake, counting(6), dims=(2, 3), strides=(3, -1), byte_offset=8))
    executable = sc.compile(sc.flip(leaf, 1) + 0, "default")
    line = executable.program.graph.lines[executable.program.leaf_lines[0]]
    assert (line.params.device, line.params.strides) == ("cuda", (3, -1))
    array = counting(6).reshape(2, 3)
    fed = conform(array, line, "leaf")
    assert isinstance(fed, DeviceArray)
    assert fed.strides == (12, -4)
    assert fed.host().tolist() == array.tolist()
    theirs = Theirs(fake, counting(6), dims=(2, 3), strides=(3, -1), byte_offset=8)
    shared = conform(theirs, line, "leaf")
    assert isinstance(shared, DeviceArray)
    assert shared.ptr == theirs.memory.ptr + 8


def test_exported_outputs_are_never_written_again(fake: FakeDriver) -> None:
    x, beside = sc.input((5,), name="x"), on_device(counting(1))
    executable = sc.compile([x.to("cuda"), beside + 0], "default")
    addresses = set()
    kept = []
    for value in range(6):
        sent, _ = executable.run(x=np.full(5, value, np.float32))
        addresses.add(sent.data.ptr)
        kept.append(taken("test", sent.__dlpack__()))
    assert len(addresses) == 6
    for value, block in enumerate(kept):
        assert ctypes.string_at(block.ptr, 20) == np.full(5, value, np.float32).tobytes()
    freed = kept.pop().ptr
    del block
    sent, _ = executable.run(x=counting(5))
    before = sent.data.ptr
    sent, _ = executable.run(x=counting(5))
    sent, _ = executable.run(x=counting(5))
    assert sent.data.ptr == before
    gc.collect()
    assert freed not in {block.ptr for block in kept}


def test_a_buffer_that_was_exported_is_freed_instead_of_reused(fake: FakeDriver) -> None:
    x, beside = sc.input((5,), name="x"), on_device(counting(1))
    executable = sc.compile([x.to("cuda"), beside + 0], "default")
    sent, _ = executable.run(x=counting(5))
    plain = sent.data.ptr
    del sent
    sent, _ = executable.run(x=counting(5))
    assert sent.data.ptr == plain
    taken("test", sent.__dlpack__())
    del sent
    before = len(fake.calls)
    sent, _ = executable.run(x=counting(5))
    assert "cuMemFree_v2" in [call.name for call in fake.calls[before:]]
    assert sent.tolist() == counting(5).tolist()


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
