"""Loading, initialisation, error messages."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
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
from softcuda.driver.results import result_of
from softcuda.driver.stream import Event, Stream
from softcuda.errors import (
    DeviceOutOfMemory,
    DriverError,
    DriverNotFound,
    NoDeviceError,
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
    with pytest.raises(DriverNotFound, match=r"in \d+ folders of drivers") as caught:
        loading.load_library()
    assert "libcuda-absent.so.1" in str(caught.value)
    assert len(str(caught.value)) < 250
    assert isinstance(caught.value, NoDeviceError)


@pytest.mark.parametrize(("platform", "named"), [("win32", "nvcuda.dll"), ("darwin", "darwin")])
def test_platforms_without_cuda(platform: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
