"""Faults that a breaker found, by kind: the right value or the error of softcuda that says why."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import profile_of

import softcuda as sc
from softcuda.backends import Operand
from softcuda.backends.host.mapped import load
from softcuda.compiler.layout import Layout, layout_of
from softcuda.dtype import f64
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    FeedError,
    NumberRangeError,
    ShapeError,
    SoftCudaError,
)
from softcuda.executor.binding import window_on
from softcuda.generator import Generator
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.graph.params import Slice
from softcuda.pool.host import HostPool

HUGE = 10**400


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_zeros_of_both_signs_are_two_numbers(kind: Callable[[float], Any]) -> None:
    x = sc.tensor([1.0])
    for zero, wanted in ((0.0, np.inf), (-0.0, -np.inf), (0.0, np.inf)):
        assert sc.divide(x, kind(zero)).numpy() == [wanted]
        assert (x / kind(zero)).numpy() == [wanted]


@pytest.mark.parametrize(
    ("dtype", "bound"), [("f32", 3e38), ("bf16", 2.0**127), ("f64", 1.7e308), ("f16", 65504.0)]
)
def test_uniform_over_more_than_half_of_the_range(dtype: str, bound: float) -> None:
    drawn = sc.uniform((1000,), -bound, bound, dtype, Generator(3)).numpy().astype(np.float64)
    unit = sc.uniform((1000,), 0, 1, "f64" if dtype == "f64" else "f32", Generator(3)).numpy()
    assert np.abs(drawn).max() <= bound
    share = drawn / bound / 2 + 0.5
    assert np.abs(share - unit).max() < 0.01


def test_uniform_keeps_its_bits_where_the_span_is_finite() -> None:
    drawn = sc.uniform((64,), -3, 5, generator=Generator(1)).numpy()
    unit = sc.uniform((64,), generator=Generator(1)).numpy()
    np.testing.assert_array_equal(drawn, unit * np.float32(8) + np.float32(-3))


@pytest.mark.parametrize(("dtype", "bound"), [("f16", 1e6), ("f32", 1e39), ("bf16", 3.4e38)])
def test_bounds_outside_the_dtype_are_refused(dtype: str, bound: float) -> None:
    for draw in (sc.uniform, sc.normal):
        with pytest.raises(ArgumentError, match=f"inf in {dtype}"):
            draw((2,), 0, bound, dtype)
        with pytest.raises(ArgumentError, match=f"inf in {dtype}"):
            draw((2,), -bound, 1, dtype)


def test_an_axis_of_one_element_has_no_direction() -> None:
    line = Line(OPS["slice"], (0,), (1,), f64, Slice((1,), (-1,), (1,)))
    leaf = Line(OPS["none"], (), (2,), f64, ())
    assert layout_of(1, line, [Layout(0, 0, (1,))], [leaf, line]) == Layout(0, 1, (1,))
    backward = np.arange(1.0)[::-1]
    window = window_on(backward, Operand(0, 0, (1,), (1,), f64))
    assert backward.strides == (-8,)
    assert window.strides == (8,)
    assert load(window, f64) is window


def test_values_do_not_depend_on_the_backend_of_one_element() -> None:
    fed = sc.input((2,), "f64", "x")
    view, leaf = sc.log1p(fed[::-1][:1]), sc.asarray(np.array([0.7])[::-1])
    fused, plain = (
        sc.compile([view, sc.log1p(leaf)], profile_of(name))
        for name in ("cpu_fused", "cpu_fallback")
    )
    for number in np.random.default_rng(5).uniform(0, 4, 300):
        feeds = {"x": np.array([1.0, number]), leaf: np.array([number])[::-1]}
        results = [x.numpy().tobytes() for run in (fused, plain) for x in run.run(feeds)]
        assert len(set(results)) == 1


def bools(*stored: int) -> np.ndarray[Any, Any]:
    return np.array(stored, np.uint8).view(np.bool_)


def test_every_true_byte_is_true() -> None:
    condition, a, b = bools(255, 0, 2, 1, 128), np.arange(5.0), -np.arange(5.0) - 1
    wanted = np.where(condition, a, b)
    leaf = sc.asarray(condition)
    fed = sc.input((5,), "bool", "c")
    run = sc.compile(sc.where(fed, a, b))
    np.testing.assert_array_equal(sc.where(leaf, a, b).numpy(), wanted)
    np.testing.assert_array_equal(sc.where(condition, a, b).numpy(), wanted)
    np.testing.assert_array_equal(run.run(c=condition).numpy(), wanted)
    held = sc.variable(np.zeros(5, np.bool_))
    held.assign(condition)
    for kept in (leaf, sc.tensor(condition), sc.from_dlpack(condition), held):
        assert kept.numpy().view(np.uint8).tolist() == [1, 0, 1, 1, 1]


def test_true_bytes_written_later_are_true() -> None:
    shared = np.zeros(4, np.bool_)
    leaf = sc.asarray(shared)
    shared.view(np.uint8)[...] = (255, 0, 3, 1)
    np.testing.assert_array_equal(sc.where(leaf, 1.5, -2.5).numpy(), [1.5, -2.5, 1.5, 1.5])
    assert (leaf & True).numpy().tolist() == [True, False, True, True]
    assert leaf.sum().item() == 3
    assert leaf.cast("f16").numpy().tolist() == [1, 0, 1, 1]


def test_two_generators_in_one_graph() -> None:
    first, second = Generator(1), Generator(2)
    run = sc.compile(sc.uniform((3,), generator=first) + sc.normal((3,), generator=second))
    one, other = run.run().numpy(), run.run().numpy()
    assert (one != other).all()
    assert (first.state.counter, second.state.counter) == (2, 2)
    assert first.variable.name is None


def test_a_random_node_is_drawn_once() -> None:
    draw = sc.uniform((4,), generator=Generator(7))
    again = sc.normal((4,), generator=Generator(7))
    later = draw + 0
    both = (draw + again).numpy()
    np.testing.assert_array_equal(later.numpy(), draw.numpy())
    np.testing.assert_array_equal(both, draw.numpy() + again.numpy())
    assert draw.evaluated


def test_evaluating_a_random_node_advances_its_generator_once() -> None:
    source = Generator(7)
    draw = sc.uniform((4,), generator=source)
    sc.evaluate(draw * 2, draw - 1)
    first = draw.numpy()
    assert source.state.counter == 1
    np.testing.assert_array_equal(first, sc.uniform((4,), generator=Generator(7)).numpy())


STRIDED: tuple[Callable[[], np.ndarray[Any, Any]], ...] = (
    lambda: np.arange(6.0)[::-1],
    lambda: np.arange(6.0)[::2],
    lambda: np.arange(6.0).reshape(2, 3).T[::-1],
    lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
    lambda: np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3),
    lambda: np.arange(24.0).reshape(2, 3, 4)[:, ::-1, 1::2].transpose(2, 0, 1),
    lambda: np.arange(3.0)[::-1][:1],
    lambda: np.empty((3, 0))[::-1],
)


@pytest.mark.parametrize("make", STRIDED)
def test_a_pickled_executable_has_its_strided_leaves(make: Callable[[], Any]) -> None:
    array = make()
    before = sc.compile(sc.asarray(array) + 1)
    for after in (pickle.loads(pickle.dumps(before)), copy.deepcopy(before)):
        np.testing.assert_array_equal(after.run().numpy(), array + 1)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(after)).run().numpy(), array + 1)


X = sc.tensor(np.arange(6.0).reshape(2, 3))


def odd(value: Any) -> Any:
    """Return an argument of a type that the signature forbids."""
    return value


def contains_itself() -> list[Any]:
    outputs: list[Any] = [X]
    outputs.append(outputs)
    return outputs


REFUSED: dict[str, tuple[type[SoftCudaError], Callable[[], Any]]] = {
    "arange step": (ShapeError, lambda: sc.arange(0, 1, 1e-320)),
    "arange distance": (ArgumentError, lambda: sc.arange(-1e308, 1e308)),
    "arange stop": (NumberRangeError, lambda: sc.arange(HUGE)),
    "arange start": (NumberRangeError, lambda: sc.arange(HUGE, 1.5)),
    "arange step int": (NumberRangeError, lambda: sc.arange(0.0, 1.0, HUGE)),
    "linspace start": (NumberRangeError, lambda: sc.linspace(HUGE, 1)),
    "linspace stop": (NumberRangeError, lambda: sc.linspace(0, -HUGE)),
    "linspace num": (ShapeError, lambda: sc.linspace(0, 1, HUGE)),
    "linspace endpoint": (ArgumentTypeError, lambda: sc.linspace(0, 1, 3, odd([]))),
    "uniform": (NumberRangeError, lambda: sc.uniform((2,), 0, HUGE)),
    "normal": (NumberRangeError, lambda: sc.normal((2,), HUGE)),
    "var": (NumberRangeError, lambda: sc.var(X, correction=HUGE)),
    "std": (NumberRangeError, lambda: sc.std(X, correction=HUGE)),
    "norm": (NumberRangeError, lambda: sc.norm(X, HUGE)),
    "layer_norm eps": (NumberRangeError, lambda: sc.layer_norm(X, eps=HUGE)),
    "layer_norm text": (ArgumentTypeError, lambda: sc.layer_norm(X, axes_count=odd("a"))),
    "layer_norm part": (ArgumentTypeError, lambda: sc.layer_norm(X, axes_count=odd(1.5))),
    "full": (NumberRangeError, lambda: sc.full((2,), HUGE)),
    "pad": (NumberRangeError, lambda: sc.pad(X, 1, constant_values=HUGE)),
    "add": (NumberRangeError, lambda: X + HUGE),
    "one_hot depth": (ShapeError, lambda: sc.one_hot([1], HUGE)),
    "updates": (ArgumentTypeError, lambda: sc.compile([], updates=odd([1, 2]))),
    "outputs": (ArgumentError, lambda: sc.compile(contains_itself())),
    "pool size": (ArgumentTypeError, lambda: HostPool(odd(1.5))),
    "pool text": (ArgumentTypeError, lambda: HostPool(odd("x"))),
    "pool limit": (ArgumentTypeError, lambda: HostPool(256, odd(1.5))),
    "pool mark": (ArgumentError, lambda: HostPool().reset(odd(5))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_are_of_softcuda(case: str) -> None:
    kind, call = REFUSED[case]
    with pytest.raises(kind):
        call()


@pytest.mark.parametrize(
    "name",
    [
        *("sum", "prod", "min", "max", "mean", "any", "all"),
        *("argmin", "argmax", "logsumexp", "var", "std", "norm"),
    ],
)
@pytest.mark.parametrize("keepdims", [np.array([]), np.array([1, 2]), "no", None, 1.0])
def test_keepdims_is_a_flag(name: str, keepdims: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=f"{name}: keepdims"):
        getattr(sc, name)(X, keepdims=keepdims)
    assert getattr(sc, name)(X, keepdims=np.bool_(True)).shape == (1, 1)


def test_numbers_of_diagonals_may_be_of_any_size() -> None:
    full, none = X.numpy(), np.zeros((2, 3))
    for k in (1 << 63, HUGE):
        assert np.array_equal(sc.tril(X, k).numpy(), full)
        assert np.array_equal(sc.triu(X, -k).numpy(), full)
        assert np.array_equal(sc.tril(X, -k).numpy(), none)
        assert np.array_equal(sc.triu(X, k).numpy(), none)
        assert np.array_equal(sc.eye(2, 3, k).numpy(), none)
        assert np.array_equal(sc.eye(2, 3, -k).numpy(), none)
    for k in range(-4, 5):
        assert np.array_equal(sc.tril(X, k).numpy(), np.tril(full, k))
        assert np.array_equal(sc.triu(X, k).numpy(), np.triu(full, k))
        assert np.array_equal(sc.eye(2, 3, k).numpy(), np.eye(2, 3, k))


@pytest.mark.parametrize("rank", [0, 1, 31, 32, 33, 63])
def test_one_hot_of_every_rank(rank: int) -> None:
    dims = (2, *(1,) * (rank - 2), 3) if rank > 1 else (3,) * rank
    indices = np.arange(math.prod(dims)).reshape(dims) % 4 - 1
    wanted = (indices[..., None] == np.arange(2)).astype(np.float32)
    assert np.array_equal(sc.one_hot(indices, 2).numpy(), wanted)


def test_outputs_may_be_nested_deep() -> None:
    outputs: Any = X + 1
    for _ in range(99):
        outputs = [outputs]
    result = sc.compile(outputs).run()
    while isinstance(result, list):
        (result,) = result
    assert np.array_equal(result.numpy(), X.numpy() + 1)


@pytest.mark.parametrize("other", ["x", b"x", np.str_("x"), None])
def test_a_tensor_is_not_equal_to_what_no_dtype_holds(other: Any) -> None:
    for equal in (operator.eq(X, other), operator.eq(other, X)):
        assert equal is False
    for differs in (operator.ne(X, other), operator.ne(other, X)):
        assert differs is True
    assert other not in X
    assert X not in [other]


def test_a_masked_feed_is_refused() -> None:
    leaf = sc.input((2,), "f64", "x")
    with pytest.raises(FeedError, match="mask"):
        sc.compile(leaf + 1).run(x=np.ma.array([1.0, 2.0], mask=[False, True]))


def test_an_array_of_a_variable_is_a_copy() -> None:
    held = sc.variable(np.ones(2))
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(held, copy=False)
    np.asarray(held)[...] = 5
    assert held.tolist() == [1, 1]
    assert np.asarray(X, copy=False).base is not None
