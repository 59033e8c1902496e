"""The driver layer on a device: copies, launches, driver graphs, tensor maps."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_float, c_uint64
from dataclasses import replace

import numpy as np
import pytest
from driver_kernels import PTX

from softcuda.driver import copies
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.capture import capture
from softcuda.driver.context import Context
from softcuda.driver.copies import CopyEnd
from softcuda.driver.device import Device
from softcuda.driver.enums import (
    CUdevice_attribute,
    CUfunction_attribute,
    CUtensorMapDataType,
    CUtensorMapSwizzle,
)
from softcuda.driver.graph import CudaGraph
from softcuda.driver.launch import Launch, LaunchConfig, max_active_clusters
from softcuda.driver.memory import DeviceMemory, PinnedMemory, PointerInfo, pointer_info
from softcuda.driver.module import Module
from softcuda.driver.stream import Stream
from softcuda.driver.tensor_map import TiledMap, encode_tiled
from softcuda.errors import ArgumentError, DriverError

COUNT = 1000
SHAPE = LaunchConfig((4, 1, 1), (256, 1, 1))


@pytest.fixture
def context() -> Iterator[Context]:
    with Context(Device(0)) as made:
        yield made


@pytest.fixture
def stream(context: Context) -> Iterator[Stream]:
    with Stream(context) as made:
        yield made


@pytest.fixture
def module(context: Context) -> Iterator[Module]:
    with Module(context, PTX, "tests") as made:
        yield made


@pytest.fixture
def memory(context: Context) -> Iterator[DeviceMemory]:
    with DeviceMemory(context, 4 * COUNT) as made:
        copies.fill(context, made.ptr, 0, 4 * COUNT)
        context.synchronize()
        yield made


def adding(ptr: int, value: float) -> ArgBuffer:
    args = ArgBuffer([("data", c_uint64), ("n", c_uint64), ("value", c_float)])
    for name, argument in (("data", ptr), ("n", COUNT), ("value", value)):
        args.set(name, argument)
    return args


def values(context: Context, ptr: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    back = np.empty(COUNT, np.float32)
    copies.copy_to_host(context, back.ctypes.data, ptr, back.nbytes)
    return back


def test_copies_of_every_kind(context: Context, stream: Stream) -> None:
    data = np.arange(COUNT, dtype=np.float32)
    size = data.nbytes
    with (
        DeviceMemory(context, size) as a,
        DeviceMemory(context, size, stream=stream) as b,
        PinnedMemory(context, size) as pinned,
    ):
        copies.copy_to_device(context, a.ptr, data.ctypes.data, size)
        copies.copy_on_device_async(context, b.ptr, a.ptr, size, stream=stream)
        copies.copy_to_host_async(context, pinned.ptr, b.ptr, size, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(pinned.array().view("f4"), data)
        pinned.array().view("f4")[:] = data[::-1]
        copies.copy_to_device_async(context, b.ptr, pinned.ptr, size, stream=stream)
        stream.synchronize()
        copies.copy_on_device(context, a.ptr, b.ptr, size)
        np.testing.assert_array_equal(values(context, a.ptr), data[::-1])
        assert pointer_info(a.ptr) == PointerInfo(True, 0)
        assert pointer_info(pinned.ptr) == PointerInfo(False, 0)
        assert pointer_info(data.ctypes.data) in (None, PointerInfo(False, 0))


def test_copies_of_rows(context: Context, stream: Stream) -> None:
    table = np.arange(4000, dtype=np.uint8).reshape(40, 100)
    with DeviceMemory(context, 40 * 512) as memory:
        device = CopyEnd(memory.ptr, pitch_bytes=512)
        host = CopyEnd(table.ctypes.data + 3, is_host=True, pitch_bytes=100)
        copies.copy_2d(context, device, host, 90, 40)
        back = np.zeros((40, 90), np.uint8)
        end = CopyEnd(back.ctypes.data, is_host=True)
        copies.copy_2d_async(context, end, device, 90, 40, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(back, table[:, 3:93])


@pytest.mark.parametrize(("itemsize", "value"), [(1, 0xAB), (2, 0xBEEF), (4, 0xDEADBEEF)])
def test_fills(
    context: Context, stream: Stream, memory: DeviceMemory, itemsize: int, value: int
) -> None:
    half = 2 * COUNT
    copies.fill(context, memory.ptr, value, half // itemsize, itemsize)
    copies.fill_async(context, memory.ptr + half, value, half // itemsize, itemsize, stream=stream)
    stream.synchronize()
    assert set(values(context, memory.ptr).view(f"u{itemsize}").tolist()) == {value}


def test_launches(context: Context, stream: Stream, module: Module, memory: DeviceMemory) -> None:
    launch = Launch(module.function("add_value"), SHAPE, adding(memory.ptr, 1.5))
    for _ in range(3):
        launch.submit(stream=stream)
    launch.args.set("value", 0.25)
    with context.current():
        launch.submit(stream=stream)
    stream.synchronize()
    assert set(values(context, memory.ptr).tolist()) == {4.75}


def test_functions(context: Context, module: Module) -> None:
    function = module.function("add_value")
    assert 0 < function.attribute(CUfunction_attribute.NUM_REGS) < 64
    assert function.max_active_blocks(256) == 8
    assert function.best_block_size().block_size >= 256
    assert module.function_count() == 4
    with pytest.raises(DriverError, match="has no kernel 'other'"):
        module.function("other")
    with pytest.raises(DriverError, match=r"loading broken.*the driver says"):
        Module(context, b".version 7.0\n.target sm_75\nnonsense\n", "broken")


def test_refused_launches_leave_everything_usable(
    context: Context, stream: Stream, module: Module, memory: DeviceMemory
) -> None:
    limit = context.device.smem_bytes
    function, none = module.function("use_smem"), ArgBuffer([])
    Launch(function, LaunchConfig((1, 1, 1), (32, 1, 1), limit), none).submit(stream=stream)
    with pytest.raises(ArgumentError, match="shared memory a block"):
        Launch(function, LaunchConfig((1, 1, 1), (32, 1, 1), limit + 1), none)
    if context.device.attribute(CUdevice_attribute.CLUSTER_LAUNCH):
        large = LaunchConfig((64, 1, 1), (32, 1, 1), 0, (64, 1, 1))
        with pytest.raises(DriverError, match="cuLaunchKernelEx failed"):
            Launch(function, large, none).submit(stream=stream)
    Launch(module.function("add_value"), SHAPE, adding(memory.ptr, 1)).submit(stream=stream)
    stream.synchronize()
    assert set(values(context, memory.ptr).tolist()) == {1.0}


def test_clusters_and_programmatic_launches(
    context: Context, stream: Stream, module: Module, memory: DeviceMemory
) -> None:
    if not context.device.attribute(CUdevice_attribute.CLUSTER_LAUNCH):
        pytest.skip("the device has no clusters")
    config = LaunchConfig((4, 1, 1), (256, 1, 1), 0, (2, 1, 1), is_programmatic=True)
    function = module.function("add_value")
    assert max_active_clusters(function, config) > 0
    Launch(function, config, adding(memory.ptr, 2)).submit(stream=stream)
    with CudaGraph(context) as graph:
        graph.add_kernel(function, config, adding(memory.ptr, 3))
        graph.instantiate()
        graph.launch(stream=stream)
    stream.synchronize()
    assert set(values(context, memory.ptr).tolist()) == {5.0}


def test_graphs(context: Context, stream: Stream, module: Module, memory: DeviceMemory) -> None:
    function = module.function("add_value")
    with (
        CudaGraph(context, "hundred") as graph,
        CudaGraph(context) as child,
        PinnedMemory(context, 4 * COUNT) as out,
        DeviceMemory(context, 4 * COUNT) as other,
    ):
        child.add_kernel(function, SHAPE, adding(memory.ptr, 0.5))
        last = graph.add_fill(memory.ptr, 0, COUNT, 4)
        nodes = []
        for _ in range(100):
            last = graph.add_kernel(function, SHAPE, adding(memory.ptr, 1), after=[last])  # type: ignore[assignment]
            nodes.append(last)
        half = graph.add_graph(child, after=[last])
        join = graph.add_empty(after=[last, half])
        end = CopyEnd(out.ptr, is_host=True)
        move = graph.add_copy(end, CopyEnd(memory.ptr), 4 * COUNT, after=[join])
        assert graph.node_count() == 104
        graph.instantiate()
        graph.upload(stream=stream)
        for _ in range(2):
            graph.launch(stream=stream)
        stream.synchronize()
        assert set(out.array().view("f4").tolist()) == {100.5}
        nodes[7].args.set("value", 11.0)  # type: ignore[attr-defined]
        nodes[8].reshape(replace(SHAPE, block=(1, 1, 1)))  # type: ignore[attr-defined]
        with context.current():  # apply() is the bare driver call
            nodes[7].apply()
            nodes[8].apply()
        graph.launch(stream=stream)
        stream.synchronize()
        assert set(out.array().view("f4")[4:].tolist()) == {109.5}
        copies.fill(context, other.ptr, 0, 4 * COUNT)
        move.redirect(end, CopyEnd(other.ptr))
        call = graph.launcher(stream=stream)
        with context.current():
            call()
        stream.synchronize()
        assert set(out.array().view("f4").tolist()) == {0.0}


def test_early_starts(
    context: Context, stream: Stream, module: Module, memory: DeviceMemory
) -> None:
    function = module.function("add_value")
    with CudaGraph(context) as graph:
        # Without griddepcontrol a kernel lets the next one go when it ends.
        first = graph.add_kernel(function, SHAPE, adding(memory.ptr, 1))
        shape = LaunchConfig(SHAPE.grid, SHAPE.block, smem_bytes=64)
        graph.add_kernel(module.function("use_smem"), shape, ArgBuffer([]), early_after=[first])
        graph.instantiate()
        graph.launch(stream=stream)
    stream.synchronize()
    assert set(values(context, memory.ptr).tolist()) == {1.0}


def test_capture(context: Context, stream: Stream, module: Module, memory: DeviceMemory) -> None:
    launch = Launch(module.function("add_value"), SHAPE, adding(memory.ptr, 1))
    with capture(context, stream=stream) as recording:
        launch.submit(stream=stream)
        launch.submit(stream=stream)
        DeviceMemory(context, 64).close()  # allowed: the capture is relaxed
    graph = recording.graph
    assert graph is not None and graph.node_count() == 2
    with graph:
        graph.instantiate()
        graph.launch(stream=stream)
        stream.synchronize()
    assert set(values(context, memory.ptr).tolist()) == {2.0}
    with pytest.raises(KeyError), capture(context, stream=stream):
        raise KeyError
    with pytest.raises(DriverError, match="CAPTURE"), capture(context, stream=stream):
        stream.synchronize()
    launch.submit(stream=stream)
    stream.synchronize()


def test_work_over_two_gib(context: Context, stream: Stream) -> None:
    size = (5 << 30) // 2
    if context.memory_info().free_bytes < 3 * size:
        pytest.skip("the device has not 8 GiB free")
    with DeviceMemory(context, size) as a, DeviceMemory(context, size) as b:
        with CudaGraph(context) as graph:
            fill = graph.add_fill(a.ptr, 0x5A, size)
            graph.add_copy(CopyEnd(b.ptr), CopyEnd(a.ptr), size, after=[fill])
            graph.instantiate()
            graph.launch(stream=stream)
            stream.synchronize()
        back = np.zeros(4096, np.uint8)
        copies.copy_to_host(context, back.ctypes.data, b.ptr + size - 4096, 4096)
        assert set(back.tolist()) == {0x5A}


def test_tensor_maps(context: Context) -> None:
    if not context.device.attribute(CUdevice_attribute.TENSOR_MAP_ACCESS_SUPPORTED):
        pytest.skip("the device has no tensor maps")
    with DeviceMemory(context, 1 << 16) as memory:
        tile = TiledMap(
            CUtensorMapDataType.BFLOAT16, memory.ptr, (64, 100, 3), (128, 12800), (64, 8, 1)
        )
        maps = {
            bytes(encode_tiled(context, made))
            for made in (
                tile,
                replace(tile, swizzle=CUtensorMapSwizzle.B128),
                replace(tile, element_strides=(1, 2, 1)),
                replace(tile, strides_bytes=(0, 12800)),
                replace(tile, dims=(64,), strides_bytes=(), box=(64,)),
            )
        }
        assert len(maps) == 5
        assert all(len(made) == 128 for made in maps)
