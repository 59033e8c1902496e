"""matmul, dot and outer against NumPy, and the shapes they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors


def whole(*shape: int) -> Any:
    return np.array(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 - 3, np.float64)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((1, 2, 3), (5, 3, 4)),
        ((2, 1, 2, 3), (5, 3, 4)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((0, 2, 3), (1, 3, 4)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul(a: Any, b: Any) -> None:
    x, y = whole(*a), whole(*b)
    np.testing.assert_array_equal(sc.matmul(x, y).numpy(), np.matmul(x, y), strict=True)
    assert sc.matmul(x, y).op.name == "matmul"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (2, 3)),
        ((3,), (2,)),
        ((2, 3), (1, 4)),
        ((2, 1), (3, 4)),
        ((5, 2, 3), (4, 3, 2)),
        ((3,), (5, 2, 4)),
    ],
)
def test_shapes_that_do_not_fit(a: Any, b: Any) -> None:
    with pytest.raises(errors.ShapeError) as caught:
        sc.matmul(sc.zeros(a), sc.zeros(b))
    assert str(list(a)) in str(caught.value)
    assert str(list(b)) in str(caught.value)


def test_operands_that_are_no_matrices() -> None:
    with pytest.raises(errors.ShapeError, match="multiply"):
        sc.matmul(2, [1.0])
    with pytest.raises(errors.DTypeError, match="bool"):
        sc.tensor([True]) @ sc.tensor([True])


def test_dtypes_of_products() -> None:
    half, single = sc.ones((2, 2), sc.bf16), sc.ones((2, 2), sc.f32)
    assert (half @ single).dtype is sc.f32
    assert (half @ half).dtype is sc.bf16
    assert (sc.ones((2, 2), sc.i32) @ half).dtype is sc.bf16
    assert (single @ sc.ones((2, 2), sc.f64)).dtype is sc.f64


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((2, 3), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3,)),
        ((5, 2, 3), (4, 3, 2)),
        ((3,), (4, 3, 2)),
        ((), (2, 3)),
        ((2, 3), ()),
        ((), ()),
    ],
)
def test_dot(a: Any, b: Any) -> None:
    x, y = whole(*a), whole(*b)
    found = sc.dot(sc.tensor(x), sc.tensor(y))
    expected = np.asarray(np.dot(x, y))
    np.testing.assert_array_equal(found.numpy(), expected, strict=True)
    assert sc.tensor(x).dot(y).params == found.params


def test_dot_of_numbers_is_weak() -> None:
    assert sc.dot(2.0, sc.ones((2,), sc.f16)).dtype is sc.f16
    with pytest.raises(errors.ShapeError, match=r"dot.*extent 3.*extent 2"):
        sc.dot([1, 2, 3], [1, 2])
    with pytest.raises(errors.ShapeError, match="64"):
        sc.dot(sc.ones((1,) * 40), sc.ones((1,) * 40))


def test_outer() -> None:
    a, b = whole(2, 2), whole(3)
    np.testing.assert_array_equal(sc.outer(a, b).numpy(), np.outer(a, b), strict=True)
    assert sc.outer(2, [1, 2]).tolist() == [[2, 4]]


def test_extent_1_is_exact() -> None:
    assert (sc.tensor([1024.5]) @ sc.tensor([[1.0]])).tolist() == [1024.5]


def test_high_ranks() -> None:
    x = sc.ones((1,) * 62 + (2, 3))
    assert (x @ sc.ones((3, 2))).shape == (1,) * 62 + (2, 2)
