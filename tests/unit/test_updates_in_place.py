"""Updates of variables in their own buffers: what is written in place, what is copied, what holds.

In a run every read sees the old value, and a run that fails leaves all variables as they were.
"""

from __future__ import annotations

import gc
import signal
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import optim
from softcuda.backends.host.chain import Blocks
from softcuda.executor.arenas import HOST_ARENAS
from softcuda.interrupts import Uninterrupted

Array = np.ndarray[Any, Any]


def variable(shape: tuple[int, ...] = (3, 4), name: str = "w", seed: int = 0) -> sc.Tensor:
    """Return a variable of small whole numbers, whose sums are exact."""
    return sc.variable(whole(shape, seed), name)


def whole(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float64)


def rows(executable: Any) -> list[str]:
    return str(executable).splitlines()


def in_place(executable: Any) -> int:
    """Return how many new values are written into their variables."""
    return sum("in place" in row for row in rows(executable))


def copied(executable: Any) -> int:
    """Return how many new values are copied at the end of a run."""
    return sum(" update " in row for row in rows(executable))


def test_an_elementwise_step_writes_the_buffer_that_it_reads() -> None:
    w, g = variable(), sc.input((3, 4), sc.f64, name="g")
    buffer, old = w.data, w.numpy().copy()
    step = sc.compile(sc.sum(w), "default", updates={w: w - 0.5 * g})
    assert (in_place(step), copied(step)) == (1, 0)
    slope = np.arange(12.0).reshape(3, 4)
    for number in range(4):
        right = old - number * 0.5 * slope
        assert step.run(g=slope).item() == np.sum(right)
        assert w.data is buffer
        assert np.array_equal(w.numpy(), right - 0.5 * slope)


@pytest.mark.parametrize(
    "make",
    [
        lambda w, x: w.T + x,  # another order
        lambda w, x: w @ x,  # no elementwise op
        lambda w, x: sc.flip(w, axis=0) * 2,
        lambda w, x: w - sc.sum(w * 2.0, axis=0),  # also read as a whole, in an earlier step
        lambda w, x: sc.concat([w[1:], w[:1]]),
    ],
    ids=["turned", "matmul", "reversed", "summed", "shifted"],
)
def test_values_are_those_of_the_old_variable(make: Any) -> None:
    w, x = variable((4, 4)), sc.tensor(whole((4, 4), 1))
    expected = make(w, x).numpy()
    step = sc.compile(sc.sum(w), "default", updates={w: make(w, x)})
    before = np.sum(w.numpy())
    assert step.run().item() == before
    assert np.array_equal(w.numpy(), expected)


def test_variables_change_places() -> None:
    a, b, c = (variable((4, 4), name, seed) for seed, name in enumerate("abc"))
    old = [x.numpy().copy() for x in (a, b, c)]
    step = sc.compile(a + 0.0, "default", updates={a: b + 1.0, b: c + a, c: a.T})
    assert in_place(step) + copied(step) == 3 and copied(step) > 0
    step.run()
    assert np.array_equal(a.numpy(), old[1] + 1.0)
    assert np.array_equal(b.numpy(), old[2] + old[0])
    assert np.array_equal(c.numpy(), old[0].T)


def test_an_output_keeps_its_value() -> None:
    w = variable()
    new = w * 2.0
    step = sc.compile([w + 0.0, new], "default", updates={w: new})
    old = w.numpy().copy()
    before, after = step.run()
    held = step.run()[1]
    assert copied(step) == 1
    assert np.array_equal(before.numpy(), old)
    assert np.array_equal(after.numpy(), 2 * old)
    assert np.array_equal(held.numpy(), 4 * old)
    assert np.array_equal(w.numpy(), 4 * old)


def test_one_new_value_of_two_variables() -> None:
    a, b = variable(name="a"), variable(name="b", seed=1)
    new = a + b
    step = sc.compile(sc.sum(a), "default", updates={a: new, b: new})
    expected = a.numpy() + b.numpy()
    step.run()
    assert np.array_equal(a.numpy(), expected) and np.array_equal(b.numpy(), expected)


OPS = (
    lambda a, b: a + b,
    lambda a, b: a * 0.5 - b,
    lambda a, b: a.T @ b,
    lambda a, b: sc.where(a > b, a, b.T),
    lambda a, b: a - sc.mean(b, axis=0),
    lambda a, b: sc.tanh(a),
    lambda a, b: b[::-1] * 0.25,
)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    """Random expressions of variables, each updated by some; NumPy's copies are the oracle."""
    rng = np.random.default_rng(seed)
    variables = [variable((5, 5), f"v{k}", seed + k) for k in range(4)]
    made = list(variables)
    for _ in range(10):
        picked = rng.integers(len(made), size=2)
        made.append(OPS[rng.integers(len(OPS))](made[picked[0]], made[picked[1]]))
    new = {v: made[rng.integers(1, len(made))] for v in variables}
    outputs = [sc.sum(made[-1]), made[rng.integers(len(made))] + 1.0]
    step = sc.compile(outputs, "default", updates=new)
    plain = sc.compile([*outputs, *new.values()], "default")
    for _ in range(3):
        *right, w, x, y, z = plain.run()
        found = step.run()
        for a, b in zip(found, right, strict=True):
            assert np.array_equal(a.numpy(), b.numpy())
        for v, b in zip(variables, (w, x, y, z), strict=True):
            assert np.array_equal(v.numpy(), b.numpy()), str(step)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW], ids=lambda m: m.__name__)
