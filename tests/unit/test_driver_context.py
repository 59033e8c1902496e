"""Contexts, ownership and the order of closing."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_driver import FakeDriver, checked

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import Context
from softcuda.driver.device import Device
from softcuda.driver.graph import CudaGraph
from softcuda.driver.launch import LaunchConfig
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.driver.module import Module
from softcuda.driver.peers import can_access_peer, disable_peer_access, enable_peer_access
from softcuda.driver.stream import Event, Stream, priority_range
from softcuda.errors import ClosedError, DriverError, SoftCudaWarning

FOREIGN = 0xF0E


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    yield from checked()


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[Context]:
    with Context(Device(0, fake.driver())) as made:
        yield made


def test_a_call_pushes_and_pops(fake: FakeDriver, context: Context) -> None:
    fake.calls.clear()
    context.synchronize()
    assert fake.names() == ["cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxPopCurrent_v2"]
    assert fake.current == 0


def test_a_call_does_neither_where_the_context_is_current(
    fake: FakeDriver, context: Context
) -> None:
    with context.current():
        fake.calls.clear()
        context.synchronize()
        assert fake.names() == ["cuCtxSynchronize"]
    assert fake.current == 0


def test_the_context_current_before_is_current_after(fake: FakeDriver, context: Context) -> None:
    """taichi-5502: another library's context stays current, also after an error."""
    context.driver.cuCtxPushCurrent_v2(FOREIGN)
    with Stream(context) as stream, DeviceMemory(context, 64), Event(context) as event:
        assert fake.current == FOREIGN
        stream.record(event)
        stream.wait(event)
        stream.synchronize()
        assert fake.current == FOREIGN
        fake.fail("cuStreamSynchronize", 1)
        with pytest.raises(DriverError):
            stream.synchronize()
        assert fake.current == FOREIGN
    assert fake.current == FOREIGN
    fake.cuCtxPopCurrent_v2([0])


def test_a_context_switched_by_foreign_code(fake: FakeDriver, context: Context) -> None:
    """pycuda-285: every entry sets its own context."""
    stream = Stream(context)
    for foreign in (FOREIGN, 0, context.primary.handle):
        fake.cuCtxPushCurrent_v2(foreign)
        stream.synchronize()
        context.memory_info()
        assert fake.current == foreign
        fake.cuCtxPopCurrent_v2([0])


def test_guards_nest(fake: FakeDriver) -> None:
    pair = FakeDriver(2)
    driver = pair.driver()
    first, second = Context(Device(0, driver)), Context(Device(1, driver))
    with first.current():
        with second.current(), first.current():
            assert pair.current == first.primary.handle
        assert pair.current == first.primary.handle
    assert pair.current == 0


def test_an_error_inside_a_guard_wins_over_one_of_the_pop(
    fake: FakeDriver, context: Context
) -> None:
    fake.fail("cuCtxPopCurrent_v2", 1)
    with pytest.raises(KeyError), context.current():
        raise KeyError("inside")
    fake.cuCtxPopCurrent_v2([0])
    fake.fail("cuCtxPopCurrent_v2", 1)
    with pytest.raises(DriverError, match="cuCtxPopCurrent_v2"), context.current():
        pass
    fake.cuCtxPopCurrent_v2([0])


def test_threads_have_their_own_current_context(fake: FakeDriver, context: Context) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                with Stream(context) as stream:
                    stream.synchronize()
                assert fake.current == 0
        except BaseException as error:
            errors.append(error)

    with context.current():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


def test_the_primary_context_is_shared_and_counted(fake: FakeDriver, context: Context) -> None:
    other = Context(context.device)
    assert fake.retained[0] == 2
    assert other.primary.handle == context.primary.handle
    other.close()
    other.close()
    assert fake.retained[0] == 1
    with pytest.raises(ClosedError, match=r"Context\(device 0, closed\)"):
        other.synchronize()
    assert other.is_closed


def test_a_retained_context_outlives_its_owner(fake: FakeDriver) -> None:
    context = Context(Device(0, fake.driver()))
    memory = DeviceMemory(context, 64)
    context.close()
    assert fake.retained[0] == 1
    memory.close()
    assert fake.retained[0] == 0


def owners(fake: FakeDriver) -> dict[str, Any]:
    """Return one owner of every kind, with a driver graph that needs most of them."""
    context = Context(Device(0, fake.driver()))
    module = Module(context, b"cubin", "kernels.cubin")
    memory = DeviceMemory(context, 64)
    graph = CudaGraph(context)
    graph.add_kernel(module.function("kernel"), LaunchConfig((1, 1, 1), (1, 1, 1)), ArgBuffer([]))
    graph.keep(memory)
    graph.instantiate()
    stream = Stream(context)
    return {
        "context": context,
        "module": module,
        "memory": memory,
        "graph": graph,
        "stream": stream,
        "ordered": DeviceMemory(context, 32, stream=stream),
    }


