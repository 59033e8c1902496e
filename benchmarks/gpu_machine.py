"""The GPU of a run: its name and driver, the peers on it, its measured copy rate."""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import statistics
import subprocess

import numpy as np

import softcuda
from benchmarks.gpu_timing import Gpu
from benchmarks.machine import Machine, Peers, Rates, busy_cores, slug_of
from softcuda.driver.copies import copy_on_device_async
from softcuda.driver.device import available, driver_version
from softcuda.driver.memory import DeviceMemory
from softcuda.knobs import thread_count

__all__ = ["find_gpu_peers", "gpu_rates", "gpu_run", "why_no_gpu"]

_COPY_BYTES = 1 << 30
_COPIES = 15
_FMA_FLOPS_S = {"f32": 51e12}  # what a matrix product reaches on an H200, clocks included


def why_no_gpu() -> str:
    """Return why there is no GPU to measure, in one sentence; "" where there is one."""
    return available().reason


def find_gpu_peers() -> Peers:
    """Return the peers that can be imported and see a GPU."""
    torch = cupy = None
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            torch = None
    except (ImportError, OSError) as error:
        print(f"PyTorch is absent: {error}")
    try:
        cupy = importlib.import_module("cupy")
        if not cupy.cuda.is_available():
            cupy = None
    except (ImportError, OSError, RuntimeError) as error:
        print(f"CuPy is absent: {error}")
    return Peers(torch, cupy)


def gpu_run(gpu: Gpu, peers: Peers) -> Machine:
    """Return the facts of the GPU, its driver, and the versions in use."""
    name = gpu.on.context.device.name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {
        "driver": _driver_release(),
        "cuda": driver_version(gpu.on.context.driver),
        "python": platform.python_version(),
        "softcuda": softcuda.__version__,
        "numpy": np.__version__,
        "torch": "absent" if peers.torch is None else peers.torch.__version__,
        "cupy": "absent" if peers.cupy is None else peers.cupy.__version__,
    }
    return Machine(
        device=name,
        slug=slug_of(name),
        cores=cores or 1,
        threads=thread_count(),
        versions=versions,
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        system=f"{platform.system()} {platform.machine()}",
        busy=busy_cores(cores or 1),
    )


def _driver_release() -> str:
    """Return the driver's own version, such as "580.159.04"; "unknown" where nothing says it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (found.stdout.splitlines() or ["unknown"])[0].strip()


def gpu_rates(gpu: Gpu) -> Rates:
    """Return the rate of cuMemcpyDtoD of 1 GiB, and the rate of the FMA units."""
    on = gpu.on
    source, target = (DeviceMemory(on.context, _COPY_BYTES) for _ in range(2))
    gpu.fill_random(source.ptr, _COPY_BYTES)

    def copy() -> None:
        copy_on_device_async(on.context, target.ptr, source.ptr, _COPY_BYTES, stream=on.stream)

    seconds = [gpu.seconds(copy) for _ in range(_COPIES)]
    rate = 2 * _COPY_BYTES / statistics.median(seconds[3:])
    source.close()
    target.close()
    return Rates(rate, dict(_FMA_FLOPS_S), "FMA units")
