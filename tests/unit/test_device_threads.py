"""Threads that share nodes and a device, and children forked after a device was used."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import on_device
from forked import in_child
from thread_team import in_threads

import softcuda as sc
from softcuda.profile.model import Profile
from softcuda.profile.resolve import default_profile

Array = np.ndarray[Any, Any]

ROUNDS = 50


def shared_executables(profile: Profile) -> tuple[Any, Any]:
    """Return two executables that share an input and nodes over it."""
    x = sc.input((64,), name="x")
    common = -(x + x)
    return sc.compile(common + x, profile), sc.compile([-common, common], profile)


def run_shared(profile: Profile) -> None:
    one, two = shared_executables(profile)

    def work(number: int) -> None:
        for count in range(ROUNDS):
            value = np.full(64, 100 * number + count, np.float32)
            np.testing.assert_array_equal(one.run(x=value).numpy(), -value)
            double, negative = two.run(x=value)
            np.testing.assert_array_equal(double.numpy(), 2 * value)
            np.testing.assert_array_equal(negative.numpy(), -2 * value)

    in_threads(work)


def test_threads_run_executables_that_share_nodes() -> None:
    run_shared(default_profile())


def test_threads_build_and_evaluate_graphs_that_share_a_leaf() -> None:
    """burn-5573: what one thread evaluates or drops takes no node from another."""
    leaf = sc.tensor(np.arange(64, dtype=np.float32))
    between = sc.exp(leaf * 0.0)  # all threads read it, and the first one evaluates it

    def work(number: int) -> None:
        for count in range(300):
            factor = float(number + count % 5)
            node = sc.sum(leaf * sc.tensor(factor) + between)
            assert node.item() == 2016 * factor + 64
            assert (leaf + between)[number].item() == number + 1

    in_threads(work)
    assert between.numpy().tolist() == [1] * 64


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def test_threads_run_executables_that_share_nodes_and_a_device(fake: FakeDriver) -> None:
    run_shared(kernel_profile())


def test_threads_share_a_leaf_on_the_device(fake: FakeDriver) -> None:
    leaf = on_device(np.arange(64, dtype=np.float32))

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            made = sc.compile(-(leaf + leaf), kernel_profile())
            np.testing.assert_array_equal(made.run().numpy(), -2 * np.arange(64))

    in_threads(work)


# Forked children


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_after_runs_on_the_device(fake: FakeDriver) -> None:
    """pycuda-137: the child is told of spawn, computes on the CPU, and harms nobody."""
    x = sc.input((5,), name="x")
    executable = sc.compile(-x, kernel_profile())
    value = np.arange(5, dtype=np.float32)
    resident = on_device(value)
    np.testing.assert_array_equal(executable.run(x=value).numpy(), -value)
    for work in (
        lambda: executable.run(x=value),
        lambda: sc.compile(-(x + x), kernel_profile()).run(x=value),
        resident.numpy,
        lambda: on_device(value),
        lambda: sc.tensor(value).to("cuda").numpy(),
    ):
        said = in_child(work)
        assert said.startswith(("ForkedProcessError", "NoDeviceError")), said
        assert "forked" in said and "spawn" in said, said

    def on_cpu() -> object:
        big = sc.ones((1000, 1000))
        made = sc.compile(sc.sum(sc.exp(big * 0.0) @ big, axis=1), "default")
        return (made.run()[3].item(), (sc.tensor(value) * 2).tolist())

    assert in_child(on_cpu) == "(1000000.0, [0.0, 2.0, 4.0, 6.0, 8.0])"
    np.testing.assert_array_equal(executable.run(x=value).numpy(), -value)
    np.testing.assert_array_equal(resident.numpy(), value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_drops_device_tensors_silently(fake: FakeDriver) -> None:
    held = [on_device(np.ones(5, np.float32)), sc.compile(-sc.input((5,)), kernel_profile())]
    held.append(held[1].run({held[1].leaves[0]: np.ones(5, np.float32)}))

    def drop() -> str:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            before = len(fake.calls)
            held.clear()
            gc.collect()
        return f"{len(said)} warnings, {len(fake.calls) - before} calls"

    assert in_child(drop) == "0 warnings, 0 calls"
