"""Variables, inputs and outputs on the device, over the fake driver."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from dlpack_capsules import counting
from fake_driver import FakeDriver
from fake_sessions import Theirs, fake_sessions, on_device

import softcuda as sc
from softcuda import errors
from softcuda.executor.exchange import landed
from softcuda.executor.feeds import conform, declared
from softcuda.interop.capsules import taken
from softcuda.pool.device import DeviceArray


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_sessions(monkeypatch)


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
    fed = landed(conform(array, declared(line, "leaf")), None)
    assert fed.strides == (12, -4)
    assert fed.host().tolist() == array.tolist()
    theirs = Theirs(fake, counting(6), dims=(2, 3), strides=(3, -1), byte_offset=8)
    shared = conform(theirs, declared(line, "leaf"))
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
