"""Pickling, copying and freeing graphs, the deep ones too."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import softcuda as sc

DEEP = 10_000


def chain(x: sc.Tensor, length: int = DEEP) -> sc.Tensor:
    for _ in range(length):
        x = x + 1
    return x


def test_a_deep_graph_prints_and_evaluates() -> None:
    y = chain(sc.tensor(0.5))
    assert "op=add" in repr(y)
    assert y.item() == 10000.5


def test_a_deep_chain_of_negations() -> None:
    x = sc.tensor(2.0)
    for _ in range(DEEP + 1):
        x = -x
    assert x.item() == -2


def test_a_deep_graph_is_pickled() -> None:
    y = pickle.loads(pickle.dumps(chain(sc.tensor(0.5))))
    assert not y.evaluated
    assert y.op.name == "add"
    assert y.item() == 10000.5


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_a_deep_graph_is_copied(make: object) -> None:
    y = make(chain(sc.variable(0.5)))  # type: ignore[operator]
    assert y.item() == 10000.5


def test_a_deep_graph_is_freed() -> None:
    x = sc.tensor(0.5)
    gone = weakref.ref(x)
    y = chain(x, 20 * DEEP)
    del x, y
    gc.collect()
    assert gone() is None


def test_an_evaluated_tensor_pickles_its_values_alone() -> None:
    y = chain(sc.tensor(np.ones(3, np.float32))).evaluate()
    text = pickle.dumps(y)
    assert len(text) < 2000
    again = pickle.loads(text)
    assert again.evaluated
    assert again.op.name == "add"
    assert again.tolist() == [10001.0] * 3


def test_leaves_survive_pickling() -> None:
    x = sc.input((2, 0), sc.bf16, "x")
    again = pickle.loads(pickle.dumps(x + 1)).a
    assert (again.op.name, again.name, again.dims, again.dtype) == ("input", "x", (2, 0), sc.bf16)
    half = pickle.loads(pickle.dumps(sc.tensor([1.5], sc.bf16)))
    assert (half.dtype, half.tolist()) == (sc.bf16, [1.5])


def test_what_a_pickle_shares_stays_shared() -> None:
    w = sc.variable([1.0])
    u = sc.uniform((3,), generator=sc.Generator(5))
    kept, first, second, drawn, twice = pickle.loads(pickle.dumps([w, w + 1, w * 3, u, u * 2]))
    assert first.a is kept
    assert second.a is kept
    assert twice.a is drawn
    kept.assign([5.0])
    assert (first.tolist(), second.tolist()) == ([6], [15])
    assert w.tolist() == [1]


def test_copies_share_what_cannot_change() -> None:
    x = sc.tensor([1.0])
    y = x + 1
    assert copy.copy(y) is y
    assert copy.deepcopy(y) is y
    w = sc.variable([1.0], "w")
    shallow = copy.copy(w)
    assert shallow is not w
    shallow.assign([7.0])
    assert w.tolist() == [1]


def test_a_deep_copy_has_its_own_variables() -> None:
    w = sc.variable([1.0], "w")
    model = {"w": w, "y": [w + 1, (w + 1) * sc.tensor([2.0])]}
    other = copy.deepcopy(model)
    other["w"].assign([10.0])  # type: ignore[union-attr]
    assert [y.tolist() for y in other["y"]] == [[11], [22]]
    assert [y.tolist() for y in model["y"]] == [[2], [4]]
    assert other["w"].name == "w"  # type: ignore[union-attr]


def test_a_generator_is_copied_with_its_nodes() -> None:
    generator = sc.Generator(3)
    node = sc.uniform((2,), generator=generator)
    other, drawn = copy.deepcopy((generator, node))
    assert drawn.a is other.variable
    assert other.variable is not generator.variable
    assert other.state == generator.state
