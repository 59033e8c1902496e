"""Faults reported of other libraries, on a device: the right values, the same bits, kept memory."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from device_leaves import device_array
from driver_kernels import PTX
from op_cases import fast_profile, profile_of
from reported_cases import LABELS, REPORTS, Leaf, Pairs, contraction, pattern, repeated

import softcuda as sc
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import Context
from softcuda.driver.device import Device
from softcuda.driver.launch import Launch, LaunchConfig
from softcuda.driver.memory import DeviceMemory
from softcuda.driver.module import Module
from softcuda.driver.stream import Stream
from softcuda.profile.model import Profile

ON_CUDA = Path(__file__).parents[2] / "benchmarks" / "cuda.soft"
PROFILES = [fast_profile(), profile_of("cuda_naive")]
TIMES = 1000


def resident(array: np.ndarray) -> sc.Tensor:  # type: ignore[type-arg]
    """Return a tensor on the device, with the strides of the array."""
    return sc.Tensor.leaf(device_array(array))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.path)
@pytest.mark.parametrize("report", REPORTS)
def test_reported_inputs_give_the_right_values(
    report: Callable[[Leaf], Pairs], profile: Profile
) -> None:
    for leaf in (resident, sc.asarray):
        found, expected = zip(*report(leaf), strict=True)
        results = sc.compile(list(found), profile).run()
        for number, (result, right) in enumerate(zip(results, expected, strict=True)):
            message = f"{report.__doc__} pair {number}"
            np.testing.assert_array_equal(result.numpy(), right, err_msg=message, strict=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_labels_are_a_part_of_what_is_cached(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """cupy-7812: one cache, operands of equal shapes, dtypes and strides, other labels."""
    monkeypatch.setenv("SOFTCUDA_CONFIG", str(ON_CUDA))
    a, b = pattern((20, 20, 20, 20), 0, dtype), pattern((20, 20), 1, dtype)
    x, y = sc.tensor(a), sc.tensor(b)
    for equation in LABELS:
        right = np.einsum(equation, a.astype(np.float64), b.astype(np.float64))
        found = contraction(equation, x, y)
        np.testing.assert_array_equal(found.numpy(), right.astype(dtype))
        assert found.backend_id is not None and found.backend_id.startswith("cuda")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.path)
def test_grids_of_more_than_65535_blocks(profile: Profile) -> None:
    """mlx-2267: 8192 rows of 16384; a y extent of 65536 blocks is refused by CUDA."""
    rows, columns = 8192, 16384
    numbers = sc.reshape(sc.arange(rows * columns, dtype=sc.i64), (rows, columns))
    values = sc.cast((numbers * 7) % 11 - 5, sc.f32) / 4.0
    ones = sc.ones((rows, columns))
    along = 0 if profile.path != "fast" else None  # one thread adds up what cuda_naive sums
    above, total = sc.compile([(values + 1.0)[-1:, -3:], sc.sum(ones, along)], profile).run()
    last = pattern((11,), 0, np.float32)[(np.arange(3) + rows * columns - 3) % 11] + 1
    np.testing.assert_array_equal(above.numpy(), last[None])
    assert last[-1] == 2.0
    assert float(total.numpy().astype(np.float64).sum()) == 134_217_728


# Replays


def test_a_replay_keeps_what_it_reads() -> None:
    """cuda-python-2039: the nodes of a graph hold addresses, the executable the memory."""
    value = pattern((300_000,), 3, np.float32)
    x = resident(value)
    address = x.data.ptr
    executable = sc.compile([x * 2.0 + 1.0, sc.sum(x)], fast_profile())
    first = [result.numpy() for result in executable.run()]
    del x
    gc.collect()
    over = [resident(np.full(300_000, np.nan, np.float32)) for _ in range(8)]
    assert address not in [each.data.ptr for each in over]
    for again, before in zip(executable.run(), first, strict=True):
        np.testing.assert_array_equal(again.numpy(), before)
    np.testing.assert_array_equal(first[0], value * np.float32(2) + np.float32(1))


def test_replays_read_the_feed_of_their_run() -> None:
    x = sc.input((50_000,), name="x", device="cuda")
    executable = sc.compile([x + 1.0, x * 2.0], fast_profile())
    held = []
    for seed in range(12):
        value = pattern((50_000,), seed, np.float32)
        feed = (value, resident(value), sc.tensor(value))[seed % 3]
        held.append((value, executable.run(x=feed)))
        del feed
        gc.collect()
    for value, (above, double) in held:
        np.testing.assert_array_equal(above.numpy(), value + 1)
        np.testing.assert_array_equal(double.numpy(), value * 2)


# The same bits


def test_the_same_bits_a_thousand_times_beside_a_busy_stream() -> None:
    """cupy-8350: results that changed from run to run, or while other streams were busy."""
    executable = sc.compile(repeated(), fast_profile())
    stop = threading.Event()

    def other_work() -> None:
        count = 1 << 24
        with Context(Device(0)) as context, Stream(context) as stream:
            memory = DeviceMemory(context, 4 * count)
            module = Module(context, PTX, "tests")
            fields = [("data", ctypes.c_uint64), ("n", ctypes.c_uint64), ("v", ctypes.c_float)]
            arguments = ArgBuffer(fields)
            arguments.set("data", memory.ptr)
            arguments.set("n", count)
            shape = LaunchConfig((count // 256, 1, 1), (256, 1, 1))
            launch = Launch(module.function("add_value"), shape, arguments)
            while not stop.is_set():
                for _ in range(20):
                    launch.submit(stream=stream)
                stream.synchronize()
            memory.close()
            module.close()

    def bits() -> tuple[bytes, ...]:
        return tuple(result.numpy().tobytes() for result in executable.run())

    alone = {bits() for _ in range(TIMES // 2)}
    busy = threading.Thread(target=other_work)
    busy.start()
    try:
        beside = {bits() for _ in range(TIMES // 2)}
    finally:
        stop.set()
        busy.join()
    assert len(alone | beside) == 1
