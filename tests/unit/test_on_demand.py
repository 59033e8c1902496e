"""What a process loads for CUDA, when, and what it does not: over a driver made of Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

# A driver without a device, whose cuInit waits until the last module is there that a run needs.
PROCESS = """
import ctypes, json, sys, threading, time
import softcuda
from softcuda import running
from softcuda.driver import library

READY = "softcuda.backends.cuda_elementwise"
seen = []

def get_version(out):
    out[0] = 13000
    return 0

def init(flags):
    seen.append([threading.current_thread() is threading.main_thread(), READY in sys.modules])
    end = time.monotonic() + 20
    while READY not in sys.modules and time.monotonic() < end:
        time.sleep(0.001)
    seen[-1].append(READY in sys.modules)
    return 100

pointer = ctypes.POINTER(ctypes.c_int)
functions = {
    "cuDriverGetVersion": ctypes.CFUNCTYPE(ctypes.c_int, pointer)(get_version),
    "cuInit": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(init),
}
library.DRIVER._load = lambda: functions
before = sorted(sys.modules)
x = softcuda.tensor([1.0, -2.0])
said = ""
try:
    softcuda.compile(softcuda.relu(x), config=sys.argv[1])
except softcuda.errors.SoftCudaError as error:
    said = str(error)
print(json.dumps({"seen": seen, "said": said, "before": before, "after": sorted(sys.modules),
                  "threads": threading.active_count()}))
"""


def run(config: str) -> dict[str, Any]:
    """Return what a fresh process saw that compiles a graph by a profile."""
    command = [sys.executable, "-c", PROCESS, config]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def device_process() -> dict[str, Any]:
    return run(str(ROOT / "benchmarks" / "cuda.soft"))


def test_what_a_run_needs_is_loaded_while_the_driver_initialises(
    device_process: dict[str, Any],
) -> None:
    on_main, loaded_at_begin, loaded_at_end = device_process["seen"][0]
    assert not on_main and not loaded_at_begin and loaded_at_end
    needed = {"softcuda.executor.device_steps", "softcuda.nvrtc.cache", "softcuda.driver.graph"}
    assert needed <= set(device_process["after"])
    assert device_process["threads"] == 1


def test_a_driver_that_fails_beside_is_reported(device_process: dict[str, Any]) -> None:
    assert "cuInit failed: CUDA_ERROR_NO_DEVICE (100)" in device_process["said"]
    assert "pass config='default', or target='sm_90a'" in device_process["said"]


def test_a_device_process_loads_no_backend_of_the_host(device_process: dict[str, Any]) -> None:
    loaded = set(device_process["after"])
    assert not loaded & {"softcuda.backends.cpu_blas", "softcuda.backends.host.contraction"}


def test_a_cpu_process_loads_nothing_of_cuda() -> None:
    found = run("default")
    assert found["said"] == "" and found["seen"] == []
    assert "softcuda.backends.cpu_fused" not in found["before"]
    assert "softcuda.backends.cpu_fused" in found["after"]
    new = set(found["after"]) - set(found["before"])
    assert not [name for name in new if ".cuda" in name or ".nvrtc" in name or ".driver" in name]
    assert "numpy.ma" not in new
