"""Evaluation again and again: keys of structures, the cache behind them, and whose values run."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thread_team import THREADS, in_threads

import softcuda as sc
from softcuda.cache import CompileCache
from softcuda.compiler.compile import compile_graph
from softcuda.errors import ArgumentError, ArgumentTypeError, FeedError, ShapeError
from softcuda.evaluating import clear_cache
from softcuda.executor.runtime import Runtime
from softcuda.graph.trace import outline, trace, traced
from softcuda.running import settings_of

EXPRESSIONS = ("ij,jk->ik", "ij,jk,kl->il", "ij,ij->", "ij->ji", "ij,jk,kl,lm->im")
PROFILE = "[meta]\nsoft_version = 0.1.0\n[ops]\nmatmul | any = {}\n"


def values(seed: int, shape: tuple[int, ...] = (8, 8)) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operands(expression: str, seed: int) -> list[sc.Tensor]:
    count = expression.count(",") + 1
    return [sc.tensor(values(seed + number)) for number in range(count)]


def run_once(expression: str, given: list[sc.Tensor]) -> np.ndarray:
    """Return what a compiled graph gives, which no cache of evaluations knows."""
    result: np.ndarray = sc.compile(sc.einsum(expression, *given)).run().numpy()
    return result


# ---- keys ---------------------------------------------------------------------------------------


def structures() -> list[sc.Tensor]:
    """Return nodes of one op over leaves that differ in one thing each."""
    a, b = sc.tensor(values(1)), sc.tensor(values(2))
    wide = sc.tensor(values(3).astype(np.float64))
    turned = sc.asarray(values(4).T)
    variable, other = sc.variable(values(5)), sc.variable(values(6))
    row = sc.tensor(values(7, (1, 8)))
    return [
        *(a + b, b + a, a + a, a * b, a + wide, a + row, a + turned, turned + a, a + 2.0, a + 3.0),
        *(a + variable, variable + other, variable + variable, variable + a, -a, a.sum(0)),
        *(a.sum(1), a.sum(), a.T, a.reshape((64,)), a @ b, sc.concat([a, b]), sc.concat([a, a, b])),
        *(sc.concat([a, b, a]), sc.where(a > 0, a, b), (a + b) * 2.0, sc.einsum("ij,kj->ik", a, b)),
    ]


def test_keys_are_equal_where_graphs_are() -> None:
    first, second = structures(), structures()
    for one, two in itertools.product(first, second):
        keys, graphs = (outline([one])[0], outline([two])[0]), (trace([one]), trace([two]))
        assert (keys[0] == keys[1]) == (graphs[0].graph == graphs[1].graph)
        if keys[0] == keys[1]:
            assert hash(keys[0]) == hash(keys[1])


def test_an_outline_becomes_the_graph_that_a_trace_gives() -> None:
    for node in structures():
        found = traced(outline([node]))
        [executable] = [sc.compile([node])]
        assert found.graph.outputs == (len(found.graph.lines) - 1,)
        assert [x.dims for x in found.nodes] == [line.dims for line in found.graph.lines]
        assert found.leaves == executable.leaves
        np.testing.assert_array_equal(node.numpy(), executable.run()[0].numpy())


# ---- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_evaluation_reads_its_own_operands(expression: str) -> None:
    for seed in range(4):
        given = operands(expression, 10 * seed)
        expected = run_once(expression, given)
        made = sc.einsum(expression, *given)
        np.testing.assert_array_equal(made.numpy(), expected)
        assert made.backend_id is not None
        assert made.inputs == ()


def test_results_that_are_held_are_never_written() -> None:
    given = [operands("ij,jk->ik", seed) for seed in range(9)]
    held = [sc.einsum("ij,jk->ik", *pair).evaluate() for pair in given]
    views = [made.numpy()[2:] for made in held]
    for pair, made, view in zip(given, held, views, strict=True):
        expected = run_once("ij,jk->ik", pair)
        np.testing.assert_array_equal(made.numpy(), expected)
        np.testing.assert_array_equal(view, expected[2:])


def test_a_result_may_be_an_operand_of_the_same_structure() -> None:
    a, expected = sc.tensor(values(1) / 8), values(1) / 8
    step = sc.tensor(values(2) / 8)
    for _ in range(5):
        expected = np.matmul(expected, values(2) / 8)
        a = sc.einsum("ij,jk->ik", a, step).evaluate()
    np.testing.assert_array_equal(a.numpy(), expected)


def test_one_operand_twice_is_another_structure() -> None:
    a, b = operands("ij,jk->ik", 1)
    for pair in ((a, b), (a, a), (b, a), (b, b)):
        expected = run_once("ij,jk->ik", list(pair))
        np.testing.assert_array_equal(sc.einsum("ij,jk->ik", *pair).numpy(), expected)


@pytest.mark.parametrize("turn", [lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2]])
def test_strided_operands(turn: Callable[[np.ndarray], np.ndarray]) -> None:
    for seed in range(3):
        array = turn(values(seed, (8, 16)))
        dense = np.ascontiguousarray(array)
        found = sc.einsum("ij,kj->ik", sc.asarray(array), sc.asarray(dense)).numpy()
        expected = run_once("ij,kj->ik", [sc.asarray(array), sc.asarray(dense)])
        np.testing.assert_array_equal(found, expected)


def test_a_variable_is_read_as_it_is_now() -> None:
    a, weight = sc.tensor(values(1)), sc.variable(values(2))
    kept = []
    for seed in range(3, 7):
        kept.append((sc.einsum("ij,jk->ik", a, weight).evaluate(), weight.numpy()))
        weight.assign(values(seed))
    for made, weights in kept:
        expected = run_once("ij,jk->ik", [a, sc.tensor(weights)])
        np.testing.assert_array_equal(made.numpy(), expected)


def test_an_array_that_is_written_between_evaluations() -> None:
    array = values(1)
    shared, b = sc.asarray(array), sc.tensor(values(2))
    before = sc.einsum("ij,jk->ik", shared, b).evaluate()
    kept = before.numpy().copy()
    array[...] = 0
    assert not sc.einsum("ij,jk->ik", shared, b).numpy().any()
    np.testing.assert_array_equal(before.numpy(), kept)


def test_operands_that_are_gone_are_not_kept() -> None:
    for seed in range(3):
        given = operands("ij,jk->ik", seed)
        watched = [weakref.ref(x.data) for x in given]
        made = sc.einsum("ij,jk->ik", *given).evaluate()
        expected = run_once("ij,jk->ik", given)
        del given
        gc.collect()
        assert [ref() for ref in watched] == [None, None]
        np.testing.assert_array_equal(made.numpy(), expected)


def test_gradients_flow_through_what_was_evaluated() -> None:
    whole = np.rint(values(2))  # whole numbers, whose sums are exact
    a, b = sc.tensor(values(1), requires_grad=True), sc.tensor(whole)
    for _ in range(3):
        made = sc.einsum("ij,jk->ik", a, b).evaluate()
        assert made.inputs == (a, b)
    made.sum().backward()
    assert a.grad is not None
    np.testing.assert_array_equal(a.grad.numpy(), np.broadcast_to(whole.sum(1), (8, 8)))
    with sc.no_grad():
        assert sc.einsum("ij,jk->ik", a, b).evaluate().inputs == ()


def test_threads_evaluate_one_structure() -> None:
    given = [operands("ij,jk,kl->il", seed) for seed in range(THREADS)]
    expected = [run_once("ij,jk,kl->il", each) for each in given]

    def work(number: int) -> None:
        for _ in range(20):
            found = sc.einsum("ij,jk,kl->il", *given[number]).numpy()
            np.testing.assert_array_equal(found, expected[number])

    in_threads(work)


def test_threads_evaluate_one_node() -> None:
    given = operands("ij,jk->ik", 1)
    expected = run_once("ij,jk->ik", given)
    for _ in range(20):
        node = sc.einsum("ij,jk->ik", *given)
        found: list[Any] = [None] * THREADS

        def work(number: int, node: sc.Tensor = node, found: list[Any] = found) -> None:
            found[number] = node.evaluate().data

        in_threads(work)
        assert len(set(map(id, found))) == 1
        np.testing.assert_array_equal(found[0], expected)


# ---- what decides -------------------------------------------------------------------------------


def test_the_profile_of_now_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = operands("ij,jk->ik", 1)

    def chosen() -> str | None:
        return sc.einsum("ij,jk->ik", *given).evaluate().backend_id

    assert chosen() == "cpu_blas"
    file = tmp_path / "CONFIG.soft"
    file.write_text(PROFILE.format("cpu_fallback"), encoding="utf-8")
    monkeypatch.setenv("SOFTCUDA_CONFIG", str(file))
    assert chosen() == "cpu_fallback"
    file.write_text(PROFILE.format("cpu_blas"), encoding="utf-8")
    assert chosen() == "cpu_blas"
    file.write_text(PROFILE.format("cpu_fallback") + "# longer\n", encoding="utf-8")
    assert chosen() == "cpu_fallback"
    monkeypatch.setenv("SOFTCUDA_CONFIG", "default")
    assert chosen() == "cpu_blas"
    monkeypatch.chdir(tmp_path)
    assert chosen() == "cpu_blas"
    monkeypatch.delenv("SOFTCUDA_CONFIG")
    assert chosen() == "cpu_fallback"


def test_what_is_refused_is_refused_each_time() -> None:
    a, b = operands("ij,jk->ik", 1)
    x = sc.input((8, 8), name="x")
    for _ in range(2):
        with pytest.raises(ShapeError, match="label j has extent 8 in operand 0"):
            sc.einsum("ij,jk->ik", a, sc.tensor(values(1, (3, 8))))
        with pytest.raises(ArgumentTypeError, match="memory_limit is True"):
            sc.einsum("ij,jk->ik", a, b, memory_limit=True)
        with pytest.raises(ArgumentError, match="optimi"):
            sc.einsum("ij,jk->ik", a, b, optimize="fastest")
        with pytest.raises(FeedError, match="reads the input 'x'"):
            sc.einsum("ij,jk->ik", a, x).evaluate()


def test_a_path_is_another_definition() -> None:
    a, b, c = sc.ones((2, 8)), sc.ones((8, 8)), sc.ones((8, 3))
    for pair, dims in ((0, 1), (2, 8)), ((1, 2), (8, 3)):
        made = sc.einsum("ij,jk,kl->il", a, b, c, optimize=[pair, (0, 1)])
        assert dims in [x.dims for x in made.inputs if x.op.name == "matmul"]
        np.testing.assert_array_equal(made.numpy(), np.full((2, 3), 64))


# ---- the cache ----------------------------------------------------------------------------------


def runtime_of(node: sc.Tensor) -> tuple[Any, Runtime]:
    found = trace([node])
    return found.graph, Runtime(compile_graph(found.graph, settings_of(None, None, False, found)))


def test_the_least_recently_used_runtime_is_dropped_first() -> None:
    cache = CompileCache[Runtime](capacity=2)
    graph, made = runtime_of(sc.tensor(values(1)) + 1.0)
    assert cache.get("a") is None
    assert cache.add("a", graph, made) is made
    cache.add("b", graph, made)
    assert cache.get("a") is made
    cache.add("c", graph, made)
    assert (cache.get("b"), cache.get("a"), cache.get("c")) == (None, made, made)
    assert len(cache) == 2
    _, later = runtime_of(sc.tensor(values(1)) + 1.0)
    assert cache.add("a", graph, later) is made  # another thread was first
    cache.clear()
    assert cache.get("a") is None


def test_a_structure_that_is_compiled_again_has_no_other_numbers() -> None:
    cache = CompileCache[Runtime](capacity=1)
    graph, made = runtime_of(sc.tensor(values(1)) + 1.0)
    for number in range(20):
        cache.add(number, graph, made)
    with pytest.warns(sc.SoftCudaWarning, match="was compiled 8 times and only the numbers"):
        for number in range(20):
            cache.add(number, *runtime_of(sc.tensor(values(1)) + float(number)))


def test_a_cleared_cache_compiles_again() -> None:
    given = operands("ij,jk->ik", 1)
    expected = sc.einsum("ij,jk->ik", *given).numpy()
    clear_cache()
    np.testing.assert_array_equal(sc.einsum("ij,jk->ik", *given).numpy(), expected)