@pytest.mark.parametrize("by", ["close", "del"])
def test_every_order_of_closing(fake: FakeDriver, by: str) -> None:
    names = list(owners(fake))
    for order in itertools.permutations(names):
        made = owners(fake)
        fake.calls.clear()
        for name in order:
            owner = made.pop(name)
            if by == "close":
                owner.close()
                owner.close()
            del owner
        assert not fake.live, order
        assert not +fake.retained, order
        done = fake.names()
        assert done.index("cuGraphExecDestroy") < done.index("cuGraphDestroy")
        assert done.index("cuGraphDestroy") < done.index("cuModuleUnload")
        assert fake.names()[-1] == "cuDevicePrimaryCtxRelease_v2"


def test_a_driver_graph_keeps_what_it_needs(fake: FakeDriver) -> None:
    made = owners(fake)
    graph, stream = made["graph"], made["stream"]
    made["module"].close()
    made["memory"].close()
    assert {"module", "device", "graph", "executable"} <= set(fake.live.values())
    graph.launch(stream=stream)
    assert fake.launched == [("kernel", ())]
    graph.close()
    assert "module" not in fake.live.values()
    with pytest.raises(ClosedError, match="cannot be launched"):
        graph.launch(stream=stream)


def test_closed_owners_say_so(fake: FakeDriver, context: Context) -> None:
    stream, event = Stream(context), Event(context)
    stream.close()
    with pytest.raises(ClosedError, match=r"Stream\(no handle, device 0, closed\) was used after"):
        stream.synchronize()
    with pytest.raises(ClosedError):
        stream.record(event)
    assert stream.is_closed
    with DeviceMemory(context, 8) as memory:
        assert repr(memory) == f"DeviceMemory(8 bytes at {memory.ptr:#x}, device 0, open)"
    with pytest.raises(ClosedError):
        _ = memory.ptr


def test_owners_stay_in_their_process(context: Context) -> None:
    with Stream(context) as stream:
        for spread in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                spread(stream)


def test_a_failing_release_is_a_warning(fake: FakeDriver, context: Context) -> None:
    memory = DeviceMemory(context, 64)
    fake.fail("cuMemFree_v2", 1)
    with pytest.warns(SoftCudaWarning, match=r"64 B of device 0 at 0x\w+ was not released"):
        memory.close()
    fake.fail("cuMemFree_v2", 4)  # the driver is shutting down: nothing to say
    DeviceMemory(context, 64).close()
    for handle in [h for h, kind in fake.live.items() if kind == "device"]:
        fake._release(handle, "device")


def test_memory_of_a_stream_is_freed_in_its_order(fake: FakeDriver, context: Context) -> None:
    stream = Stream(context)
    first = DeviceMemory(context, 64, stream=stream)
    second = DeviceMemory(context, 64, stream=stream)
    first.close()
    assert "cuMemFreeAsync" in fake.names()
    stream.close()
    fake.calls.clear()
    second.close()
    assert "cuMemFree_v2" in fake.names()


def test_streams_and_events(fake: FakeDriver, context: Context) -> None:
    assert priority_range(context) == (0, -5)
    with Stream(context, priority=-1) as stream, Event(context, timing=True) as start:
        end = Event(context, timing=True, blocking=True)
        assert stream.priority == -1
        stream.record(start)
        stream.record(end).synchronize()
        assert end.elapsed_ms(start) == 1.5
        assert stream.is_done() and end.is_done()
        fake.pending |= {stream.handle, end.handle}
        assert not stream.is_done() and not end.is_done()
        with pytest.raises(DriverError, match="cuEventElapsedTime failed: CUDA_ERROR_INVALID_HAND"):
            Event(context).elapsed_ms(start)
        end.close()


def test_a_borrowed_stream_is_left_to_its_owner(fake: FakeDriver, context: Context) -> None:
    with Stream.borrowed(context, 2) as stream:
        stream.synchronize()
        assert stream.is_borrowed
    assert "cuStreamDestroy_v2" not in fake.names()


def test_peers() -> None:
    fake = FakeDriver(2)
    driver = fake.driver()
    first, second = Context(Device(0, driver)), Context(Device(1, driver))
    assert can_access_peer(first.device, second.device)
    enable_peer_access(first, second)
    enable_peer_access(first, second)
    disable_peer_access(first, second)
    with pytest.raises(DriverError, match="PEER_ACCESS_NOT_ENABLED"):
        disable_peer_access(first, second)
    fake.fail("cuCtxEnablePeerAccess", 217)
    with pytest.raises(DriverError, match="PEER_ACCESS_UNSUPPORTED"):
        enable_peer_access(first, second)


def test_pinned_arrays_outlive_their_owner(fake: FakeDriver, context: Context) -> None:
    memory = PinnedMemory(context, 16)
    array = memory.array()
    array[:] = 7
    view = array[4:8].view("u4")
    memory.close()
    del array, memory
    assert "pinned" in fake.live.values()
    assert view[0] == 0x07070707
    del view
    assert "pinned" not in fake.live.values()
