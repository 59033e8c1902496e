"""Loading, initialisation, error messages, a lost device, a forked process."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest
from fake_driver import FakeDriver, checked

from softcuda.driver import loading
from softcuda.driver.context import Context
from softcuda.driver.device import Device, available, device_count, driver_version
from softcuda.driver.graph import CudaGraph
from softcuda.driver.library import Driver
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.driver.module import Module
from softcuda.driver.results import STICKY, result_of
from softcuda.driver.stream import Event, Stream
from softcuda.errors import (
    DeviceLost,
    DeviceOutOfMemory,
    DriverError,
    DriverNotFound,
    ForkedProcessError,
    NoDeviceError,
    SoftCudaError,
)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    yield from checked()


def no_library() -> ctypes.CDLL:
    raise DriverNotFound("no CUDA driver: libcuda.so.1: cannot open shared object file")


# Loading and initialisation


def test_the_library_is_loaded_on_first_use() -> None:
    asked = []
    driver = Driver(lambda: asked.append(1) or FakeDriver())  # type: ignore[arg-type,return-value]
    assert repr(driver) == "Driver(not initialised)"
    assert not asked
    assert device_count(driver) == 1
    assert asked == [1]
    assert repr(driver) == "Driver(CUDA 13.0)"


def test_no_library() -> None:
    driver = Driver(no_library)
    found = available(driver)
    assert not found
    assert "libcuda.so.1" in found.reason
    with pytest.raises(DriverNotFound):
        device_count(driver)
    assert not driver.has("cuInit")


def test_what_is_said_where_no_library_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "NAME", "libcuda-absent.so.1")
    with pytest.raises(DriverNotFound, match="/usr/lib/wsl/lib") as caught:
        loading.load_library()
    assert "libcuda-absent.so.1" in str(caught.value)
    assert "SOFTCUDA_CONFIG=default" in str(caught.value)
    assert isinstance(caught.value, NoDeviceError)


@pytest.mark.parametrize(("platform", "named"), [("win32", "nvcuda.dll"), ("darwin", "darwin")])
def test_platforms_without_cuda(
    platform: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(DriverNotFound, match=named):
        loading.load_library()


def test_a_driver_too_old() -> None:
    found = available(FakeDriver(version=11040).driver())
    assert "it supports CUDA 11.4, at least 12.0 is needed" in found.reason
    assert driver_version(FakeDriver(version=11040).driver()) == "11.4"


@pytest.mark.parametrize("value", ["", "-1", "99"])
def test_hidden_devices(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    driver = FakeDriver(init=100).driver()
    found = available(driver)
    assert not found.ok
    assert f"CUDA_VISIBLE_DEVICES is {value!r}" in found.reason
    with pytest.raises(NoDeviceError, match="CUDA_VISIBLE_DEVICES"):
        Device(0, driver)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = available(FakeDriver(init=100).driver())
    assert found.reason.startswith("cuInit failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable")
    assert "CUDA_VISIBLE_DEVICES" not in found.reason


def test_cuinit_that_fails_otherwise() -> None:
    found = available(FakeDriver(init=803).driver())
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)" in found.reason
    assert "restart" in found.reason


def test_a_device_that_is_not_there(fake: FakeDriver) -> None:
    with pytest.raises(NoDeviceError, match="no CUDA device 1: the driver shows 1"):
        Device(1, fake.driver())


def test_a_missing_function_is_named(fake: FakeDriver) -> None:
    fake.missing.add("cuModuleGetFunctionCount")
    driver = fake.driver()
    with Context(Device(0, driver)) as context, Module(context, b"cubin") as module:
        assert not driver.has("cuModuleGetFunctionCount")
        with pytest.raises(DriverNotFound, match=r"cuModuleGetFunctionCount.*CUDA 13\.0"):
            module.function_count()


def test_an_unknown_attribute_is_no_function(fake: FakeDriver) -> None:
    with pytest.raises(AttributeError, match="cuNothing"):
        fake.driver().cuNothing()


def test_device_facts(fake: FakeDriver) -> None:
    device = Device(0, fake.driver())
    assert repr(device) == "Device(0, 'Fake H200', sm_90)"
    assert device == Device(0, device.driver)
    assert len({device, Device(0, device.driver)}) == 1
    assert device.total_bytes == 1 << 30
    assert device.multiprocessors == 132
    assert device.smem_bytes == 232448
    assert device.l2_bytes == 62914560
    assert device.uuid == "01020304-0506-0708-090a-0b0c0d0e0f10"


# Messages


def test_message_form(fake: FakeDriver) -> None:
    with Context(Device(0, fake.driver())) as context:
        fake.fail("cuMemGetInfo_v2", 1)
        with pytest.raises(DriverError) as caught:
            context.memory_info()
    assert str(caught.value) == (
        "cuMemGetInfo_v2 failed: CUDA_ERROR_INVALID_VALUE (1): invalid argument"
    )
    assert (caught.value.code, caught.value.name) == (1, "CUDA_ERROR_INVALID_VALUE")
    assert isinstance(caught.value, RuntimeError)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.code, copy.name) == (str(caught.value), 1, caught.value.name)


def test_an_unknown_result(fake: FakeDriver) -> None:
    with Context(Device(0, fake.driver())) as context:
        fake.fail("cuMemGetInfo_v2", 4711)
        with pytest.raises(DriverError, match=r"CUresult 4711 \(4711\)"):
            context.memory_info()
    assert result_of(2).name == "CUDA_ERROR_OUT_OF_MEMORY"


def test_out_of_memory(fake: FakeDriver) -> None:
    with Context(Device(0, fake.driver())) as context:
        block = DeviceMemory(context, 512 << 20)
        with pytest.raises(DeviceOutOfMemory) as caught:
            DeviceMemory(context, 12 << 30)
        assert str(caught.value) == (
            "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; "
            "asked 12.0 GiB on device 0, 512.0 MiB free"
        )
        assert isinstance(caught.value, MemoryError)
        assert DeviceMemory(context, 1 << 20).nbytes == 1 << 20
        fake.fail("cuMemHostAlloc", 2)
        with pytest.raises(DeviceOutOfMemory, match=r"asked 3\.0 KiB of pinned host memory"):
            PinnedMemory(context, 3072)
        fake.fail("cuMemAlloc_v2", 2)
        fake.fail("cuMemGetInfo_v2", 999)
        with pytest.raises(DeviceOutOfMemory, match=r"asked 7 B on device 0$"):
            DeviceMemory(context, 7)
        block.close()


def test_every_failing_constructor_leaves_nothing(fake: FakeDriver) -> None:
    with Context(Device(0, fake.driver())) as context:
        makers = {
            "cuStreamCreateWithPriority": lambda: Stream(context),
            "cuEventCreate": lambda: Event(context),
            "cuMemAlloc_v2": lambda: DeviceMemory(context, 8),
            "cuMemHostAlloc": lambda: PinnedMemory(context, 8),
            "cuModuleLoadDataEx": lambda: Module(context, b"cubin"),
            "cuGraphCreate": lambda: CudaGraph(context),
            "cuDevicePrimaryCtxRetain": lambda: Context(context.device),
        }
        for name, make in makers.items():
            fake.fail(name, 1)
            with pytest.raises(DriverError, match=f"{name} failed"):
                make()
            make().close()
        gc.collect()
        assert not fake.live


# A lost device


@pytest.mark.parametrize("code", sorted(STICKY))
def test_a_sticky_error_loses_the_device(fake: FakeDriver, code: int) -> None:
    driver = fake.driver()
    context = Context(Device(0, driver))
    stream, memory = Stream(context), DeviceMemory(context, 64)
    context.state.submit(stream.handle, "step 3 (matmul)")
    context.state.submit(stream.handle, "step 4 (relu)")
    fake.fault = code
    with pytest.raises(DeviceLost) as caught:
        stream.synchronize()
    text = str(caught.value)
    assert text.startswith(f"cuStreamSynchronize failed: {result_of(code).name} ({code}): ")
    assert "device 0 is lost; the first step that may have caused it is step 3 (matmul)" in text
    assert "reported here, may come from an earlier launch; set SOFTCUDA_SYNC=1" in text
    assert caught.value.code == code
    fake.fault = 0
    for work in (
        context.synchronize,
        context.memory_info,
        lambda: DeviceMemory(context, 8),
        lambda: Context(Device(0, driver)),
    ):
        with pytest.raises(DeviceLost, match=r"step 3 \(matmul\)"):
            work()
    assert repr(context) == "Context(device 0, lost)"
    assert available(driver)
    before = len(fake.calls)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory.close()
        stream.close()
        context.close()
        del memory, stream, context
        gc.collect()
    assert len(fake.calls) == before, "nothing is released on a lost device"
    fake.live.clear()
    fake.retained.clear()
    fake.blocks.clear()


def test_a_fault_with_nothing_pending(fake: FakeDriver) -> None:
    context = Context(Device(0, fake.driver()))
    stream = Stream(context)
    context.state.submit(stream.handle, "step 1")
    stream.synchronize()
    fake.fault = 700
    with pytest.raises(DeviceLost, match="no step was waiting"):
        context.synchronize()
    fake.live.clear()
    fake.retained.clear()


def test_another_device_goes_on() -> None:
    fake = FakeDriver(2)
    driver = fake.driver()
    first, second = Context(Device(0, driver)), Context(Device(1, driver))
    fake.fail("cuCtxSynchronize", 700)
    with pytest.raises(DeviceLost, match="device 0 is lost"):
        first.synchronize()
    second.synchronize()
    assert second.memory_info().total_bytes == 1 << 30


# A forked process


def test_a_process_forked_by_another_library() -> None:
    with pytest.raises(ForkedProcessError, match="spawn"):
        device_count(FakeDriver(init=3).driver())


def in_child(work: object) -> str:
    """Return what a forked child finds when it calls `work`."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
    if child == 0:
        try:
            text = str(work())  # type: ignore[operator]
        except SoftCudaError as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_use_after_a_fork(fake: FakeDriver) -> None:
    driver = fake.driver()
    context = Context(Device(0, driver))
    stream, graph = Stream(context), CudaGraph(context)
    graph.instantiate()
    refusal = re.compile(
        rf"ForkedProcessError: CUDA cannot be used in process \d+: it was forked from process "
        rf"{os.getpid()}, .*spawn"
    )
    for work in (
        lambda: device_count(driver),
        stream.synchronize,
        lambda: graph.launch(stream=stream),
        lambda: Context(Device(0, driver)),
        lambda: driver.cuDriverGetVersion(None),
        lambda: driver.cuModuleGetFunctionCount(None, None),
    ):
        assert refusal.match(in_child(work))
    assert "spawn" in in_child(lambda: available(driver).reason)
    assert in_child(lambda: 2 + 2) == "4"
    stream.synchronize()
    graph.launch(stream=stream)


def test_owners_are_silent_in_a_child(fake: FakeDriver) -> None:
    owners = [Stream(Context(Device(0, fake.driver())))]

    def drop() -> str:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            before = len(fake.calls)
            owners.clear()
            gc.collect()
        return f"{len(said)} warnings, {len(fake.calls) - before} calls"

    assert in_child(drop) == "0 warnings, 0 calls"


def test_a_pid_that_changed_without_the_hook(fake: FakeDriver) -> None:
    driver = fake.driver()
    context = Context(Device(0, driver))
    fake.fail("cuMemGetInfo_v2", 3)
    real = os.getpid
    try:
        os.getpid = lambda: -1  # a fork that Python did not see
        with pytest.raises(ForkedProcessError, match="spawn"):
            context.memory_info()
    finally:
        os.getpid = real


def test_the_interpreter_ends_silently() -> None:
    code = """
import sys; sys.path[:0] = ["tests/unit", "."]
from fake_driver import FakeDriver
from softcuda.driver.context import Context
from softcuda.driver.device import Device
from softcuda.driver.memory import DeviceMemory
fake = FakeDriver()
kept = DeviceMemory(Context(Device(0, fake.driver())), 8)
cycle = [kept]; cycle.append(cycle)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
