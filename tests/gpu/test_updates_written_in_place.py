"""Chains that write the variables they read, on the device: NumPy's bits, whatever the size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import fast_profile

import softcuda as sc
from softcuda.dtype import DType, bf16, f16, f32, f64

SIZES = (1, 127, 511, 512, 513, 4097, (1 << 20) + 3)
STEPS = 3


def families(step: Any) -> list[str]:
    return [launch.spec.family for s in step.program.steps for launch in s.launches]


@pytest.mark.sanitize
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_two_results_over_two_operands(count: int, dtype: DType) -> None:
    rng = np.random.default_rng(count)
    start = [rng.normal(size=count).astype(dtype.numpy) for _ in range(3)]
    made = []
    for device, profile in (("cuda", fast_profile()), ("cpu", "default")):
        w, m = (sc.variable(x, n, device=device) for x, n in zip(start[:2], "wm", strict=True))
        g = sc.input((count,), dtype, name="g", device=device)
        faster = m * 0.75 + g
        step = sc.compile(sc.max(w), profile, updates={w: w - faster * 0.5, m: faster})
        assert str(step).count(", in place") == 2
        made.append((step, w, m))
    assert families(made[0][0]).count("elementwise_in_place") == 1
    for _ in range(STEPS):
        found, right = (step.run(g=start[2]).item() for step, _, _ in made)
        assert found == right
        for a, b in zip(made[0][1:], made[1][1:], strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_step_is_one_launch_and_follows_feeds() -> None:
    """The variable that a run changes is fed to another leaf, and is read as it was."""
    start = np.arange(1 << 16, dtype=np.float32)
    w, v = (sc.variable(start, name, device="cuda") for name in "wv")
    x = sc.input(start.shape, name="x", device="cuda")
    step = sc.compile(sc.max(x), fast_profile(), updates={w: w + x, v: v * 2.0 + x})
    assert str(step).count(", in place") == 2
    for fed in (w, v, w, v):
        old, other, given = w.numpy().copy(), v.numpy().copy(), fed.numpy().copy()
        assert step.run(x=fed).item() == given.max()
        assert np.array_equal(w.numpy(), old + given)
        assert np.array_equal(v.numpy(), other * 2 + given)


def test_variables_that_change_places_are_copied_by_nodes_of_the_launch() -> None:
    a, b = (sc.variable(np.full(1000, k, np.float32), n, device="cuda") for k, n in enumerate("ab"))
    step = sc.compile(sc.max(a), fast_profile(), updates={a: b + 0.0, b: a + 0.0})
    assert "d2d" in str(step)
    for number in range(4):
        step.run()
        assert a.numpy()[0] == (number + 1) % 2 and b.numpy()[0] == number % 2


def test_a_copy_over_itself() -> None:
    """The shortest chain of the kernel's table."""
    start = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    w = sc.variable(start, "w", device="cuda")
    profile = fast_profile(copy="cuda_elementwise")
    step = sc.compile(sc.max(w), profile, updates={w: w})
    assert families(step).count("elementwise_in_place") == 1
    assert step.run().item() == start.max()
    assert np.array_equal(w.numpy(), start)
