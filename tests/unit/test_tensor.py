"""The Tensor itself: fields, values, printing, variables, one-element conversions."""

from __future__ import annotations

import gc
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import softcuda as sc
from softcuda import errors
from softcuda.graph.places import HOST


def test_fields_of_a_node() -> None:
    a, b = sc.tensor([[1.0, 2.0, 3.0]]), sc.tensor([[1.0], [2.0]])
    y = a * b
    assert (y.ndims, y.dims, y.stride) == (2, (2, 3), (3, 1))
    assert (y.ndim, y.shape, y.strides) == (2, (2, 3), (3, 1))
    assert (y.size, y.nbytes, y.dtype) == (6, 24, sc.f32)
    assert y.a is a
    assert y.b is b
    assert y.inputs == (a, b)
    assert (y.data, y.evaluated, y.device, y.backend_id, y.grad) == (None, False, None, None, None)
    assert y.op.name == "mul"
    assert a.op.name == "none"
    assert a.device == HOST
    assert y.T.strides == (1, 3)
    assert y.mT.shape == (3, 2)
    assert not hasattr(y, "__dict__")


def test_evaluation_settles_a_node_once() -> None:
    y = sc.tensor([1.0]) + 1
    assert y.evaluate() is y
    first = y.data
    assert y.evaluated
    assert y.inputs == ()
    assert y.backend_id is not None
    y.evaluate()
    assert y.data is first


def test_evaluation_of_several_at_once() -> None:
    x = sc.tensor([1.0, 2.0])
    y, z = x + 1, (x + 1) * 2
    assert sc.evaluate(y, z, y) is None
    assert (y.data.tolist(), z.data.tolist()) == ([2, 3], [4, 6])
    with pytest.raises(errors.ArgumentTypeError, match="argument 0"):
        sc.evaluate([y])  # type: ignore[arg-type]


def test_numpy_is_read_only() -> None:
    for x in (sc.tensor([1.0]), sc.tensor([1.0]) + 1):
        with pytest.raises(ValueError, match="read-only"):
            x.numpy()[0] = 5
    assert sc.tensor([1.0]).numpy().base is not None


def test_an_input_has_no_value() -> None:
    x = sc.input((2,), name="x")
    for asked in (x, x + 1):
        with pytest.raises(errors.FeedError, match="x"):
            asked.numpy()


def test_item_and_tolist() -> None:
    assert sc.tensor([[3]]).item() == 3
    assert type(sc.tensor(1.5, sc.bf16).item()) is float
    assert type(sc.tensor(True).item()) is bool
    assert sc.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert sc.tensor(2.5).tolist() == 2.5
    with pytest.raises(errors.ArgumentError, match=r"\[2\].*2 elements"):
        sc.tensor([1, 2]).item()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_conversions_of_one_element(shape: Any) -> None:
    x = sc.full(shape, 3, sc.i64)
    assert (int(x), float(x), complex(x), bool(x)) == (3, 3.0, 3 + 0j, True)
    assert [10, 11, 12, 13][x] == 13
    assert f"{x + 0.5:.2f}" == "3.50"
    assert bool(sc.full(shape, 0.0)) is False


def test_conversions_of_other_counts_are_refused() -> None:
    for x in (sc.tensor([1, 2]), sc.zeros((0,))):
        for convert in (bool, int, float, complex):
            with pytest.raises(ValueError, match="only one has a single value"):
                convert(x)
    with pytest.raises(errors.DTypeError, match="i32 and i64"):
        [1, 2][sc.tensor(1.0)]  # type: ignore[call-overload]


