"""Driver graphs over the fake driver: described, captured, launched, changed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from ctypes import c_uint64

import numpy as np
import pytest
from fake_driver import FakeDriver, checked
from fake_driver_graphs import FakeKernel

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.capture import capture
from softcuda.driver.context import Context
from softcuda.driver.copies import CopyEnd, copy_to_host_async
from softcuda.driver.device import Device
from softcuda.driver.graph import CudaGraph
from softcuda.driver.launch import Launch, LaunchConfig
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.driver.module import Function, Module
from softcuda.driver.stream import Stream
from softcuda.errors import ArgumentError, ClosedError, DeviceLost, DriverError

ONE = LaunchConfig((1, 1, 1), (32, 1, 1))


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    for made in checked():
        made.kernels["add_one"] = FakeKernel((c_uint64,), add_one)
        yield made


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[Context]:
    with Context(Device(0, fake.driver())) as made:
        yield made


@pytest.fixture
def stream(context: Context) -> Iterator[Stream]:
    with Stream(context) as made:
        yield made


def add_one(ptr: c_uint64) -> None:
    c_uint64.from_address(ptr.value).value += 1


def kernel(context: Context) -> Function:
    return Module(context, b"cubin").function("add_one")


def arguments(ptr: int) -> ArgBuffer:
    args = ArgBuffer([("p", c_uint64)])
    args.set("p", ptr)
    return args


def test_a_graph_of_every_kind_of_node(fake: FakeDriver, context: Context, stream: Stream) -> None:
    with (
        DeviceMemory(context, 16) as a,
        DeviceMemory(context, 16) as b,
        PinnedMemory(context, 16) as out,
        CudaGraph(context, "all nodes") as graph,
        CudaGraph(context) as child,
    ):
        child.add_kernel(kernel(context), ONE, arguments(a.ptr))
        fill = graph.add_fill(a.ptr, 0, 4, 4)
        first = graph.add_kernel(kernel(context), ONE, arguments(a.ptr), after=[fill], label="one")
        both = graph.add_graph(child, after=[first])
        join = graph.add_empty(after=[first, both])
        move = graph.add_copy(CopyEnd(b.ptr), CopyEnd(a.ptr), 16, after=[join])
        graph.add_copy(CopyEnd(out.ptr, is_host=True), CopyEnd(b.ptr), 8, 2, after=[move])
        assert [node.number for node in graph.nodes] == list(range(6))
        assert repr(graph) == "CudaGraph(all nodes, 6 nodes, not instantiated, device 0, open)"
        assert repr(first) == "KernelNode(1, one)"
        assert graph.node_count() == 6
        graph.instantiate()
        graph.instantiate()
        graph.upload(stream=stream)
        for _ in range(2):
            graph.launch(stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(out.array().view("u8"), [2, 0])
        nodes = next(iter(fake.executables.values()))
        assert [len(node.after) for node in nodes] == [0, 1, 1, 2, 1, 1]
        with pytest.raises(ClosedError, match="takes no more nodes"):
            graph.add_empty()


def test_launching_is_one_call_besides_the_question_for_the_context(
    fake: FakeDriver, context: Context, stream: Stream
) -> None:
    with CudaGraph(context, "step 2") as graph:
        graph.instantiate()
        launch = graph.launcher(stream=stream)
        with context.current():
            fake.calls.clear()
            graph.launch(stream=stream)
            assert [call.name for call in fake.calls] == ["cuCtxGetCurrent", "cuGraphLaunch"]
            fake.calls.clear()
            launch()
            assert [call.name for call in fake.calls] == ["cuGraphLaunch"]
        graph.launch(stream=stream)
        assert context.state.pending == {stream.handle: "step 2"}
        fake.fault = 700
        with pytest.raises(DeviceLost, match="may have caused it is step 2"):
            stream.synchronize()
        with pytest.raises(DeviceLost, match="may have caused it is step 2"):
            graph.launch(stream=stream)
        fake.fault, context.state.fault = 0, None


def test_changing_nodes(fake: FakeDriver, context: Context, stream: Stream) -> None:
    blocks = [DeviceMemory(context, 16) for _ in range(4)]
    zero = np.zeros(2, np.uint64)
    with CudaGraph(context) as graph:
        fill = graph.add_fill(blocks[0].ptr, 0, 16)
        node = graph.add_kernel(kernel(context), ONE, arguments(blocks[0].ptr), after=[fill])
        move = graph.add_copy(CopyEnd(blocks[1].ptr), CopyEnd(blocks[0].ptr), 8, after=[node])
        for change in (node.apply, lambda: move.redirect(CopyEnd(8), CopyEnd(0)), fill.apply):
            with pytest.raises(ClosedError, match="cannot be changed: its graph is not instant"):
                change()
        graph.instantiate()
        fill.redirect(blocks[2].ptr)
        node.args.fields[0].value = blocks[2].ptr
        node.reshape(LaunchConfig((2, 1, 1), (64, 1, 1)))
        fake.calls.clear()
        node.apply()
        assert [call.name for call in fake.calls] == ["cuGraphExecKernelNodeSetParams_v2"]
        move.redirect(CopyEnd(blocks[3].ptr), CopyEnd(blocks[2].ptr))
        graph.launch(stream=stream)
        copy_to_host_async(context, zero.ctypes.data, blocks[3].ptr, 8, stream=stream)
        assert zero.tolist() == [1, 0]
        assert (node.params.gridDimX, node.params.blockDimX) == (2, 64)
        with pytest.raises(ArgumentError, match="rows closer"):
            move.redirect(CopyEnd(blocks[3].ptr, pitch_bytes=4), CopyEnd(blocks[2].ptr))
        fake.fail("cuGraphExecKernelNodeSetParams_v2", 910)
        with pytest.raises(DriverError, match="GRAPH_EXEC_UPDATE_FAILURE"):
            node.apply()
    with pytest.raises(ClosedError, match=r"KernelNode\(1, kernel 'add_one'\) cannot be changed"):
        node.apply()


def test_clusters_and_early_starts(fake: FakeDriver, context: Context) -> None:
    with CudaGraph(context) as graph:
        function = kernel(context)
        first = graph.add_kernel(function, ONE, arguments(0))
        config = LaunchConfig((8, 2, 1), (32, 1, 1), 100000, (4, 2, 1))
        second = graph.add_kernel(function, config, arguments(0), early_after=[first])
        nodes = fake.graphs[graph.handle]
        assert nodes[1].cluster == (4, 2, 1)
        assert nodes[1].early == [first.pointer.value]
        assert second.params.sharedMemBytes == 100000
    assert fake.function_attributes[function.pointer.value or 0, 8] == 100000


def test_what_a_graph_keeps_alive(fake: FakeDriver, context: Context, stream: Stream) -> None:
    class Token:
        pass

    graph = CudaGraph(context)
    node = graph.add_kernel(kernel(context), ONE, arguments(0))
    first, second, third = (DeviceMemory(context, 8) for _ in range(3))
    token = Token()
    watch = weakref.ref(token)
    graph.keep(first, token)
    node.keep(second)
    kept = [first.ptr, second.ptr, third.ptr]
    first.close()
    second.close()
    del token
    assert watch() is not None
    assert [ptr in fake.live for ptr in kept] == [True, True, True]
    node.keep(third)
    third.close()
    assert [ptr in fake.live for ptr in kept] == [True, False, True]
    graph.close()
    assert [ptr in fake.live for ptr in kept] == [False, False, False]
    assert watch() is None
    with pytest.raises(ClosedError):
        graph.keep(stream)


def test_a_graph_is_freed_without_the_collector(fake: FakeDriver, context: Context) -> None:
    gc.disable()
    try:
        graph = CudaGraph(context)
        graph.add_kernel(kernel(context), ONE, arguments(0))
        graph.instantiate()
        del graph
        assert not fake.live
    finally:
        gc.enable()


def test_refusals(fake: FakeDriver, context: Context, stream: Stream) -> None:
    with CudaGraph(context, "empty") as graph:
        for refused in (graph.launch, graph.upload, graph.launcher):
            with pytest.raises(ClosedError, match=r"empty, 0 nodes, not .*cannot be launched"):
                refused(stream=stream)
        for width, height in ((0, 1), (1, 0)):
            with pytest.raises(ArgumentError, match="at least 1 of 1"):
                graph.add_copy(CopyEnd(0), CopyEnd(0), width, height)
        with pytest.raises(ArgumentError, match="0 items"):
            graph.add_fill(0, 0, 0)
        with pytest.raises(ArgumentError, match="items of 1, 2 or 4"):
            graph.add_fill(0, 0, 1, 3)
        fake.fail("cuGraphInstantiateWithFlags", 2)
        with pytest.raises(MemoryError):
            graph.instantiate()
        graph.instantiate()
        graph.launch(stream=stream)


@pytest.mark.parametrize("name", ["cuGraphAddKernelNode_v2", "cuFuncGetAttribute"])
def test_a_node_that_cannot_be_added(fake: FakeDriver, context: Context, name: str) -> None:
    with CudaGraph(context) as graph:
        function = kernel(context)
        fake.fail(name, 1)
        with pytest.raises(DriverError, match=name):
            graph.add_kernel(function, ONE, arguments(0))
        assert graph.nodes == []
        graph.add_kernel(function, ONE, arguments(0))


def test_capture(fake: FakeDriver, context: Context, stream: Stream) -> None:
    with DeviceMemory(context, 8) as memory, PinnedMemory(context, 8) as out:
        launch = Launch(kernel(context), ONE, arguments(memory.ptr))
        with capture(context, stream=stream, label="captured") as recording:
            assert stream.is_capturing
            launch.submit(stream=stream)
            copy_to_host_async(context, out.ptr, memory.ptr, 8, stream=stream)
            assert recording.graph is None
        assert not fake.launched and not stream.is_capturing
        assert context.state.pending == {}
        graph = recording.graph
        assert graph is not None
        with graph:
            assert (graph.label, graph.node_count(), graph.nodes) == ("captured", 2, [])
            graph.instantiate()
            graph.launch(stream=stream)
            assert out.array().view("u8")[0] == 1


@pytest.mark.parametrize("failing_end", [False, True])
def test_a_capture_that_fails(
    fake: FakeDriver, context: Context, stream: Stream, failing_end: bool
) -> None:
    if failing_end:
        fake.fail("cuStreamEndCapture", 901)
    with pytest.raises(KeyError), capture(context, stream=stream) as work:
        raise KeyError
    assert work.graph is None
    assert fake.current == 0
    if failing_end:
        fake.drop(fake.capturing.pop(stream.handle), "graph")
    stream.synchronize()


def test_synchronous_launches_do_not_wait_inside_a_capture(
    fake: FakeDriver, context: Context, stream: Stream
) -> None:
    context.is_synchronous = True
    launch = Launch(kernel(context), ONE, arguments(0))
    with capture(context, stream=stream) as recording:
        launch.submit(stream=stream)
    graph = recording.graph
    assert graph is not None and graph.node_count() == 1
    graph.close()
    with CudaGraph(context) as empty:
        empty.instantiate()
        fake.calls.clear()
        empty.launch(stream=stream)
        assert "cuStreamSynchronize" in fake.names()
