"""The driver layer on a device: symbols, names, contexts beside other libraries, closing."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from driver_kernels import PTX

from softcuda.driver.api import PROTOTYPES
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import Context
from softcuda.driver.device import Device, available, device_count, driver_version
from softcuda.driver.enums import CUdevice_attribute
from softcuda.driver.graph import CudaGraph
from softcuda.driver.launch import LaunchConfig
from softcuda.driver.library import DRIVER
from softcuda.driver.loading import load_library
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.driver.module import Module
from softcuda.driver.results import RESULTS
from softcuda.driver.stream import Event, Stream, priority_range
from softcuda.errors import DeviceOutOfMemory


@pytest.fixture
def context() -> Iterator[Context]:
    with Context(Device(0)) as made:
        yield made


def current() -> int | None:
    """Return the context current in this thread."""
    place = ctypes.c_void_p()
    DRIVER.cuCtxGetCurrent(ctypes.addressof(place))
    return place.value


@pytest.mark.parametrize("name", PROTOTYPES)
def test_every_function_is_exported(name: str) -> None:
    assert DRIVER.has(name)


def test_names_of_results() -> None:
    library = load_library()
    said = ctypes.c_char_p()
    known = 0
    for code, result in RESULTS.items():
        if library["cuGetErrorName"](code, ctypes.byref(said)) == 0:
            assert (said.value or b"").decode() == result.name
            known += 1
    assert known >= 90


def test_device_facts() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    assert available()
    device = Device(0)
    assert bindings.cuInit(0)[0] == 0
    assert device_count() == bindings.cuDeviceGetCount()[1]
    version = bindings.cuDriverGetVersion()[1]
    assert driver_version() == f"{version // 1000}.{version % 1000 // 10}"
    name = bindings.cuDeviceGetName(256, 0)[1]
    assert device.name == name.split(b"\0")[0].decode()
    assert device.total_bytes == bindings.cuDeviceTotalMem(0)[1]
    for attribute in CUdevice_attribute:
        wanted = bindings.CUdevice_attribute(int(attribute))
        assert device.attribute(attribute) == bindings.cuDeviceGetAttribute(wanted, 0)[1]
    assert len(device.uuid) == 36


def test_the_context_current_before_is_current_after(context: Context) -> None:
    def work() -> None:
        assert current() is None, "a new thread has no current context"
        with Stream(context) as stream, DeviceMemory(context, 64):
            assert current() is None
            stream.synchronize()
            with context.current():
                assert current() == context.primary.handle
                stream.synchronize()
                assert current() == context.primary.handle
        assert current() is None

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_beside_another_library(context: Context) -> None:
    """taichi-5502: the runtime API and softcuda alternate in one primary context."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch is built without CUDA")
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    assert current() == context.primary.handle
    back = np.empty(1000, np.float32)
    for _ in range(3):
        with Stream(context) as stream, DeviceMemory(context, 4000) as memory:
            torch.cuda.synchronize()
            with context.current():
                DRIVER.cuMemcpyDtoDAsync_v2(memory.ptr, x.data_ptr(), 4000, stream.handle)
                DRIVER.cuMemcpyDtoHAsync_v2(back.ctypes.data, memory.ptr, 4000, stream.handle)
            stream.synchronize()
        np.testing.assert_array_equal(back, np.arange(1000, dtype=np.float32))
        assert float((x + 1).sum()) == 500500.0
        assert current() == context.primary.handle


def test_out_of_memory_leaves_everything_usable(context: Context) -> None:
    free = context.memory_info().free_bytes
    assert 0 < free <= context.device.total_bytes
    with pytest.raises(DeviceOutOfMemory, match=r"asked \d+\.\d TiB on device 0, .* free"):
        DeviceMemory(context, 1 << 45)
    with DeviceMemory(context, 1 << 20) as memory:
        assert memory.ptr % 256 == 0


def owners() -> dict[str, Any]:
    """Return one owner of every kind, with a driver graph that needs most of them."""
    context = Context(Device(0))
    module = Module(context, PTX, "tests")
    graph = CudaGraph(context)
    args = ArgBuffer([("cycles", ctypes.c_uint64)])
    graph.add_kernel(module.function("wait_cycles"), LaunchConfig((1, 1, 1), (1, 1, 1)), args)
    graph.instantiate()
    stream = Stream(context)
    graph.launch(stream=stream)
    return {
        "context": context,
        "module": module,
        "graph": graph,
        "stream": stream,
        "ordered": DeviceMemory(context, 32, stream=stream),
        "pinned": PinnedMemory(context, 64),
    }


def test_every_order_of_closing() -> None:
    names = list(owners())
    for number, order in enumerate(itertools.permutations(names)):
        if number % 7:  # 103 of the 720 orders; each owner is first and last in some
            continue
        made = owners()
        for name in order:
            made.pop(name).close()
    with Context(Device(0)) as context:
        context.synchronize()


def test_streams_and_events(context: Context) -> None:
    least, greatest = priority_range(context)
    assert least >= 0 >= greatest
    function = Module(context, PTX, "tests").function("wait_cycles")
    args = ArgBuffer([("cycles", ctypes.c_uint64)])
    args.set("cycles", 200_000_000)  # about 0.1 s
    graph = CudaGraph(context)
    graph.add_kernel(function, LaunchConfig((1, 1, 1), (1, 1, 1)), args)
    graph.instantiate()
    start, end = Event(context, timing=True), Event(context, timing=True, blocking=True)
    with Stream(context, priority=greatest) as stream, Stream(context) as other:
        assert stream.priority == greatest
        stream.record(start)
        graph.launch(stream=stream)
        stream.record(end)
        other.wait(end)
        assert not stream.is_done() and not end.is_done() and not other.is_done()
        end.synchronize()
        assert end.is_done()
        other.synchronize()
        assert 20 < end.elapsed_ms(start) < 2000
        assert stream.is_done()
    with Stream.borrowed(context, 2) as own:
        own.synchronize()