def test_len_iter_contains() -> None:
    x = sc.tensor([[1, 2], [3, 4]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x
    assert 7 not in x
    for ask in (len, iter):
        with pytest.raises(TypeError, match="rank 0"):
            ask(sc.tensor(1))


def test_repr_never_evaluates() -> None:
    y = sc.tensor([1.0, 2.0]) * 2
    assert repr(y) == "Tensor(shape=(2,), dtype=f32, op=mul, backend_id=None)"
    assert not y.evaluated
    y.evaluate()
    assert repr(y) == f"Tensor([2., 4.], shape=(2,), dtype=f32, op=mul, backend_id={y.backend_id})"
    assert "name='x'" in repr(sc.input((2, 3), sc.i32, "x"))
    large = repr(sc.tensor(np.arange(5000)))
    assert "..." in large
    assert len(large) < 200
    assert "1.5" in repr(sc.tensor([1.5], sc.bf16))


def test_a_variable_is_assigned() -> None:
    x = sc.variable([1, 2], "x")
    y = x.square()
    assert y.tolist() == [1, 4]
    x.assign([100, 2])
    assert y.tolist() == [1, 4]
    assert x.square().tolist() == [10000, 4]
    held = x.numpy()
    x.assign(sc.tensor([5, 6]) + 1)
    assert held.tolist() == [100, 2]
    assert x.tolist() == [6, 7]
    x.assign(x * 2)
    assert x.tolist() == [12, 14]


def test_a_variable_owns_its_buffer() -> None:
    a = np.ones(2, np.float32)
    x = sc.variable(a)
    a[:] = 9
    assert x.tolist() == [1, 1]
    kept, read = sc.tensor(x), +x
    x.assign([2.0, 2.0])
    assert kept.tolist() == [1, 1]
    assert read.tolist() == [2, 2]  # a node reads the variable when it is evaluated


def test_wrong_assignments() -> None:
    x = sc.variable([1.0, 2.0], "w")
    with pytest.raises(errors.ShapeError, match=r"\[3\].*w \[2\]"):
        x.assign([1, 2, 3])
    with pytest.raises(errors.DTypeError, match=r"f64.*f32.*astype"):
        x.assign(np.ones(2))
    with pytest.raises(errors.DTypeError, match=r"f32.*i64"):
        sc.variable([1]).assign([1.5])
    with pytest.raises(errors.ArgumentTypeError, match=r"made by add.*softcuda\.variable"):
        (x + 1).assign([1, 2])
    assert x.tolist() == [1, 2]
    x.assign([3, 4])
    assert x.tolist() == [3, 4]


def test_items_are_not_assigned() -> None:
    x = sc.zeros((3,))
    with pytest.raises(TypeError, match=r"immutable.*where"):
        x[0] = 1


def test_values_of_half_precision() -> None:
    stored = [0.2691408770292272, 7 * 3.140625, 3.14, 1 + 1 / 256, 1 + 3 / 256, 3.4028235e38]
    rounded = [0.26953125, 22.0, 3.140625, 1.0, 1.015625, math.inf]
    x = sc.tensor(stored, sc.bf16)
    assert x.numpy().dtype == ml_dtypes.bfloat16
    assert x.tolist() == rounded
    assert sc.tensor(stored, sc.f64).cast(sc.bf16).tolist() == rounded
    assert sc.tensor(6e-8, sc.f16).item() == 5.960464477539063e-08


def test_subnormals_are_kept() -> None:
    tiny = sc.tensor(np.float32([1.17549435e-38, 1.4e-45]))
    assert (tiny * 0.5).tolist()[0] == 5.877471754111438e-39
    assert (tiny * 2).tolist()[1] == 2.802596928649634e-45
    assert (tiny * 0.5 == 0).tolist()[0] is False


def test_a_shared_subexpression_is_computed_once() -> None:
    y = sc.tensor(1.0, sc.f64)
    for _ in range(60):
        y = y + y
    assert y.item() == 1.152921504606847e18


def test_evaluated_history_is_dropped() -> None:
    x = sc.tensor([1.0])
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(300):
        x = (x * 0.9).evaluate()
    gc.collect()
    assert len(gc.get_objects()) - before < 300
