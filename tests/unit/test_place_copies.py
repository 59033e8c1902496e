"""Copies between devices: what `place` counts is what `transfer` makes, `to` included."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_sessions import fake_sessions, on_device

import softcuda as sc
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.lower import lower
from softcuda.compiler.min_cut import assignment_us
from softcuda.compiler.place import _Placement
from softcuda.compiler.select import Selector, select
from softcuda.compiler.settings import Settings
from softcuda.compiler.simplify import simplify
from softcuda.compiler.transfer import transfer
from softcuda.compiler.verify import verify
from softcuda.graph.op import Kind
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.trace import trace
from softcuda.profile.model import (
    CostPoint,
    DeviceFacts,
    PoolSettings,
    Profile,
    Row,
    Transfer,
)
from softcuda.profile.resolve import default_profile
from softcuda.target import Target

CUDA = Target("cuda", "sm_90a", 132, 227, 60)


OPS = ("exp", "add", "mul", "matmul", "sum", "concat", "gt", "where")
H2D, D2H = 7.0, 11.0  # microseconds and at 1 GB/s, so that each tensor's copies can be told
DIMS = (16, 16)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_sessions(monkeypatch)


def profile(policy: str, pool: str = "cpu", backend_id: str = "cpu_fallback") -> Profile:
    rows = tuple(Row(op, None, 0, None, backend_id, line) for line, op in enumerate(OPS, 10))
    costs = tuple(
        CostPoint(op, None, size, (("cpu", 5.0), ("cuda", 3.0))) for op in OPS for size in (1, 9)
    )
    copies = (Transfer("h2d", H2D, 1.0), Transfer("d2h", D2H, 1.0))
    facts = DeviceFacts("cuda", compute_capability="9.0")
    meta = {"soft_version": "0.1.0"}
    return Profile("CUT.soft", meta, facts, rows, (), costs, copies, policy, PoolSettings(pool))


def placement(
    outputs: list[Any], updates: dict[Any, Any], by: Profile
) -> tuple[_Placement, Settings]:
    settings = Settings(by, default_profile(), CUDA)
    selector = Selector(settings)
    simplified = simplify(verify(trace(outputs, updates).graph))
    chosen = lower(simplified.graph, select(simplified.graph, selector), selector)
    return _Placement(chosen, selector, settings), settings


def transfers(outputs: Any, by: Profile) -> list[tuple[str, int]]:
    """Return direction and bytes of each copy that is executed."""
    traced = trace(outputs if isinstance(outputs, list) else [outputs])
    made = compile_graph(traced.graph, Settings(by, default_profile(), CUDA))
    return [
        (step.kernel, made.graph.lines[step.outputs[0].value].nbytes)
        for step in made.steps
        if step.backend_id == "transfer"
    ]


def seen_and_sent(x: Any, device: str) -> Any:
    """Return what reads a view and what `to` makes of it."""
    sent = x.to(device)
    return sc.concat([sc.exp(x)[:4], x[:4], sent[:4], sc.exp(sent[:4])], axis=0)


def some_tensor(random: Random, x: Any, y: Any) -> Any:
    device = random.choice(("cpu", "cuda"))
    other = "cpu" if device == "cuda" else "cuda"
    part = random.choice((4, 16))
    return random.choice(
        (
            lambda: sc.exp(x),
            lambda: x + y,
            lambda: x @ y,
            lambda: sc.permute_dims(x, (1, 0)) @ y,
            lambda: sc.sum(x, axis=1, keepdims=True) + y,
            lambda: sc.concat([x[:8], y[8:]], axis=0),
            lambda: sc.where(x > 0.5, x, y),
            lambda: x.to(device),
            lambda: x.to(device),
            lambda: sc.permute_dims(x, (1, 0)).to(device),
            lambda: x.to(device).to(other),
            lambda: sc.permute_dims(x.to(device), (1, 0)).to(other).to(device),
            lambda: sc.concat([x[:part].to(device)] * (16 // part), axis=0),
            lambda: sc.concat([x[:part].to(device).to(other)] * (16 // part), axis=0),
            lambda: sc.concat([x.to(device)[:part].to(other)] * (16 // part), axis=0),
            lambda: seen_and_sent(sc.permute_dims(x.to(device), (1, 0)), other),
            lambda: seen_and_sent(sc.permute_dims(x.to(device), (1, 0))[:part], other),
        )
    )()


def some_graph(random: Random) -> tuple[list[Any], dict[Any, Any]]:
    variables = [
        sc.variable(np.ones(DIMS, np.float32), f"v{k}") for k in range(random.randint(0, 2))
    ]
    pool = [sc.input(DIMS, name="a"), *variables]
    for _ in range(random.randint(1, 7)):
        pool.append(some_tensor(random, random.choice(pool[-4:]), random.choice(pool)))
    made = pool[1 + len(variables) :]
    outputs = random.sample(made, min(random.randint(1, 3), len(made)))
    return outputs, {v: random.choice(made) for v in variables if random.random() < 0.7}


def executed_us(made: _Placement, on_device: list[bool], pool: str) -> float:
    """Return what the copies of an assignment take that are really made."""
    moved = transfer(made._made(on_device), pool)
    return sum(
        (H2D if line.params.device == "cuda" else D2H) + line.nbytes / 1e3
        for line in moved.graph.lines
        if line.op.kind is Kind.TRANSFER
    )


@pytest.mark.parametrize("pool", ["cpu", "cuda"])
@pytest.mark.parametrize("seed", range(30))
def test_copies_that_are_counted_are_copies_that_are_made(seed: int, pool: str) -> None:
    random = Random(seed)
    outputs, updates = some_graph(random)
    made, _ = placement(outputs, updates, profile("min_cut", pool))
    options = made._options
    free = [k for k, option in enumerate(options) if None not in option.choices]
    for sides in product((False, True), repeat=min(len(free), 6)):
        on_device = [option.choices[0] is None for option in options]
        for node, side in zip(free, sides, strict=False):
            on_device[node] = side
        work_us = sum(o.costs[there] for o, there in zip(options, on_device, strict=True))
        counted_us = assignment_us(made._nodes, on_device) - work_us
        assert counted_us == pytest.approx(executed_us(made, on_device, pool))


@pytest.mark.parametrize("policy", ["table", "min_cut"])
def test_to_takes_the_copy_that_others_take(policy: str) -> None:
    a = sc.input((32, 32), name="a")
    x = a.to("cuda")
    by = profile(policy, backend_id="cuda_naive")
    results = [a @ a, sc.exp(x) @ x]
    found = transfers(results, by)
    assert found.count(("h2d", 4096)) == 1
    flipped = sc.permute_dims(a, (1, 0)).to("cuda")
    assert transfers([a @ a, flipped @ a], by).count(("h2d", 4096)) == 1


def test_what_went_away_is_read_where_it_came_from() -> None:
    a = sc.input((32, 32), name="a")
    by = profile("table")
    assert transfers(sc.exp(a.to("cuda")), by) == [("h2d", 4096)]
    assert transfers(a.to("cuda").to("cpu"), by) == [("h2d", 4096), ("d2h", 4096)]


def test_a_part_goes_by_itself() -> None:
    a = sc.input((32, 32), name="a")
    assert transfers(a[:2].to("cuda"), profile("table")) == [("h2d", 256)]
    part = sc.exp(a)[:2].to("cpu")
    by = profile("table", backend_id="cuda_naive")
    assert transfers(part, by) == [("h2d", 4096), ("d2h", 256)]


@pytest.mark.parametrize("pool", ["cpu", "cuda"])
def test_only_dense_bytes_leave_the_device(pool: str) -> None:
    a = sc.exp(sc.input((32, 8), name="a"))
    views = [sc.permute_dims(a, (1, 0)), a[:, 2:4], a[::2], sc.permute_dims(a, (1, 0))[3:5]]
    for view in views:
        traced = trace([view.to("cpu"), view.to("cuda").to("cpu")])
        by = profile("table", pool, "cuda_naive")
        made = compile_graph(traced.graph, Settings(by, default_profile(), CUDA))
        for step in made.steps:
            if step.backend_id == "transfer" and step.kernel == "d2h":
                assert step.inputs[0].strides == contiguous_strides(step.inputs[0].dims)


def test_a_part_that_lies_dense_needs_no_other_copy() -> None:
    a = sc.exp(sc.input((32, 8), name="a"))
    by = profile("table", backend_id="cuda_naive")
    traced = trace([a[4:6].to("cpu"), a[:, 4:6].to("cpu")])
    made = compile_graph(traced.graph, Settings(by, default_profile(), CUDA))
    assert [line.dims for line in made.graph.lines if line.op.name == "copy"] == [(32, 2)]


def test_a_flipped_view_comes_back_flipped(fake: FakeDriver) -> None:
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    sent = sc.permute_dims(sc.input((3, 4), name="x").to("cuda"), (1, 0)).to("cpu")
    there = sc.permute_dims(on_device(value), (1, 0)).to("cpu")
    executable = sc.compile([sent, there], "default")
    for found in executable.run(x=value):
        np.testing.assert_array_equal(found.numpy(), value.T)


@pytest.mark.parametrize(("policy", "read"), [("table", ["h2d", "d2h"]), ("min_cut", [])])
def test_a_chain_of_10000_views_is_copied_without_recursion(policy: str, read: list[str]) -> None:
    def turned(x: Any) -> Any:
        for number in range(10_000):
            x = sc.flip(x, axis=0) if number % 2 else sc.permute_dims(x, (1, 0))
        return x

    there = turned(sc.input((4, 4), device="cuda"))
    by = profile(policy, backend_id="cuda_naive")
    back = (there.to("cpu"), there[:2].to("cpu"))
    for asked, ways in ((sc.exp(turned(sc.input((4, 4)))), read), *((t, ["d2h"]) for t in back)):
        assert [way for way, _ in transfers(asked, by)] == ways
