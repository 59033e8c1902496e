"""Ctrl-C at every point of a run on a device: it is waited for, the next run is right."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import on_device

import softcuda as sc
from softcuda.driver.library import Driver
from softcuda.executor import devices

Array = np.ndarray[Any, Any]

# Calls that a run is made of; finalizers, which Python does not interrupt, make the others.
INTERRUPTED = (
    *("cuMemAlloc_v2", "cuMemAllocAsync", "cuMemHostAlloc", "cuModuleLoadDataEx"),
    *("cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch"),
    *("cuGraphExecKernelNodeSetParams_v2", "cuGraphExecMemcpyNodeSetParams"),
    *("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"),
    *("cuEventRecord", "cuStreamSynchronize"),
)


class Interrupter:
    """Raises KeyboardInterrupt in the place of the n-th of those calls."""

    def __init__(self) -> None:
        self.left = 0

    def watch(self, function: Callable[..., int]) -> Callable[..., int]:
        """Return the function, which counts before it does its work."""

        def watched(*arguments: Any) -> int:
            if self.left:
                self.left -= 1
                if not self.left:
                    raise KeyboardInterrupt
            return function(*arguments)

        return watched


@pytest.fixture
def interrupter(monkeypatch: pytest.MonkeyPatch) -> Interrupter:
    made, bind = Interrupter(), Driver._bind

    def bound(self: Driver, name: str) -> Callable[..., int]:
        function = bind(self, name)
        return made.watch(function) if name in INTERRUPTED else function

    monkeypatch.setattr(Driver, "_bind", bound)
    return made


@pytest.fixture
def fake(interrupter: Interrupter, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


@pytest.mark.parametrize("pool", ["cuda", "cpu"])
def test_ctrl_c_anywhere_in_a_run(fake: FakeDriver, interrupter: Interrupter, pool: str) -> None:
    """Steps of both devices, intermediates in both arenas, feeds of both kinds."""
    profile = kernel_profile(pool)
    x, y = sc.input((5,), name="x"), sc.input((5,), name="y", device="cuda")
    value = np.arange(5, dtype=np.float32)
    resident = on_device(value)
    right = -(np.exp(-(value + value)) + value)

    def make() -> Any:
        return sc.compile(-(sc.exp(-(x + y)) + y), profile)

    def feeds(number: int) -> dict[str, Any]:
        return {"x": value, "y": resident if number % 2 else value}

    assert_right(make().run(feeds(0)), right)
    kept = make()
    assert_right(kept.run(feeds(0)), right)
    points = 0
    for executable in (kept, make()):
        for number in range(1, 100):
            interrupter.left = number
            before = len(fake.calls)
            try:
                assert_right(executable.run(feeds(number)), right)
                done = bool(interrupter.left)
            except KeyboardInterrupt:
                done = False
                made = [call.name for call in fake.calls[before:]]
                submitted = [name for name in made if "Launch" in name or "Async" in name]
                assert not submitted or made[-1] != submitted[-1], (
                    "what was submitted is waited for"
                )
                points += 1
            interrupter.left = 0
            for each in (executable, kept):
                assert_right(each.run(feeds(number + 1)), right)
            if done:
                break
        else:
            raise AssertionError("a run never ended")
    assert points >= 8


def assert_right(found: Any, right: Array) -> None:
    np.testing.assert_array_equal(found.numpy(), right)


def test_interrupted_runs_leave_no_memory_behind(
    fake: FakeDriver, interrupter: Interrupter
) -> None:
    x = sc.input((5,), name="x")
    executable = sc.compile(-(sc.exp(-(x + x)) + x), kernel_profile())
    value = np.arange(5, dtype=np.float32)
    executable.run(x=value).numpy()
    sizes = set()
    for number in range(21):
        interrupter.left = number % 7 + 1
        with contextlib.suppress(KeyboardInterrupt):
            executable.run(x=value).numpy()
        interrupter.left = 0
        executable.run(x=value).numpy()
        gc.collect()
        sizes.add(fake.used_bytes())
    assert len(sizes) <= 2 and max(sizes) <= min(sizes) + 4096, sizes


def test_ctrl_c_in_evaluate(fake: FakeDriver, interrupter: Interrupter) -> None:
    leaf = on_device(np.arange(5, dtype=np.float32))
    for number in range(1, 40):
        interrupter.left = number
        node = sc.exp(leaf * 0.0) + leaf
        try:
            node.numpy()
        except KeyboardInterrupt:
            interrupter.left = 0
            assert node.numpy().tolist() == [1, 2, 3, 4, 5]
        if interrupter.left:
            break
    interrupter.left = 0
    assert number > 1
    devices.session().synchronize()
