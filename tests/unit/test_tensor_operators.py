"""Python's operators: what they give, in which dtype, and what they refuse."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors
from softcuda.dtype import DType

ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
GRID = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
CUBE = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)


def same(actual: sc.Tensor, expected: Any) -> None:
    found = actual.numpy()
    wanted = np.asarray(expected)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 1), (3,)), ((), (4,)), ((0, 3), (1, 3))])
def test_two_tensors_give_numpys_values(op: Any, shapes: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(1, 5, shape).astype(np.float64) for shape in shapes)
    same(op(sc.tensor(a), sc.tensor(b)), op(a, b))


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod, operator.pow])
def test_integer_operators_give_numpys_values(op: Any) -> None:
    a, b = np.array([7, -7, 6, -1]), np.array([2, 3, 4, 5])
    same(op(sc.tensor(a), sc.tensor(b)), op(a, b))


def test_divmod() -> None:
    a = np.array([7, -7, 6])
    for mine, theirs in zip(divmod(sc.tensor(a), 4), divmod(a, 4), strict=True):
        same(mine, theirs)
    for mine, theirs in zip(divmod(50, sc.tensor(a)), divmod(50, a), strict=True):
        same(mine, theirs)


def test_division_by_zero_of_integers_is_zero() -> None:
    x = sc.tensor([5, -5, 0])
    assert (x // 0).tolist() == [0, 0, 0]
    assert (x % 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("op", [*ARITHMETIC, operator.floordiv, operator.mod, operator.pow])
def test_numbers_stand_on_either_side(op: Any) -> None:
    a = np.array([1.0, 2.0, 4.0], np.float32)
    x = sc.tensor(a)
    same(op(x, 2), op(a, np.float32(2)))
    same(op(2.0, x), op(np.float32(2), a))


def test_unary_operators() -> None:
    a = np.array([-1.5, 0.0, 2.0], np.float32)
    x = sc.tensor(a)
    same(-x, -a)
    same(abs(x), abs(a))
    assert +x is x
    flags = sc.tensor([True, False])
    same(~flags, np.array([False, True]))


def test_operators_of_bools_are_logical() -> None:
    a, b = np.array([True, True, False]), np.array([True, False, False])
    x, y = sc.tensor(a), sc.tensor(b)
    same(x & y, a & b)
    same(x | y, a | b)
    same(x ^ y, a ^ b)
    same(x & True, a)
    same(False | x, a)
    same(b & x, a & b)


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bit_operators_of_numbers_name_the_logical_functions(op: Any) -> None:
    with pytest.raises(errors.DTypeError, match=r"i64.*logical_"):
        op(sc.tensor([1, 2]), sc.tensor([1, 2]))
    with pytest.raises(errors.DTypeError, match="logical_"):
        op(sc.tensor([True]), 3)


def test_inverting_numbers_and_signing_bools_are_refused() -> None:
    with pytest.raises(errors.DTypeError, match=r"f32.*logical_not"):
        ~sc.tensor([1.0])
    with pytest.raises(errors.DTypeError, match="cast"):
        +sc.tensor([True])
    with pytest.raises(errors.DTypeError, match="logical_not"):
        -sc.tensor([True])


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (sc.f16, 2, sc.f16),
        (sc.bf16, 0.1, sc.bf16),
        (sc.i32, 2, sc.i32),
        (sc.i32, 2.0, sc.f32),
        (sc.i64, 0.5, sc.f32),
        (sc.f64, 0.1, sc.f64),
        (sc.bool_, 2, sc.i64),
        (sc.bool_, 0.5, sc.f32),
        (sc.f16, np.float64(3), sc.f16),
        (sc.i32, np.int64(3), sc.i32),
        (sc.f32, True, sc.f32),
    ],
)
def test_numbers_are_weak(dtype: DType, number: Any, expected: DType) -> None:
    x = sc.ones((2,), dtype)
    assert (x + number).dtype is expected
    assert (number + x).dtype is expected


def test_rank_0_arrays_are_not_weak() -> None:
    x = sc.ones((2,), sc.f32)
    assert (x + np.array(1.0)).dtype is sc.f64
    assert (np.array(1.0) + x).dtype is sc.f64
    assert (x + np.float64(1.0)).dtype is sc.f32


def test_equal_numbers_of_other_kinds_or_signs_stay_apart() -> None:
    x = sc.tensor([True])
    assert (x + 1).dtype is sc.i64
    assert (x + 1.0).dtype is sc.f32
    with pytest.raises(errors.DTypeError, match="logical_or"):
        x + True
    y = sc.tensor([1.0])
    assert math.copysign(1, (y * 0.0).item()) == 1
    assert math.copysign(1, (y * -0.0).item()) == -1
    assert math.isnan((y * math.nan).item())


def test_numbers_out_of_range_are_refused() -> None:
    x = sc.ones((2,), sc.i32)
    with pytest.raises(errors.NumberRangeError, match=r"2147483648.*i32.*-2147483648"):
        x + 2**31
    with pytest.raises(OverflowError, match="i64"):
        sc.ones((2,), sc.i64) * 2**63
    with pytest.raises(errors.NumberRangeError):
        sc.ones((2,)) * 10**400


def test_sum_of_bools_names_what_to_use() -> None:
    x = sc.tensor([True, False])
    with pytest.raises(errors.DTypeError, match=r"logical_or.*cast"):
        x + x
    with pytest.raises(TypeError, match="logical_and"):
        x * x


def test_lists_and_arrays_become_copied_leaves() -> None:
    a = np.ones(2, np.float32)
    y = sc.tensor([1.0, 2.0]) + a
    a[:] = 100
    assert y.tolist() == [2, 3]
    assert operator.add(sc.tensor([1.0, 2.0]), [1, 2]).tolist() == [2, 4]


@pytest.mark.parametrize("value", ["text", b"bytes"])
def test_operands_without_a_dtype_are_refused(value: Any) -> None:
    for op in (operator.add, operator.mul, operator.lt):
        with pytest.raises(errors.DTypeError, match="no dtype holds"):
            op(sc.ones((2,)), value)


def test_foreign_operands_are_left_to_python() -> None:
    x = sc.ones((2,))
    with pytest.raises(TypeError, match="unsupported operand"):
        x + object()
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711

    class Other:
        def __radd__(self, left: object) -> str:
            return "mine"

    assert x + Other() == "mine"


def test_negative_integer_powers_are_refused_at_definition() -> None:
    x = sc.tensor([1, 2])
    with pytest.raises(errors.IntegerPowerError, match="-1"):
        x**-1
    with pytest.raises(errors.IntegerPowerError, match="-3"):
        sc.pow(x, -3)
    assert (x**-1.0).tolist() == [1, 0.5]
    assert (sc.tensor([2.0]) ** -1).tolist() == [0.5]
    with pytest.raises(errors.ArgumentTypeError, match="modulus"):
        pow(x, 2, 5)


def test_tensors_hash_by_identity() -> None:
    x, y = sc.ones((2,)), sc.ones((2,))
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1


def test_matmul_operator() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    same(sc.tensor(a) @ sc.tensor(b), a @ b)
    same(a @ sc.tensor(b), a @ b)
    same(sc.tensor(a) @ b, a @ b)
    with pytest.raises(errors.ShapeError, match="use multiply"):
        sc.tensor(a) @ 2


# A prototype of a lazy graph added by element count, without looking at shapes: it read past the
# end of the smaller operand, or left the rest of the result unset.


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 3], [10, 20, 30], [11, 22, 33]),
        (CUBE, np.ones((2, 2, 2), np.float32), CUBE + 1),
        (GRID, [[10]], GRID.astype(int) + 10),
        ([[1, 2, 3]], [[10], [20]], [[11, 12, 13], [21, 22, 23]]),
        ([[1, 2]], [[10], [20]], [[11, 12], [21, 22]]),
        (GRID, [10, 20, 30], np.add(GRID, [10, 20, 30])),
        ([[1, 2], [3, 4]], 5, [[6, 7], [8, 9]]),
        (CUBE, [[10, 20]], np.add(CUBE, [[10, 20]])),
        ([1, 2, 3], [10], [11, 12, 13]),
        ([[1, 2], [3, 4]], [[10], [20]], [[11, 12], [23, 24]]),
    ],
)
def test_addition_broadcasts_by_axis(a: Any, b: Any, expected: Any) -> None:
    right = b if isinstance(b, int) else sc.tensor(b)
    found = sc.tensor(a) + right
    assert found.shape == np.shape(expected)
    assert found.tolist() == np.asarray(expected).tolist()


def test_subtraction_of_vectors() -> None:
    assert (sc.tensor([1, 2, 3]) - sc.tensor([10, 20, 30])).tolist() == [-9, -18, -27]


@pytest.mark.parametrize("shapes", [((2, 3), (3, 2)), ((2, 3), (1, 2)), ((4,), (3,))])
@pytest.mark.parametrize("op", [operator.add, operator.sub])
def test_shapes_that_do_not_broadcast_are_refused(op: Any, shapes: Any) -> None:
    a, b = (sc.zeros(shape) for shape in shapes)
    with pytest.raises(errors.ShapeError, match="do not broadcast") as caught:
        op(a, b)
    assert str(list(shapes[0])) in str(caught.value)
    assert str(list(shapes[1])) in str(caught.value)


def test_f64_is_computed_in_f64() -> None:
    x = sc.tensor(np.array([1.5, 2.5]))
    same(x + x, np.array([3.0, 5.0]))


def test_integer_times_number() -> None:
    same(sc.tensor(np.array([1, 2], np.int32)) * 3, np.array([3, 6], np.int32))


def test_transposed_operands_of_a_product() -> None:
    a, b = sc.tensor([[1, 2], [3, 4]]), sc.tensor([[5, 6], [7, 8]])
    assert (a @ b.T).tolist() == [[17, 23], [39, 53]]
    assert (a @ b.T.T).tolist() == [[19, 22], [43, 50]]
    with pytest.raises(errors.ShapeError, match=r"extent 3 .* meets extent 2"):
        sc.zeros((2, 3)) @ sc.zeros((2, 3))


def test_relu_keeps_nan() -> None:
    found = sc.relu(sc.tensor([math.nan, -1.0, 2.0])).tolist()
    assert math.isnan(found[0])
    assert found[1:] == [0, 2]


def test_promotion_is_symmetric() -> None:
    kinds = (sc.bool_, sc.i32, sc.i64, sc.f16, sc.bf16, sc.f32, sc.f64)
    for a in kinds:
        for b in kinds:
            assert sc.maximum(sc.ones((1,), a), sc.ones((1,), b)).dtype is (
                sc.maximum(sc.ones((1,), b), sc.ones((1,), a)).dtype
            )
    mixed = sc.tensor(np.float32([0.1])) + sc.tensor(np.float64([0.1]))
    assert mixed.item() == 0.20000000149011612
