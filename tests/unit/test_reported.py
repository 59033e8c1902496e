"""Faults that a first user met: each with its kind, and what is right instead."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import softcuda as sc
from softcuda.errors import ArgumentTypeError, FeedError, IndexOutOfRange
from softcuda.evaluating import clear_cache
from softcuda.executor.inputs import FIXED_BYTES
from softcuda.executor.runtime import Runtime

# ---- what a cached runtime keeps ----------------------------------------------------------------


def failing(tensor: sc.Tensor) -> None:
    with pytest.raises(IndexOutOfRange):
        sc.take(tensor, [1 << 40]).numpy()


@pytest.mark.parametrize("make", [sc.asarray, sc.variable])
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.sum().item(),
        lambda t: (t * 2).numpy(),
        lambda t: (t + sc.normal(t.shape)).sum().item(),
        lambda t: sc.stack([t, t[::-1]]).numpy(),
        failing,
    ],
)
def test_a_cached_runtime_keeps_no_leaf_alive(
    make: Callable[[Any], sc.Tensor], use: Callable[[sc.Tensor], Any]
) -> None:
    tensor = make(np.ones(300_000, np.float32))
    watched = weakref.ref(tensor.data)
    use(tensor)
    del tensor
    gc.collect()
    assert watched() is None


def test_copies_of_small_leaves_are_bounded() -> None:
    clear_cache()
    before = set(map(id, runtimes()))
    leaves = [sc.tensor(np.ones(10_000, np.float32)) for _ in range(20)]
    assert sc.concat(leaves).sum().item() == 200_000
    [made] = [runtime for runtime in runtimes() if id(runtime) not in before]
    assert 0 < made._inputs.fixed_bytes <= FIXED_BYTES
    assert (sc.concat([leaf * 2 for leaf in leaves])).sum().item() == 400_000


def runtimes() -> list[Runtime]:
    return [found for found in gc.get_objects() if type(found) is Runtime]


# ---- feeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [np.zeros(3), np.zeros(1), [1.0], sc.zeros((3,)), sc.zeros((1,)), 0, "", ()]
)
def test_feeds_that_are_no_mapping(given: Any) -> None:
    executable = sc.compile(sc.input((3,), name="x") + 1)
    with pytest.raises(FeedError, match=r"feeds is a mapping {leaf or name: value}") as caught:
        executable.run(given)
    assert type(given).__name__ in str(caught.value)
    assert "run({'x': value})" in str(caught.value)


def test_inputs_of_any_name_are_fed_by_keyword() -> None:
    names = ("self", "feeds", "by_name")
    total = sum((sc.input((), name=name) for name in names), start=sc.tensor(0.0))
    assert sc.compile(total).run(self=1.0, feeds=2.0, by_name=4.0).item() == 7


# ---- warnings of NumPy --------------------------------------------------------------------------

HALF = np.array([1.0, 2.0], np.float16)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * 1e300,
        lambda x: x + np.float64(1e300),
        lambda x: sc.clip(x, 0, 1e300),
        lambda x: sc.where(x > 0, x, 1e300),
        lambda x: sc.maximum(x.cast(sc.f16), 1e6),
        lambda x: sc.full((2,), 1e300),
        lambda x: sc.full_like(x, 1e300, sc.f16),
        lambda x: sc.pad(x, 1, constant_values=1e300),
        lambda x: sc.linspace(0, 1e300, 3),
        lambda x: sc.arange(0, 3e30, 1e30, dtype=sc.f16),
        lambda x: sc.tensor(np.array([1e300]), dtype=sc.f32),
        lambda x: sc.asarray(np.array([1e30]), dtype=sc.f16),
        lambda x: sc.tensor([1e300, np.nan]).cast(sc.i32),
        lambda x: x / 0,
    ],
)
def test_no_warning_of_numpy_escapes(compute: Callable[[sc.Tensor], sc.Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compute(sc.tensor(HALF, sc.f32)).numpy()
        sc.compile(compute(sc.tensor(HALF, sc.f32))).run()


@pytest.mark.parametrize("dims, value", [((), 1e300), ((1,), [1e300]), ((), np.float32("inf"))])
def test_feeds_too_large_for_their_dtype_are_infinite(dims: tuple[int, ...], value: Any) -> None:
    leaf = sc.input(dims)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(sc.compile(leaf + 1).run({leaf: value}).numpy()).all()


SIX = sc.zeros((2, 3))

# ---- arguments of compile and explain -----------------------------------------------------------


def test_the_target_cpu() -> None:
    executable = sc.compile(SIX + 1, target="cpu")
    assert "target cpu" in str(executable)
    assert executable.run().shape == (2, 3)


@pytest.mark.parametrize(
    "options", [{"target": 3}, {"target": ["cpu"]}, {"strict": "no"}, {"strict": 1}, {"updates": 3}]
)
def test_arguments_of_compile_have_their_types(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentTypeError, match=f"compile: {next(iter(options))}"):
        sc.compile(SIX + 1, **options)


@pytest.mark.parametrize("given", [5, {"a": SIX}, [SIX], None])
def test_explain_takes_a_tensor(given: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=type(given).__name__):
        sc.explain(given)


# ---- tensors and results ------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["dims", "data", "dtype", "op", "backend_id", "grad", "shape"])
def test_what_a_tensor_is_made_of_cannot_be_assigned(field: str) -> None:
    for tensor in (sc.tensor([1.0]), sc.tensor([1.0]) + 1, sc.compile(SIX + 1).run()):
        with pytest.raises(AttributeError, match=f"{field} of a Tensor cannot be set"):
            setattr(tensor, field, None)
        with pytest.raises(AttributeError, match="cannot be set or deleted"):
            delattr(tensor, field)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        SIX.colour = "red"


def test_subclasses_of_tensor_compute() -> None:
    class Own(sc.Tensor):
        pass

    made = Own.leaf(np.ones(2, np.float32)) + 1
    assert type(made) is Own
    assert made.tolist() == [2, 2]
    assert type(sc.compile(made * 2).run()) is Own


def test_results_know_what_computed_them() -> None:
    x = sc.tensor([1.0, 2.0])
    result = sc.compile(sc.exp(x)).run()
    assert (result.op.name, result.backend_id) == ("exp", "cpu_fused")
    assert "computed by cpu_fused as op exp; its value is there, nothing runs" in sc.explain(result)
    assert sc.explain(sc.exp(x).evaluate()) == sc.explain(result)
    assert sc.explain(x).endswith("a leaf, nothing runs for it")
    both = sc.compile({"e": sc.exp(x), "x": x, "f": [sc.exp(x), x.sum()]})
    for executable in (both, pickle.loads(pickle.dumps(both))):
        found = executable.run()
        ops = [t.op.name for t in (found["e"], found["x"], *found["f"])]
        assert ops == ["exp", "none", "exp", "sum"]
        assert found["x"].backend_id is None
        assert found["f"][1].backend_id is not None
    variable = sc.variable([1.0])
    with pytest.raises(ArgumentTypeError):
        sc.compile(variable).run().assign([2.0])


class Pair(NamedTuple):
    first: Any
    second: Any


class Columns(dict[str, Any]):
    """A dict with a class of its own."""


def test_structures_keep_their_class() -> None:
    x = sc.tensor([1.0])
    ordered = sc.compile(OrderedDict(b=x + 1, a=x)).run()
    assert type(ordered) is OrderedDict
    assert list(ordered) == ["b", "a"]
    filled = sc.compile(defaultdict(list, a=x + 1)).run()
    assert type(filled) is defaultdict
    assert filled.default_factory is list
    executable = sc.compile(Columns(pair=Pair(x + 1, [x])))
    columns = pickle.loads(pickle.dumps(executable)).run()
    assert type(columns) is Columns
    assert type(columns["pair"]) is Pair
    assert columns["pair"].first.item() == 2


# ---- printed tables -----------------------------------------------------------------------------


def test_one_of_a_thing_is_singular() -> None:
    executable = sc.compile(sc.tensor([1.0]) + 1)
    assert "1 step, 1 leaf, 1 output," in repr(executable)
    assert str(executable).splitlines()[0].endswith(", 1 step")
    assert "1 view: backend_id view, it does no work" in str(sc.compile(SIX.T.sum(0) + 1))


def test_many_operands_take_one_short_cell() -> None:
    table = str(sc.compile(sc.concat([SIX + k for k in range(30)])))
    [row] = [line for line in table.splitlines() if " concat " in line]
    assert "2x3, 2x3, .. 30 operands -> 60x3" in row
    assert len(row) < 130
