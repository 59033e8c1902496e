"""The executor on a device: transfers, segments, outputs, inputs, updates, errors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from op_cases import profile_of
from tolerance import assert_close

import softcuda as sc
from softcuda.driver.context import Context
from softcuda.driver.memory import DeviceMemory
from softcuda.errors import IndexOutOfRange, IntegerPowerError
from softcuda.executor.on_demand import session
from softcuda.graph.node import on_host
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.vocabulary import work_ops

NAIVE = profile_of("cuda_naive")
RNG = np.random.default_rng(7)


def mixed(cpu_ops: set[str], pool: str = "cuda") -> Profile:
    """Return a profile that keeps some ops on the CPU and the rest on the device."""
    rows = tuple(
        Row(op, None, 0, None, "cpu_fallback" if op in cpu_ops else "cuda_naive")
        for op in work_ops()
    )
    return Profile("mixed", {"soft_version": "0.1.0"}, DeviceFacts(), rows, pool=PoolSettings(pool))


def test_host_leaves_are_brought_and_outputs_fetched() -> None:
    a = RNG.standard_normal((37, 53)).astype(np.float32)
    b = RNG.standard_normal((53, 11)).astype(np.float32)
    y = sc.relu(sc.tensor(a) @ sc.tensor(b) - 0.5)
    executable = sc.compile(y, NAIVE)
    first = executable.run()
    right = np.maximum(a.astype(np.float64) @ b - 0.5, 0)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b)
    assert_close(first.numpy(), right, sc.f32, "matmul", k_extent=53, scale=scale)
    assert "cuda_naive" in str(executable)


def test_outputs_stay_on_the_device_where_the_pool_says_so() -> None:
    x = sc.tensor(np.arange(1000.0, dtype=np.float32))
    kept = sc.compile(x * 2.0, mixed(set())).run()
    assert str(kept.device) == "cuda:0"
    brought = sc.compile(x * 2.0, mixed(set(), "cpu")).run()
    assert str(brought.device) == "cpu:0"
    np.testing.assert_array_equal(kept.numpy(), brought.numpy())


def test_steps_of_both_devices_alternate() -> None:
    a = RNG.standard_normal((64, 64)).astype(np.float32)
    x = sc.tensor(a)
    for _ in range(6):
        x = sc.tanh(sc.exp(x * 0.5) - 1.0)
    found = sc.compile(x, mixed({"exp"})).run().numpy()
    right = a.astype(np.float64)
    for _ in range(6):
        right = np.tanh(np.exp(right * 0.5) - 1.0)
    assert_close(found, right, sc.f32, "exp", k_extent=12, scale=4.0)


def test_feeds_of_every_size_and_held_results() -> None:
    for count in (1, 1000, 1 << 20):
        x = sc.input((count,), sc.f32, "x")
        executable = sc.compile(x + 1.0, NAIVE)
        arrays = [RNG.standard_normal(count).astype(np.float32) for _ in range(5)]
        held = [executable.run(x=array) for array in arrays]
        for array, result in zip(arrays, held, strict=True):
            np.testing.assert_array_equal(result.numpy(), array + np.float32(1))


def test_device_results_feed_other_graphs() -> None:
    x = sc.tensor(np.arange(12.0, dtype=np.float32).reshape(3, 4)).to("cuda")
    y = sc.compile(x * 3.0, NAIVE).run()
    z = sc.compile(sc.permute_dims(y, (1, 0)) + 1.0, NAIVE).run()
    np.testing.assert_array_equal(z.numpy(), (np.arange(12.0).reshape(3, 4) * 3).T + 1)
    back = sc.compile(y.to("cpu"), NAIVE).run()
    assert isinstance(back.data, np.ndarray)


def test_updates_and_generators() -> None:
    count = sc.variable(np.zeros(5, np.float32), "count")
    executable = sc.compile(count * 1.0, NAIVE, updates={count: count + 2.0})
    for step in range(4):
        np.testing.assert_array_equal(executable.run().numpy(), np.full(5, 2.0 * step))
    np.testing.assert_array_equal(count.numpy(), np.full(5, 8.0))
    draws = []
    for profile in (NAIVE, profile_of("cpu_fallback")):
        generator = sc.Generator(11)
        made = sc.compile(sc.uniform((1001,), generator=generator), profile)
        draws.append([made.run().numpy().copy() for _ in range(3)])
    np.testing.assert_array_equal(draws[0], draws[1])


def test_swapped_variables() -> None:
    a, b = sc.variable(np.ones(3, np.float32)), sc.variable(np.full(3, 2, np.float32))
    executable = sc.compile(a + b, NAIVE, updates={a: b * 1.0, b: a * 1.0})
    executable.run()
    assert a.numpy().tolist() == [2, 2, 2] and b.numpy().tolist() == [1, 1, 1]


def test_bad_values_are_errors_of_the_fetch() -> None:
    data = sc.tensor(np.arange(5.0, dtype=np.float32))
    indices = sc.input((2,), sc.i64, "indices")
    executable = sc.compile(sc.take(data, indices, axis=0), NAIVE)
    with pytest.raises(IndexOutOfRange, match="7"):
        executable.run(indices=np.array([1, 7])).numpy()
    assert executable.run(indices=np.array([-1, 2])).numpy().tolist() == [4, 2]
    power = sc.compile(sc.tensor([2, 3]) ** sc.tensor([1, -1]), NAIVE)
    with pytest.raises(IntegerPowerError, match="-1"):
        power.run().numpy()
    session().synchronize()


def test_strided_and_huge_copies() -> None:
    a = RNG.standard_normal((700, 900)).astype(np.float32)
    views = [a.T, a[::-1, ::2], a[3:5, ::-7], np.broadcast_to(a[:1], (40, 900))]
    for view in views:
        found = sc.compile(sc.asarray(view) + 0.0, NAIVE).run().numpy()
        np.testing.assert_array_equal(found, view + np.float32(0))
    big = RNG.standard_normal(9_000_001).astype(np.float32)
    np.testing.assert_array_equal(sc.tensor(big).to("cuda").to("cpu").numpy(), big)
    held = sc.compile(sc.tensor(big) * 1.0, NAIVE).run()
    np.testing.assert_array_equal(on_host(held.data), big)


def test_threads_share_the_device() -> None:
    x = sc.tensor(RNG.standard_normal((128, 128)).astype(np.float32))
    right = sc.compile(sc.sum(x * x, axis=1), NAIVE).run().numpy()
    failures: list[object] = []

    def work(scale: float) -> None:
        made = sc.compile(sc.sum(x * x, axis=1) * scale, NAIVE)
        for _ in range(20):
            if not np.array_equal(made.run().numpy(), right * np.float32(scale)):
                failures.append(scale)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_same_bits_run_after_run() -> None:
    x = sc.tensor(RNG.standard_normal((250_003,)).astype(np.float32))
    executable = sc.compile([sc.sum(x), sc.mean(x), sc.max(x)], NAIVE)
    first = [r.numpy().tobytes() for r in executable.run()]
    for _ in range(50):
        assert [r.numpy().tobytes() for r in executable.run()] == first


def test_memory_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sc.input((1 << 18,), sc.f32, "x")
    executable = sc.compile(sc.exp(x) * 0.5 + x, NAIVE)
    array = np.ones(1 << 18, np.float32)
    executable.run(x=array)
    made = DeviceMemory.__init__
    sizes = []

    def counted(self: DeviceMemory, context: Context, nbytes: int, **options: Any) -> None:
        sizes.append(nbytes)
        made(self, context, nbytes, **options)

    monkeypatch.setattr(DeviceMemory, "__init__", counted)
    for _ in range(200):
        executable.run(x=array)
    assert sum(sizes) <= 2 * array.nbytes  # other processes use the device too, so none asks it


def test_results_that_are_dropped_are_never_seen_again() -> None:
    x = sc.input((16,), sc.f32, "x")
    executable = sc.compile(x * 2.0, mixed(set()))
    for value in range(5):
        found = executable.run(x=np.full(16, value, np.float32)).numpy()
        np.testing.assert_array_equal(found, np.full(16, 2.0 * value))
