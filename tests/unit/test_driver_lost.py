"""A device lost to a fault, and a process that was forked."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial

import pytest
from fake_driver import FakeDriver, checked
from forked import in_child

from softcuda.driver.context import Context
from softcuda.driver.device import Device, available, device_count
from softcuda.driver.graph import CudaGraph
from softcuda.driver.memory import DeviceMemory
from softcuda.driver.results import STICKY, result_of
from softcuda.driver.stream import Stream
from softcuda.errors import DeviceLost, ForkedProcessError


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    yield from checked()


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
        partial(DeviceMemory, context, 8),
        partial(Context, context.device),
    ):
        with pytest.raises(DeviceLost, match=r"step 3 \(matmul\)"):
            work()
    del work
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
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
