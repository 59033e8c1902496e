"""Updates of variables on a device: one launch, kernels that write what they read, copies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import CudaOfTests, fake_kernels, kernel_profile
from fake_sessions import on_device

import softcuda as sc
from softcuda import optim
from softcuda.dtype import DTYPES
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.vocabulary import work_ops

Array = np.ndarray[Any, Any]

FAST = Profile(
    "cuda_elementwise",
    {"soft_version": sc.__version__},
    DeviceFacts(),
    tuple(Row(op, None, 0, None, "cuda_elementwise") for op in work_ops()),
    pool=PoolSettings("cuda"),
)


def copied(executable: Any) -> int:
    """Return how many new values are copied at the end of a run."""
    return sum(" update " in row for row in str(executable).splitlines())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def on_cuda(values: Array, name: str) -> sc.Tensor:
    return sc.variable(values, name, device="cuda")


def test_kernels_that_write_what_they_read_are_meant_for_it(fake: FakeDriver) -> None:
    w, m = (on_cuda(np.ones((8, 8), np.float32), name) for name in "wm")
    g, h = sc.input((8, 8), name="g"), sc.input((8, 8), name="h")
    faster = 0.9 * m + g
    step = sc.compile(
        sc.sum(g * h), FAST, target="sm_90a", updates={w: w - 0.1 * faster, m: faster}
    )
    kernels = [launch.spec.id for s in step.program.steps for launch in s.launches]
    assert sum(name.startswith("elementwise_in_place.") for name in kernels) == 1, kernels
    assert copied(step) == 0
    turned = sc.compile(sc.sum(g), FAST, target="sm_90a", updates={w: w - g.T})
    assert copied(turned) == 1, "an operand in another order is read by another kernel"


@pytest.mark.parametrize("declares", [False, True], ids=["copied", "in_place"])
def test_a_step_on_the_device_is_one_launch(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, declares: bool
) -> None:
    if declares:
        monkeypatch.setattr(CudaOfTests, "in_place", lambda self, step: step, raising=False)
    values = np.arange(6, dtype=np.float32)
    w, v, x = on_cuda(values, "w"), on_cuda(-values, "v"), on_device(values + 1)
    step = sc.compile(w + x, kernel_profile(), updates={w: w + v, v: -(v + x)})
    assert copied(step) == (0 if declares else 1), str(step)
    right, other = values, -values
    for _ in range(3):
        before = len(fake.calls)
        found = step.run()
        calls = [call.name for call in fake.calls[before:]]
        assert calls.count("cuGraphLaunch") == 1 and "cuMemcpyDtoDAsync_v2" not in calls
        assert np.array_equal(found.numpy(), right + (values + 1))
        right, other = right + other, -(other + values + 1)
        assert np.array_equal(w.numpy(), right) and np.array_equal(v.numpy(), other)


def test_the_device_reads_a_fed_variable_as_it_was(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaOfTests, "in_place", lambda self, step: step, raising=False)
    values = np.arange(6, dtype=np.float32)
    w, v = on_cuda(values, "w"), on_cuda(values * 3, "v")
    x = sc.input((6,), "f32", name="x", device="cuda")
    step = sc.compile(-x, kernel_profile(), updates={w: w + x, v: v + x})
    assert copied(step) == 0
    for _ in range(2):
        old, other = w.numpy().copy(), v.numpy().copy()
        assert np.array_equal(step.run(x=w).numpy(), -old)
        assert np.array_equal(w.numpy(), old + old) and np.array_equal(v.numpy(), other + old)


def test_copies_on_the_device_follow_outputs_that_move(fake: FakeDriver) -> None:
    values = np.arange(6, dtype=np.float32)
    w = on_cuda(values, "w")
    new = w + w
    step = sc.compile(new, kernel_profile(), updates={w: new})
    held = []
    for number in range(1, 5):
        held.append(step.run())
        assert np.array_equal(w.numpy(), values * 2**number)
    for number, result in enumerate(held, 1):
        assert np.array_equal(result.numpy(), values * 2**number)


def test_vectors_have_room_for_kept_numbers(fake: FakeDriver) -> None:
    """A chain of single numbers that keeps an i64, as Adam's count, moves no 32 bytes at once."""
    w = on_cuda(np.ones((8, 8), np.float32), "w")
    updates = optim.Adam([w]).updates(sc.sum(w * w))
    step = sc.compile(sc.sum(w), FAST, target="sm_90a", updates=updates)
    chains = [
        launch.spec
        for each in step.program.steps
        for launch in each.launches
        if launch.spec.family in ("elementwise_dense", "elementwise_in_place")
    ]
    kept = re.compile(r"Kept<(\w+)>")
    assert any("i64" in kept.findall(spec.expression) for spec in chains)
    for spec in chains:
        width = int(spec.expression.split(",")[1])
        sizes = [DTYPES[name].itemsize for name in kept.findall(spec.expression)]
        assert width * max(sizes, default=1) <= 16, spec.expression