def test_optimisers_copy_no_parameter(make: Any) -> None:
    parameters = {name: variable((4, 4), name, k) for k, name in enumerate("ab")}
    x = sc.input((3, 4), sc.f64, name="x")
    loss = sc.sum((x @ parameters["a"] @ parameters["b"]) ** 2)
    optimizer = make(parameters, 0.1)
    step = sc.compile(loss, "default", updates=optimizer.updates(loss))
    assert copied(step) == 0
    assert in_place(step) == len(optimizer.parameters) + len(optimizer.state)


def test_the_arena_does_not_hold_new_values() -> None:
    count = 1 << 18
    w, g = variable((count,)), sc.input((count,), sc.f64, name="g")
    step = sc.compile(sc.sum(g), "default", updates={w: w - sc.exp(g)})
    assert step.arena_bytes < count


def test_a_fed_variable_is_read_as_it_was() -> None:
    """Another leaf is fed the very variable that the run changes."""
    w, v, x = variable((40, 500)), variable((40, 500), "v"), sc.input((40, 500), sc.f64, name="x")
    step = sc.compile(sc.sum(x), "default", updates={w: w * 2.0 + x, v: w + x})
    assert in_place(step) == 2
    for fed in (w, v, w, w, v):
        old, given = w.numpy().copy(), fed.numpy().copy()
        assert step.run(x=fed).item() == given.sum()
        assert np.array_equal(w.numpy(), 2.0 * old + given)
        assert np.array_equal(v.numpy(), old + given)


def test_leaves_that_share_memory_with_a_variable() -> None:
    w, s = variable((6, 6)), variable((3, 6), "s")
    shared = sc.asarray(w.data[::2])
    step = sc.compile(sc.sum(shared), "default", updates={w: w * 2.0, s: shared + 1.0})
    assert in_place(step) == 2
    for _ in range(3):
        old = w.numpy().copy()
        assert step.run().item() == old[::2].sum()
        assert np.array_equal(s.numpy(), old[::2] + 1.0)
        assert np.array_equal(w.numpy(), old * 2.0)


def test_a_bad_index_leaves_every_variable_as_it_was() -> None:
    table, w = variable((10, 4), "table"), variable((4, 4))
    index = sc.input((3,), sc.i64, name="index")
    loss = sc.sum((sc.take(table, index, axis=0) @ w) ** 2)
    updates = optim.SGD({"table": table, "w": w}, 0.1).updates(loss)
    step = sc.compile(loss, "default", updates=updates)
    assert in_place(step) > 0
    step.run(index=np.arange(3))
    old = [x.numpy().copy() for x in (table, w)]
    with pytest.raises(sc.errors.IndexOutOfRange):
        step.run(index=np.array([1, 10, 2]))
    assert np.array_equal(table.numpy(), old[0]) and np.array_equal(w.numpy(), old[1])


def test_powers_of_integers_may_fail_and_are_copied() -> None:
    n, w = sc.variable(np.arange(1, 5), "n"), variable((4,))
    by = sc.input((4,), sc.i64, name="by")
    step = sc.compile(sc.sum(w), "default", updates={n: n**by, w: w * 2.0})
    old = w.numpy().copy()
    with pytest.raises(sc.errors.IntegerPowerError):
        step.run(by=np.array([1, 2, -1, 2]))
    assert np.array_equal(w.numpy(), old) and np.array_equal(n.numpy(), np.arange(1, 5))
    step.run(by=np.full(4, 2))
    assert np.array_equal(n.numpy(), np.arange(1, 5) ** 2)


def test_ctrl_c_waits_until_all_variables_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 200_000
    a, b = variable((count,), "a"), variable((count,), "b", 1)
    step = sc.compile(sc.sum(a), "default", updates={a: a + 1.0, b: b + a * 0.5})
    step.run()
    old = [a.numpy().copy(), b.numpy().copy()]
    compute = Blocks.compute

    def interrupted(self: Any, *given: Any) -> None:
        compute(self, *given)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Blocks, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step.run()
    monkeypatch.undo()
    assert np.array_equal(a.numpy(), old[0] + 1.0)
    assert np.array_equal(b.numpy(), old[1] + old[0] * 0.5)


def test_what_is_held_back_is_handed_on() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append(1)
    assert done == [1]
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), Uninterrupted():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


def test_memory_is_flat_over_10000_steps() -> None:
    """Objects, blocks of the interpreter, buffers and arenas: all are those of the first steps."""
    w, x = variable((4, 4)), sc.input((8, 4), sc.f64, name="x")
    loss = sc.mean(sc.tanh(x @ w) ** 2)
    step = sc.compile(loss, "default", updates=optim.SGD([w], 1e-3, 0.9).updates(loss))
    values = whole((8, 4), 1)

    def held(steps: int) -> tuple[int, int, int, int]:
        for _ in range(steps):
            step.run(x=values)
        gc.collect()
        memory = HOST_ARENAS.held_bytes + step._ready().held_bytes
        return len(gc.get_objects()), sys.getallocatedblocks(), memory, w.data.ctypes.data

    first, last = held(500), held(9500)
    assert last[0] <= first[0] + 10
    assert last[1] <= first[1] + 100
    assert last[2:] == first[2:]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held(200)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 10_000
