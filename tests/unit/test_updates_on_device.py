"""Updates of variables on a device: one launch, kernels that write what they read, copies."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import CudaOfTests, fake_kernels, kernel_profile
from fake_sessions import on_device
from op_cases import fast_profile

import softcuda as sc
from softcuda import optim
from softcuda.dtype import DTYPES
from softcuda.executor.variables import VARIABLE_LOCKS
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


@pytest.mark.parametrize("matmul", ["cuda_tiled", "cuda_contract"])
@pytest.mark.parametrize(
    ("make", "copies"),
    [
        (lambda w, x, g: w - 0.1 * (x.T @ g), 0),
        (lambda w, x, g: x.T @ g, 0),
        (lambda w, x, g: w - 0.1 * (x.T @ g).T, 1),  # lies in another order
        (lambda w, x, g: w.T - 0.1 * (x.T @ g), 1),
        (lambda w, x, g: w - 0.1 * (w @ w), 1),  # every element is read for many others
        (lambda w, x, g: (w @ w) * 0.5, 1),
        (lambda w, x, g: w - w[:1] * (x.T @ g), 1),
        (lambda w, x, g: w + sc.sum(sc.stack([w, w * 2.0]), axis=0), 0),
        (lambda w, x, g: w * sc.sum(sc.reshape(x, (2, 8, 8)), axis=0), 0),
    ],
    ids=["gradient", "new", "turned", "turned_w", "factor", "only", "row", "summed", "reduced"],
)
def test_products_and_sums_write_what_only_their_chain_reads(
    fake: FakeDriver, make: Any, copies: int, matmul: str
) -> None:
    w = on_cuda(np.ones((8, 8), np.float32), "w")
    x, g = (sc.input((16, 8), name=name, device="cuda") for name in "xg")
    profile = fast_profile(matmul=matmul)
    step = sc.compile(sc.sum(g), profile, target="sm_90a", updates={w: make(w, x, g)})
    assert copied(step) == copies, str(step)


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


def test_a_run_costs_the_host_the_same_for_any_number_of_variables(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaOfTests, "in_place", lambda self, step: step, raising=False)

    def calls(count: int) -> int:
        """Return the calls of Python and C functions in a run."""
        variables = [on_cuda(np.ones(6, np.float32), f"v{k}") for k in range(count)]
        step = sc.compile(-variables[0], kernel_profile(), updates={v: v + v for v in variables})
        step.run()
        step.run()
        (segment,) = set(step._ready()._device._segment_of.values())
        segment._launch = lambda: None  # the fake driver runs every kernel in Python
        seen: list[str] = []
        gc.collect()
        gc.disable()  # what other tests left would be counted
        sys.setprofile(lambda frame, event, argument: seen.append(event))
        try:
            step.run()
        finally:
            sys.setprofile(None)
            gc.enable()
        return len(seen)

    assert calls(2) == calls(24)


def test_variables_of_a_device_have_one_lock_and_those_of_the_host_one_each(
    fake: FakeDriver,
) -> None:
    there = [on_cuda(np.ones(6, np.float32), name).data for name in "ab"]
    here = [sc.variable(np.ones(6, np.float32), name).data for name in "cd"]
    assert len(VARIABLE_LOCKS.ordered(there)) == 1
    assert len(VARIABLE_LOCKS.ordered([*there, *here, *here])) == 3
    assert VARIABLE_LOCKS.ordered([*here, *there]) == VARIABLE_LOCKS.ordered([*there, *here[::-1]])


def test_a_run_waits_for_an_assignment_to_one_of_its_variables(fake: FakeDriver) -> None:
    w, v = on_cuda(np.ones(6, np.float32), "w"), on_cuda(np.ones(6, np.float32), "v")
    step = sc.compile(w + v, kernel_profile(), updates={w: w + v})
    step.run()
    begun, found = threading.Event(), []

    def run() -> None:
        begun.set()
        found.append(step.run().numpy()[0])

    with VARIABLE_LOCKS.held([v.data]):
        other = threading.Thread(target=run)
        other.start()
        assert begun.wait(5)
        v.assign(np.full(6, 8, np.float32))
        assert not found
    other.join(5)
    assert found == [10.0]
