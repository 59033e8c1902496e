"""Whole processes with a device: forks, hidden devices, Ctrl-C, kernels compiled by another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import gc, os, signal, sys, threading, time, warnings
sys.path[:0] = ["tests"]
import numpy as np
from op_cases import fast_profile
import softcuda as sc
from softcuda.executor.on_demand import session
value = np.arange(1000, dtype=np.float32)
x = sc.input((1000,), name="x")
"""

FORK = """
executable = sc.compile(x * 2.0 + 1.0, fast_profile())
resident = executable.run(x=value)
right = value * 2 + 1
assert np.array_equal(resident.numpy(), right)
fresh = executable.run(x=value)
child = os.fork()
if child == 0:
    for work in (
        lambda: executable.run(x=value),
        lambda: fresh.numpy(),
        lambda: sc.tensor(value).to("cuda").numpy(),
    ):
        try:
            work()
        except sc.errors.SoftCudaError as error:
            print(error)
    ones = sc.ones((1000, 1000))
    on_cpu = sc.compile(sc.sum(ones @ ones, axis=1), "default")
    print(on_cpu.run()[3].item(), (sc.tensor([1.0, 2.0]) + 1).tolist(), flush=True)
    del executable, resident, fresh
    gc.collect()
    sys.exit(0)
print(os.waitpid(child, 0)[1])
print(np.array_equal(executable.run(x=value).numpy(), right), np.array_equal(fresh.numpy(), right))
"""

HIDDEN = """
print((sc.tensor([1.0, 2.0]) + 1).tolist())
print(sc.compile(x + 1.0, "default").run(x=value)[3].item())
for work in (
    lambda: sc.compile(x + 1.0, fast_profile()),
    lambda: sc.tensor(value).to("cuda").numpy(),
):
    try:
        work()
    except sc.errors.NoDeviceError as error:
        print(error)
"""

CTRL_C = """
signal.signal(signal.SIGINT, signal.default_int_handler)
big = sc.input((3000, 3000), name="big")
product = big
for _ in range(20):
    product = sc.tanh(product @ big)
executable = sc.compile([sc.sum(product), big * 2.0], fast_profile())
feed = np.random.default_rng(0).standard_normal((3000, 3000)).astype(np.float32)
first = [result.numpy().tobytes() for result in executable.run(big=feed)]
for number in range(12):
    ctrl_c = threading.Timer(0.002 + 0.004 * number, os.kill, (os.getpid(), signal.SIGINT))
    try:
        ctrl_c.start()
        while True:
            [result.numpy() for result in executable.run(big=feed)]
    except KeyboardInterrupt:
        pass
    assert [result.numpy().tobytes() for result in executable.run(big=feed)] == first
    print("right", flush=True)
"""

KERNELS = """
executable = sc.compile(sc.sum(sc.exp(x * 0.0) + x), fast_profile())
total = executable.run(x=value).item()
maps = open("/proc/self/maps").read()
print(total, session().loader.cache.compiled, "libnvrtc" in maps)
"""


def run(code: str, warned: int = 0, **environment: str | None) -> list[str]:
    """Return the lines that a process prints; None takes a variable away."""
    merged = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + code],
        capture_output=True,
        check=False,
        text=True,
        timeout=150,
        cwd=ROOT,
        env={name: text for name, text in merged.items() if text is not None},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("SoftCudaWarning: ") == warned, done.stderr
    assert warned or done.stderr == ""
    return done.stdout.splitlines()


def test_a_child_after_runs_on_the_device() -> None:
    """pycuda-137: the child is told of spawn, computes on the CPU, and harms nobody."""
    lines = run(FORK)
    assert len(lines) == 6, lines
    for line in lines[:3]:
        assert "forked" in line and "spawn" in line
    assert lines[3:] == ["1000000.0 [2.0, 3.0]", "0", "True True"]


@pytest.mark.parametrize("value", ["", "-1", "99"])
def test_hidden_devices(value: str) -> None:
    """chainer-2245: the CPU computes, and a request for the device names the variable."""
    lines = run(HIDDEN, CUDA_VISIBLE_DEVICES=value)
    assert lines[:2] == ["[2.0, 3.0]", "4.0"]
    assert len(lines) == 4
    for line in lines[2:]:
        assert f"CUDA_VISIBLE_DEVICES is {value!r}" in line
    assert "pass config='default', or target='sm_90a'" in lines[2]


def test_ctrl_c_in_runs() -> None:
    """What was submitted is waited for, and the next run is right."""
    assert run(CTRL_C) == ["right"] * 12


def test_kernels_compiled_by_another_process(tmp_path: Path) -> None:
    """openmm-2847 too: a damaged entry costs one warning, and is made again."""
    place = {"SOFTCUDA_CACHE_DIR": str(tmp_path / "a cache"), "SOFTCUDA_JIT": None}
    (first,) = run(KERNELS, **place)
    total, compiled, with_nvrtc = first.split()
    assert (float(total), with_nvrtc) == (500_500.0, "True") and int(compiled) >= 1
    assert run(KERNELS, **place) == [f"{total} 0 False"]
    cubins = sorted((tmp_path / "a cache").glob("*/kernel.cubin"))
    assert len(cubins) == int(compiled)
    cubins[0].write_bytes(cubins[0].read_bytes()[: cubins[0].stat().st_size // 2])
    assert run(KERNELS, warned=1, **place) == [f"{total} 1 True"]
    assert run(KERNELS, **{**place, "SOFTCUDA_JIT": "off"}) == [f"{total} 0 False"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder that nobody writes")
def test_a_home_that_nobody_writes() -> None:
    """cupy-2296: kernels are compiled into memory, with one warning."""
    home = {"HOME": "/proc/nobody", "XDG_CACHE_HOME": None, "SOFTCUDA_CACHE_DIR": None}
    (line,) = run(KERNELS, warned=1, **home, SOFTCUDA_JIT=None)
    assert line.startswith("500500.0 ")
