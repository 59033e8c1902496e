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
from softcuda.errors import (
    ArgumentTypeError,
    DTypeError,
    FeedError,
    IndexOutOfRange,
    PoolExhausted,
    ShapeError,
)
from softcuda.executor.runtime import FIXED_BYTES, Runtime
from softcuda.running import clear_cache

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
    assert 0 < made._fixed_bytes <= FIXED_BYTES
    assert (sc.concat([leaf * 2 for leaf in leaves])).sum().item() == 400_000


def runtimes() -> list[Runtime]:
    return [found for found in gc.get_objects() if isinstance(found, Runtime)]


# ---- feeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [np.zeros(3), np.zeros(1), [1.0], sc.zeros((3,)), sc.zeros((1,)), 0, "", ()]
)
def test_feeds_that_are_no_mapping(given: Any) -> None:
    executable = sc.compile(sc.input((3,), name="x") + 1)
    with pytest.raises(FeedError, match="feeds is a mapping {leaf or name: value}") as caught:
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


# ---- errors name what was called ----------------------------------------------------------------


@pytest.mark.parametrize("label", [-1, -5, 3, 7])
def test_cross_entropy_names_the_label_as_given(label: int) -> None:
    with pytest.raises(IndexOutOfRange, match=rf"^cross_entropy: label {label} .*0 to 2$"):
        sc.cross_entropy(sc.zeros((2, 3)), [label, 0]).item()


SIX, NONE = sc.zeros((2, 3)), sc.zeros((0, 3))


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("zeros", ((2, -1),)),
        ("ones", ((2, -1),)),
        ("full", ((2, -1), 0)),
        ("full", ((2,), NONE)),
        ("zeros_like", (object(),)),
        ("ones_like", (object(),)),
        ("full_like", (SIX, NONE)),
        ("clip", (SIX, NONE)),
        ("clip", (SIX, None, NONE)),
        ("divide", (SIX, NONE)),
        ("subtract", (SIX, NONE)),
        ("multiply", (SIX, NONE)),
        ("equal", (SIX, NONE)),
        ("less_equal", (SIX, NONE)),
        ("negative", ([True],)),
        ("subtract", ([True], [True])),
        ("take_along_axis", (SIX, SIX)),
        ("layer_norm", (SIX, None, None, "x")),
    ],
)
def test_the_error_begins_with_the_function_that_was_called(
    name: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(sc.errors.SoftCudaError, match=f"^{name}: "):
        getattr(sc, name)(*arguments)


def test_take_along_axis_is_named_at_run() -> None:
    with pytest.raises(IndexOutOfRange, match="^take_along_axis: index 3"):
        sc.take_along_axis(SIX, [[3]], 1).numpy()


@pytest.mark.parametrize("name", ["zeros", "ones", "input"])
def test_a_shape_in_several_arguments(name: str) -> None:
    with pytest.raises(DTypeError, match=rf"{name}: .*as in {name}\(\(2, 3\)\)"):
        getattr(sc, name)(2, 3)


def test_memory_that_cannot_be_had() -> None:
    with pytest.raises(PoolExhausted, match="^run: host memory exhausted") as caught:
        sc.compile(sc.zeros((2**38,)) + 1).run()
    text = str(caught.value)
    assert text.count("1099511627776") == 1
    assert "reset" not in text
    assert "smaller" in text


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
        SIX.colour = "red"  # type: ignore[attr-defined]


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


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, own",
    [
        *(("sub", "subtract"), ("neg", "negative"), ("permute", "permute_dims"), ("eq", "equal")),
        *(("concatenate", "concat"), ("cat", "concat"), ("power", "pow"), ("arcsin", "asin")),
        *(("float32", "f32"), ("bool", "bool_"), ("flatten", "reshape"), ("array", "tensor")),
    ],
)
def test_other_names_say_the_one_that_is_meant(name: str, own: str) -> None:
    assert not hasattr(sc, name)
    with pytest.raises(AttributeError, match=rf"'{name}'.*softcuda\.{own}"):
        getattr(sc, name)
    assert hasattr(sc, own)


@pytest.mark.parametrize(
    "name, use",
    [
        *(("permute", r"tensor\.permute_dims\("), ("view", r"tensor\.reshape\(")),
        *(("flatten", r"tensor\.reshape\(-1\)"), ("ravel", r"tensor\.reshape\(-1\)")),
        *(("neg", r"tensor\.negative\("), ("softmax", r"softcuda\.softmax\(tensor")),
        *(("add", r"softcuda\.add\(tensor"), ("unsqueeze", r"tensor\.expand_dims\(")),
    ],
)
def test_methods_that_are_called_otherwise(name: str, use: str) -> None:
    for owner in (SIX, sc.Tensor):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=use):
            getattr(owner, name)


def test_unknown_names_are_plain_errors() -> None:
    with pytest.raises(AttributeError, match="'nonsense'"):
        sc.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        SIX.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_public_classes_and_listing(tmp_path: Any) -> None:
    assert isinstance(sc.compile(SIX + 1), sc.Executable)
    assert issubclass(sc.SoftCudaWarning, UserWarning)
    assert isinstance(sc.profile.resolve.default_profile(), sc.Profile)
    assert set(dir(sc)) == {*sc.__all__, "__version__"}


# ---- printed tables -----------------------------------------------------------------------------


def test_one_of_a_thing_is_singular() -> None:
    executable = sc.compile(SIX + 1)
    assert "1 step, 1 leaf, 1 output," in repr(executable)
    assert str(executable).splitlines()[0].endswith(", 1 step")
    assert "1 view: backend_id view, it does no work" in str(sc.compile(SIX.T.sum(0) + 1))


def test_many_operands_take_one_short_cell() -> None:
    table = str(sc.compile(sc.concat([SIX + k for k in range(30)])))
    [row] = [line for line in table.splitlines() if " concat " in line]
    assert "2x3, 2x3, .. 30 operands -> 60x3" in row
    assert len(row) < 130


def test_shapes_still_refused() -> None:
    with pytest.raises(ShapeError):
        sc.zeros((2, 3)) + sc.zeros((4,))
