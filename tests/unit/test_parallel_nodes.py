"""Nodes of a driver graph wait for what they depend on, in whatever order the device runs them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_driver_graphs import FakeNode
from fake_kernels import CudaOfTests, fake_kernels, kernel_profile
from fake_sessions import on_device
from op_cases import fast_profile

import softcuda as sc
from softcuda import nn, optim
from softcuda.compiler.dependences import dependences

Array = np.ndarray[Any, Any]

SHAPE = (4, 8)
SMALL = np.arange(32, dtype=np.float32).reshape(SHAPE)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def nodes(fake: FakeDriver) -> list[FakeNode]:
    """Return the nodes of the graph that was instantiated last."""
    return fake.executables[max(fake.executables)]


def before(found: list[FakeNode]) -> list[list[int]]:
    """Return for each node the nodes that it waits for, by their numbers."""
    number = {node.handle: k for k, node in enumerate(found)}
    return [sorted(number[handle] for handle in node.after) for node in found]


def test_branches_run_side_by_side(fake: FakeDriver) -> None:
    x = on_device(SMALL)
    stem = -x
    left, right = -(stem + x), stem + stem
    executable = sc.compile(left + right, kernel_profile())
    assert np.array_equal(executable.run().numpy(), -2 * SMALL)
    found = before(nodes(fake))
    assert len(found) == 5
    assert sum(not each for each in found) == 1, "one beginning"
    assert sorted(map(len, found)) == [0, 1, 1, 1, 2], "no edge that others make needless"


def test_a_chain_has_one_edge_a_node(fake: FakeDriver) -> None:
    made = x = on_device(SMALL)
    for _ in range(20):
        made = -(made + x)
    executable = sc.compile(made, kernel_profile())
    assert np.array_equal(executable.run().numpy(), SMALL)
    assert before(nodes(fake)) == [[], *([k] for k in range(39))]


def test_an_array_of_the_host_comes_when_its_first_reader_needs_it(fake: FakeDriver) -> None:
    x = sc.input(SHAPE, "f32", name="x")
    y = on_device(SMALL)
    executable = sc.compile(-y + (x + y), kernel_profile())
    assert np.array_equal(executable.run(x=SMALL * 2).numpy(), SMALL * 2)
    found = nodes(fake)
    (bring,) = (k for k, node in enumerate(found) if node.kind == "copy")
    edges = before(found)
    assert edges[bring] == []
    assert sum(bring in each for each in edges) == 1
    assert sum(not each for each in edges) == 2, "the other branch does not wait for it"


def test_readers_of_a_shared_input_come_behind_its_copy(fake: FakeDriver) -> None:
    x = sc.input(SHAPE, "f32", name="x", device="cuda")
    y, z = on_device(SMALL), on_device(SMALL)
    made = ((x + y) + x) + (-(y + z) + (x + z))
    executable = sc.compile(made, kernel_profile())
    assert np.array_equal(executable.run(x=on_device(SMALL)).numpy(), SMALL * 3)
    found = nodes(fake)
    assert [node.kind for node in found].count("copy") == 1 and found[0].kind == "copy"
    edges = before(found)
    assert sum(0 in each for each in edges) == 2, "the third reader comes behind the first"
    assert sum(not each for each in edges) == 2, "y + z waits for nothing"
    for number in range(5):
        fed = np.full(SHAPE, number, np.float32)
        fake.chances = Random(number)
        assert np.array_equal(executable.run(x=on_device(fed)).numpy(), fed * 3)


def test_a_variable_changes_behind_all_its_readers(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaOfTests, "in_place", lambda self, step: step, raising=False)
    w = sc.variable(SMALL, "w", device="cuda")
    others = [on_device(SMALL * k) for k in range(4)]
    step = sc.compile([w + other for other in others], kernel_profile(), updates={w: w + w})
    for number in range(10):
        fake.chances = Random(number)
        for k, each in enumerate(step.run()):
            assert np.array_equal(each.numpy(), SMALL * (2**number + k))
    (last,) = (each for each in before(nodes(fake)) if each)
    assert len(last) == len(others)


@pytest.mark.parametrize("declares", [False, True], ids=["copied", "in_place"])
def test_a_fed_variable_is_read_before_it_changes(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, declares: bool
) -> None:
    """The buffer of a variable is the input of another leaf, which is read on another branch."""
    if declares:
        monkeypatch.setattr(CudaOfTests, "in_place", lambda self, step: step, raising=False)
    w = sc.variable(SMALL, "w", device="cuda")
    x = sc.input(SHAPE, "f32", name="x", device="cuda")
    y = on_device(SMALL)
    late = -((x + x) + (y + y))
    step = sc.compile(late + (y + y), kernel_profile(), updates={w: w + y})
    for number in range(20):
        fake.chances = Random(number)
        old = w.numpy().copy()
        assert np.array_equal(step.run(x=w).numpy(), -2 * old)
        assert np.array_equal(w.numpy(), old + SMALL)


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_the_nodes_gives_the_same_bits(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Random graphs with arena memory used again, outputs that move, feeds and updates."""
    if seed % 2:
        monkeypatch.setattr(CudaOfTests, "in_place", lambda self, step: step, raising=False)
    if seed % 3:  # memory is used again as soon as it can be
        monkeypatch.setattr("softcuda.compiler.allocate._PARTED_BYTES", 0)
    rng = np.random.default_rng(seed)
    start = [rng.normal(size=SHAPE).astype(np.float32) for _ in range(2)]
    variables = [sc.variable(x, f"v{k}", device="cuda") for k, x in enumerate(start)]
    x = sc.input(SHAPE, "f32", name="x", device="cuda" if seed % 4 else "cpu")
    made: list[Any] = [x, *variables]
    for _ in range(40):
        a, b = (made[int(k)] for k in rng.integers(max(0, len(made) - 12), len(made), 2))
        made.append(a + b if rng.random() < 0.7 else -a)
    outputs = [x + made[-1], *(made[int(k)] for k in rng.integers(3, len(made), 3))]
    updates = {v: made[int(rng.integers(3, len(made)))] for v in variables}
    step = sc.compile(outputs, kernel_profile(), updates=updates)
    fed = [rng.normal(size=SHAPE).astype(np.float32) for _ in range(2)]
    arrays = fed if not seed % 4 else [on_device(each) for each in fed]
    runs, kept = [], []
    for trial in range(4):
        fake.chances = Random(trial) if trial else None
        for v, first in zip(variables, start, strict=True):
            v.assign(first)
        runs.append([])
        for number in range(6):
            found = step.run(x=arrays[number % 2])
            runs[-1].append([each.numpy().tobytes() for each in (*found, *variables)])
            if number % 3:
                kept.append(found)  # what is in use stays: the next outputs lie elsewhere
    assert all(run == runs[0] for run in runs[1:])


@pytest.mark.parametrize("depth", [1, 4])
def test_the_longest_chain_of_a_training_step(fake: FakeDriver, depth: int) -> None:
    """Forward, the slope of the loss, backward, the first weight: all else is aside."""
    layers: list[Any] = []
    for number in range(depth):
        layers += [sc.relu] if number else []
        layers.append(nn.Linear(16, 16, device="cuda"))
    model = nn.Sequential(*layers)
    x, t = (sc.input((8, 16), name=name, device="cuda") for name in "xt")
    loss = sc.mse_loss(model(x), t)
    updates = optim.SGD(list(model.parameters().values()), 0.1).updates(loss)
    program = sc.compile(loss, fast_profile(), target="sm_90a", updates=updates).program
    assert len(program.steps) == 4 * depth + 1, "a new value is no step of its own"
    length: dict[int, int] = {}
    for number, earlier in dependences(list(enumerate(program.steps)), program.places).items():
        length[number] = 1 + max((length[other] for other in earlier), default=0)
    assert max(length.values()) == 2 * depth + 1
