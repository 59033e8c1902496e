"""What only a process of its own can show: faults, forks, hidden devices, the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import gc, os, sys, warnings
sys.path[:0] = ["tests/gpu"]
from softcuda.driver.context import Context
from softcuda.driver.device import Device, available
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.launch import Launch, LaunchConfig
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.driver.module import Module
from softcuda.driver.stream import Stream
from softcuda.errors import DeviceLost, ForkedProcessError, NoDeviceError
"""

FAULT = """
from driver_kernels import PTX
context = Context(Device(0))
stream, memory = Stream(context), DeviceMemory(context, 64)
module = Module(context, PTX)
shape = LaunchConfig((1, 1, 1), (1, 1, 1))
Launch(module.function("fault"), shape, ArgBuffer([]), "step 4 (fault)").submit(stream=stream)
for work in (stream.synchronize, context.memory_info, lambda: DeviceMemory(context, 8)):
    try:
        work()
    except DeviceLost as error:
        print(error)
memory.close(); stream.close(); module.close(); context.close()
print(sum(range(10)))
"""

FORK = """
context = Context(Device(0))
stream = Stream(context)
child = os.fork()
if child == 0:
    try:
        stream.synchronize()
    except ForkedProcessError as error:
        print(error)
    print(available().reason)
    print(sum(range(10)), flush=True)
    del stream, context
    gc.collect()
    sys.exit(0)
print(os.waitpid(child, 0)[1], flush=True)
stream.synchronize()
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", START + code],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


def test_a_fault_loses_the_device() -> None:
    lines = run(FAULT).stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): ")
    assert lines[0] == lines[1] == lines[2]
    assert "first step that may have caused it is step 4 (fault)" in lines[0]
    assert lines[3] == "45"


def test_a_fault_is_found_where_it_is_with_sync() -> None:
    code = FAULT.replace("Launch(module", "try: Launch(module", 1).replace(
        ".submit(stream=stream)\n", ".submit(stream=stream)\nexcept DeviceLost: print('here')\n", 1
    )
    assert run(code, SOFTCUDA_SYNC="1").stdout.splitlines()[0] == "here"


def test_a_forked_child() -> None:
    """pycuda-137: the child is told of spawn, its CPU work goes on, the parent is unharmed."""
    lines = run(FORK).stdout.splitlines()
    assert len(lines) == 4
    for line in lines[:2]:
        assert "was forked from process" in line and "spawn" in line
    assert lines[2:] == ["45", "0"]


def test_a_child_forked_by_another_library() -> None:
    code = """
import ctypes
ctypes.CDLL("libcuda.so.1").cuInit(0)
child = os.fork()
if child == 0:
    print(available().reason, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert "spawn" in run(code).stdout


@pytest.mark.parametrize("value", ["", "-1", "99"])
def test_hidden_devices(value: str) -> None:
    """chainer-2245: a question is no exception; a request names the variable."""
    code = """
print(bool(available()), available().reason)
try:
    Context(Device(0))
except NoDeviceError as error:
    print(error)
"""
    lines = run(code, CUDA_VISIBLE_DEVICES=value).stdout.splitlines()
    assert lines[0].startswith("False cuInit failed: CUDA_ERROR_NO_DEVICE (100)")
    for line in lines:
        assert f"CUDA_VISIBLE_DEVICES is {value!r}" in line


def test_the_end_of_a_process_that_closed_nothing() -> None:
    code = """
context = Context(Device(0))
kept = [Stream(context), DeviceMemory(context, 64), PinnedMemory(context, 64)]
array = kept[2].array()
kept.append(kept)
"""
    assert run(code).stdout == ""
