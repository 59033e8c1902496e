"""Optimisers against their formulas in float64, and training steps as one executable."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tolerance import assert_close

import softcuda as sc
from softcuda import optim
from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.errors import ArgumentError, ArgumentTypeError

Array = np.ndarray[Any, Any]
Step = Callable[[Array, Array], Array]
START = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])
STEPS = 12


def sgd(momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0) -> Step:
    velocity = np.zeros(START.shape)

    def step(w: Array, g: Array) -> Array:
        nonlocal velocity
        h = g + decay * w
        velocity = momentum * velocity + h
        return w - 0.1 * (h + momentum * velocity if nesterov else velocity)

    return step


def adam(decay: float = 0.0, is_decoupled: bool = False) -> Step:
    m, v, count = np.zeros(START.shape), np.zeros(START.shape), 0

    def step(w: Array, g: Array) -> Array:
        nonlocal m, v, count
        count += 1
        if is_decoupled:
            w = w - 0.1 * decay * w
        else:
            g = g + decay * w
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        root = np.sqrt(v / (1 - 0.99**count)) + 1e-8
        return np.asarray(w - 0.1 * (m / (1 - 0.9**count)) / root)

    return step


OPTIMIZERS: dict[str, tuple[Callable[[Any], optim.Optimizer], Callable[[], Step]]] = {
    "sgd": (lambda p: optim.SGD(p, 0.1), sgd),
    "momentum": (lambda p: optim.SGD(p, 0.1, 0.9), lambda: sgd(0.9)),
    "nesterov": (
        lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01),
        lambda: sgd(0.9, True, 0.01),
    ),
    "decay": (lambda p: optim.SGD(p, 0.1, weight_decay=0.5), lambda: sgd(decay=0.5)),
    "adam": (lambda p: optim.Adam(p, 0.1, (0.9, 0.99)), adam),
    "adam decay": (
        lambda p: optim.Adam(p, 0.1, (0.9, 0.99), weight_decay=0.1),
        lambda: adam(0.1),
    ),
    "adamw": (
        lambda p: optim.AdamW(p, 0.1, (0.9, 0.99), weight_decay=0.1),
        lambda: adam(0.1, True),
    ),
}


def loss_of(w: sc.Tensor) -> sc.Tensor:
    return sc.sum(w**4 / 4 + w)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_steps_follow_the_formulas(name: str, dtype: DType) -> None:
    make, reference = OPTIMIZERS[name]
    w = sc.variable(START, "w", dtype)
    loss = loss_of(w)
    run = sc.compile(loss, updates=make([w]).updates(loss)).run
    right, step = START, reference()
    for _ in range(STEPS):
        assert_close(
            run().numpy(), np.sum(right**4 / 4 + right), dtype, "pow", k_extent=64, scale=50.0
        )
        right = step(right, right**3 + 1)
    assert_close(w.numpy(), right, dtype, "pow", k_extent=1 << STEPS, scale=4.0)


def test_a_step_is_one_executable_of_one_table() -> None:
    w = sc.variable(START, "w")
    loss = loss_of(w)
    optimizer = optim.Adam([w])
    executable = sc.compile(loss, updates=optimizer.updates(loss))
    executable.run()
    assert optimizer.state["count"].item() == 1
    assert set(optimizer.state) == {"w.first_moment", "w.second_moment", "count"}
    assert "variable" in str(executable)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_16_bit_parameters_are_computed_in_f32_and_rounded_once(dtype: DType) -> None:
    w = sc.variable(START, "w", dtype)
    optimizer = optim.SGD({"w": w}, 0.1, 0.9)
    assert optimizer.state["w.momentum"].dtype is f32
    g = sc.tensor(np.full(START.shape, 1e-3), f32)
    run = sc.compile(w, updates=optimizer.step({"w": g})).run
    right = START.astype(dtype.numpy)
    velocity = np.zeros(START.shape, np.float32)
    for _ in range(3):
        run()
        velocity = np.float32(0.9) * velocity + np.float32(1e-3)
        right = (right.astype(np.float32) - np.float32(0.1) * velocity).astype(dtype.numpy)
    assert np.array_equal(w.numpy(), right)


def test_a_rate_is_fed() -> None:
    w, rate = sc.variable(np.ones(2), "w", f32), sc.input((), name="rate")
    loss = sc.sum(w)
    run = sc.compile(loss, updates=optim.SGD([w], rate).updates(loss)).run
    schedule = optim.linear(0.5, steps=4, warmup=2)
    for number in range(6):
        run(rate=np.float32(schedule(number)))
    right = np.full(2, 1 - sum(map(schedule, range(6))))
    assert_close(w.numpy(), right, f32, "sum", k_extent=6, scale=1.0)


def test_schedules() -> None:
    cosine = optim.cosine(1.0, steps=10, warmup=2, floor=0.1)
    assert [cosine(0), cosine(1), cosine(2), cosine(10), cosine(99)] == [1 / 3, 2 / 3, 1, 0.1, 0.1]
    assert math.isclose(cosine(6), 0.55)
    linear = optim.linear(1.0, steps=4)
    assert [linear(s) for s in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]
    stairs = optim.staircase(1.0, 0.5, every=2)
    assert [stairs(s) for s in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    with pytest.raises(ArgumentError, match="a warmup of 4 of 4 steps"):
        optim.cosine(1.0, 4, 4)
    with pytest.raises(ArgumentError, match="every is 0"):
        optim.staircase(1.0, 0.5, 0)


@pytest.mark.parametrize("limit", [1.0, 5.0, 100.0])
def test_clipping_by_the_common_norm(limit: float) -> None:
    a, b = np.array([3.0, 0.0]), np.array([[4.0]])
    found = optim.clip_by_global_norm({"a": sc.tensor(a), "b": [sc.tensor(b, f32)]}, limit)
    assert found.norm.item() == 5
    factor = min(1.0, limit / 5)
    assert_close(found.gradients["a"].numpy(), a * factor, f64, "div")
    assert_close(found.gradients["b"][0].numpy(), b * factor, f32, "div")


def test_clipped_updates() -> None:
    w = sc.variable(np.zeros(2), "w")
    loss = sc.sum(w * np.array([30.0, 40.0]))
    sc.compile(loss, updates=optim.SGD([w], 1.0).updates(loss, clip=5.0)).run()
    assert_close(w.numpy(), np.array([-3.0, -4.0]), f64, "norm")
    with pytest.raises(ArgumentError, match=r"limit is 0\.0"):
        optim.SGD([w], 1.0).updates(loss, clip=0)


def test_loss_scaling_keeps_small_gradients_and_skips_steps_that_overflow() -> None:
    w = sc.variable(np.ones(4), "w", f32)
    factor = sc.input((), name="factor")
    loss = sc.mean((w.astype(f16) * 2.0**-14) * 2.0**-10) * factor
    scale = optim.LossScale(2.0**15, interval=2)
    optimizer = optim.SGD([w], 2.0**24, 0.5)
    run = sc.compile(loss, updates=optimizer.updates(loss, scale=scale)).run
    run(factor=np.float32(1))
    assert w.numpy().tolist() == [0.75] * 4
    assert (scale.value.item(), scale.streak.item()) == (2.0**15, 1)
    run(factor=np.float32(np.inf))
    assert w.numpy().tolist() == [0.75] * 4
    assert (scale.value.item(), scale.streak.item()) == (2.0**14, 0)
    for _ in range(2):
        run(factor=np.float32(1))
    assert (scale.value.item(), scale.streak.item()) == (2.0**15, 0)
    assert optimizer.state["w.momentum"].numpy().tolist() == [2.0**-26 * 1.75] * 4


def test_what_optimisers_refuse() -> None:
    w, other = sc.variable([1.0], "w"), sc.variable([1.0], "other")
    with pytest.raises(ArgumentError, match="does not depend on the parameter other"):
        optim.SGD([w, other], 0.1).updates(sc.sum(w))
    with pytest.raises(ArgumentTypeError, match="parameter 0 is no variable of floats"):
        optim.SGD([sc.tensor([1.0])], 0.1)
    with pytest.raises(ArgumentTypeError, match="made by variable, i64"):
        optim.SGD([sc.variable([1])], 0.1)
    with pytest.raises(ArgumentError, match="given twice"):
        optim.SGD([w, w], 0.1)
    with pytest.raises(ArgumentError, match="there are no parameters"):
        optim.Adam([])
    with pytest.raises(ArgumentTypeError, match="of type Tensor"):
        optim.Adam(w)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"momentum is 1\.0"):
        optim.SGD([w], 0.1, 1.0)
    with pytest.raises(ArgumentError, match="nesterov=True without momentum"):
        optim.SGD([w], 0.1, nesterov=True)
    with pytest.raises(ArgumentError, match=r"betas are \(1.0, 0.5\)"):
        optim.AdamW([w], 0.1, (1.0, 0.5))
    with pytest.raises(ArgumentError, match=r"rate has shape \[1\]"):
        optim.SGD([w], sc.input((1,)))
    with pytest.raises(ArgumentError, match="gradients of x; allowed are those of w"):
        optim.SGD([w], 0.1).step({"x": w})
    with pytest.raises(ArgumentError, match=r"LossScale: initial is 0\.0"):
        optim.LossScale(0)


def test_memory_is_flat_over_many_steps() -> None:
    w = sc.variable(np.ones(100), "w")
    x = sc.input((100,), f64, name="x")
    loss = sc.sum((w - x) ** 2)
    step = sc.compile(loss, updates=optim.Adam([w], 0.01).updates(loss))
    feed = np.zeros(100)

    def blocks_after(count: int) -> int:
        for _ in range(count):
            step.run(x=feed)
        return sys.getallocatedblocks()

    before = blocks_after(100)
    assert blocks_after(10_000) - before < 100
    assert np.abs(w.numpy()).max() < 0.1
