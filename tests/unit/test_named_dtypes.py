"""Named axes of mixed dtypes: bools, integers of two widths, and floats in one operation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tolerance import assert_close

import softcuda as sc
from softcuda import OperandDescriptor, OperationDescriptor, Plan, TensorDescriptor, UnaryOp
from softcuda.dtype import bool_, f16, f32, f64, i32, i64, promote
from softcuda.errors import DTypeError, NumberRangeError

BIG = np.array([2**20], np.int32)  # its square passes 32 bits
ONE = np.array([1], np.int64)
FLAGS = np.array([[True, False, True], [True, True, True]])

like = OperandDescriptor.from_tensor


# ---- integers of two widths ---------------------------------------------------------------------


@pytest.mark.parametrize("order", sorted(set(itertools.permutations((0, 0, 1)))), ids=str)
def test_integers_work_in_their_common_dtype_from_the_first_pair_on(order: tuple[int, ...]) -> None:
    operands = [(BIG, ONE)[k] for k in order]
    for path in ([(0, 1), (0, 1)], [(1, 2), (0, 1)], [(0, 2), (0, 1)]):
        found = sc.einsum("a,a,a->a", *operands, optimize=path)
        assert found.dtype is i64
        assert found.tolist() == [2**40]


@pytest.mark.parametrize("path", [[(0, 1), (0, 1)], [(1, 2), (0, 1)]], ids=str)
def test_a_chain_of_integers_of_two_widths(path: Any) -> None:
    x = np.full((2, 2), 2**20, np.int32)
    eye = np.eye(2, dtype=np.int64)
    assert sc.einsum("ab,bc,cd->ad", x, x, eye, optimize=path).tolist() == [[2**41] * 2] * 2
    assert sc.einsum("ab,bc->", x, eye).item() == 2**22


def test_the_dtype_of_c_counts() -> None:
    assert sc.contract(BIG, "a", BIG, "a", "a", c=ONE, c_modes="a").tolist() == [2**40 + 1]
    out = TensorDescriptor.contiguous((1,), i64)
    operation = OperationDescriptor.contraction(
        like(BIG, "a"), like(BIG, "a"), like(ONE, "a"), out, "a"
    )
    assert Plan(operation).execute([BIG, BIG, ONE], [1, 1]).tolist() == [2**40 + 1]


def test_a_function_is_of_the_common_dtype() -> None:
    found = sc.contract(BIG, "a", ONE, "a", "a", unary=[UnaryOp.Square])
    assert found.tolist() == [2**40]
    found = sc.contract(
        ONE, "a", ONE, "a", "a", c=BIG, c_modes="a", unary=[UnaryOp.Identity] * 2 + [UnaryOp.Square]
    )
    assert found.tolist() == [2**40 + 1]


# ---- bools --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [i32, i64, f16, f32, f64, sc.complex64], ids=str)
def test_a_bool_beside_numbers_is_a_number(dtype: Any) -> None:
    for text, extent, value in (("ab,a->a", 2, [2, 3]), ("ab,b->a", 3, [2, 3])):
        numbers = np.ones(extent, dtype.numpy)
        labels = [text[:2], text[3]]
        for found in (
            sc.einsum(text, FLAGS, numbers),
            sc.einsum(numbers, labels[1], FLAGS, labels[0], "a"),
        ):
            assert found.dtype is dtype
            assert found.tolist() == value


@pytest.mark.parametrize("extent", [0, 1, 2, 5])
@pytest.mark.parametrize("path", [[(0, 1), (0, 1)], [(1, 2), (0, 1)]], ids=str)
def test_bools_meet_an_integer_in_every_order(extent: int, path: Any) -> None:
    a, b = np.ones((2, extent), bool), np.ones((extent, 3), bool)
    c = np.ones((3, 2), np.int32)
    found = sc.einsum("ab,bc,cd->ad", a, b, c, optimize=path)
    assert found.dtype is i32
    assert found.tolist() == [[3 * extent] * 2] * 2
    column = c[:, 0]
    assert sc.einsum("i,i,i->i", column, column > 0, column > 0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("extent", [1, 2])
def test_operands_that_are_all_bool_are_refused_whatever_their_extents(extent: int) -> None:
    flags = np.ones((extent, extent), bool)
    with pytest.raises(DTypeError, match="the operand is bool and would be summed"):
        sc.einsum("ij->j", flags)
    for text in ("ij,jk->ik", "ij,kl->ijkl"):
        with pytest.raises(DTypeError, match="all operands of a product are bool"):
            sc.einsum(text, flags, flags)
    assert sc.einsum("ij->ji", flags).dtype is bool_


# ---- functions of integers ----------------------------------------------------------------------

SQUARES = np.array([[4, 9]], np.int32)
COLUMN = np.ones((2, 1), np.int32)


def test_a_function_of_integers_that_is_no_integer_is_f32() -> None:
    operands: Any = (SQUARES, "ab", COLUMN, "bc", "ac")
    found = sc.contract(*operands, unary=[UnaryOp.Sqrt], alpha=0.5)
    assert found.dtype is sc.permute(SQUARES, "ab", "ba", unary=UnaryOp.Sqrt).dtype is f32
    assert found.tolist() == [[2.5]]
    assert sc.contract(*operands, unary=[UnaryOp.Relu]).dtype is i32
    added = [UnaryOp.Identity, UnaryOp.Identity, UnaryOp.Sqrt]
    found = sc.contract(*operands, c=SQUARES[:, :1], c_modes="ac", unary=added)
    assert found.dtype is f32
    assert found.tolist() == [[15]]
    wide = sc.contract(SQUARES, "ab", np.ones(2), "b", "a", unary=[UnaryOp.Exp])
    assert wide.dtype is f64
    assert wide.item() == np.exp(SQUARES.astype(float)).sum()


def test_a_float_result_as_integers_is_refused_after_a_function() -> None:
    with pytest.raises(DTypeError, match="operands of f32 give a float"):
        sc.contract(SQUARES, "ab", COLUMN, "bc", "ac", unary=[UnaryOp.Sqrt], output_dtype="i32")
    out = TensorDescriptor.contiguous((1, 1), i32)
    with pytest.raises(DTypeError, match="operands of f32 give a float"):
        OperationDescriptor.contraction(
            like(SQUARES, "ab").with_unary(UnaryOp.Sqrt), like(COLUMN, "bc"), None, out, "ac"
        )


@pytest.mark.parametrize("unary", UnaryOp, ids=lambda unary: str(unary.name))
@pytest.mark.parametrize("dtype", [i32, i64, f16, f32], ids=str)
def test_a_contraction_has_the_dtype_of_its_function(unary: UnaryOp, dtype: Any) -> None:
    x = np.ones(2, dtype.numpy)
    found = sc.contract(x, "a", x, "a", "a", unary=[unary])
    alone = sc.permute(x, "a", "a", unary=unary)
    assert found.dtype is alone.dtype
    assert np.array_equal(found.numpy(), alone.numpy(), equal_nan=True)


# ---- scalars that are tensors -------------------------------------------------------------------


def scaled(alpha: Any, beta: Any = 1) -> dict[str, sc.Tensor]:
    """Return every function of i32 operands that takes scalars."""
    x: Any = SQUARES
    given: Any = {"alpha": alpha, "beta": beta}
    return {
        "contract": sc.contract(x, "ab", x, "ab", "a", c=x[0, :1], c_modes="a", **given),
        "reduce": sc.reduce(x, "ab", "a", sc.ReductionOp.Max, c=x[0, :1], c_modes="a", **given),
        "elementwise_binary": sc.elementwise_binary(
            x, "ab", x, "ab", "ab", sc.BinaryOp.Add, **given
        ),
    }


@pytest.mark.parametrize(
    "value, dtype, error",
    [
        (0.5, "f32", DTypeError),
        (1j, "complex64", DTypeError),
        (2**40, "i64", NumberRangeError),
        (-(2**31) - 1, "i64", NumberRangeError),
    ],
)
def test_a_scalar_is_refused_as_a_number_and_as_a_tensor(
    value: Any, dtype: str, error: type[Exception]
) -> None:
    for given in (value, sc.tensor(value, dtype)):
        for name, who in (("alpha", {"alpha": given}), ("beta", {"alpha": 1, "beta": given})):
            with pytest.raises(error, match=f"^contract: {name}: .*{value}|a tensor of {dtype}"):
                scaled(**who)
        with pytest.raises(error, match=r"^permute: alpha: "):
            sc.permute(SQUARES, "ab", "ba", alpha=given)


def test_a_scalar_without_a_value_is_judged_by_its_dtype() -> None:
    for given in (sc.input((), "f32"), sc.tensor(1.0) + 1, sc.variable(np.float32(2))):
        with pytest.raises(DTypeError, match="alpha: a tensor of f32 cannot be a i32"):
            scaled(given)
    for given in (sc.tensor(3, i64), sc.variable(np.int64(3)), sc.tensor(1) + 2):
        assert {name: x.tolist() for name, x in scaled(given).items()} == {
            "contract": [3 * 97 + 4],
            "reduce": [3 * 9 + 4],
            "elementwise_binary": [[16, 36]],
        }
    assert sc.permute(SQUARES > 4, "ab", "ba", alpha=sc.tensor(True)).tolist() == [[0], [1]]


# ---- what is added to a reduction ---------------------------------------------------------------


@pytest.mark.parametrize("a", [i32, i64, f16, f32, f64, sc.complex64], ids=str)
@pytest.mark.parametrize("c", [bool_, i32, i64, f16, f32, f64, sc.complex128], ids=str)
@pytest.mark.parametrize("op", ["Sum", "Product", "Mean", "Norm1", "Any", "ArgMax", "Min"])
def test_a_reduction_and_c_promote(a: Any, c: Any, op: str) -> None:
    chosen = sc.ReductionOp[op]
    if a.is_complex and op in ("ArgMax", "Min"):
        pytest.skip("complex numbers have no order")
    x, addend = np.ones((2, 2), a.numpy), np.ones(2, c.numpy)
    alone = sc.reduce(x, "ab", "a", chosen)
    found = sc.reduce(x, "ab", "a", chosen, c=addend, c_modes="a")
    assert found.dtype is promote(alone.dtype, c)
    expected = alone.numpy().astype(found.dtype.numpy) + addend.astype(found.dtype.numpy)
    assert np.allclose(found.numpy(), expected)
    twice = sc.reduce(x, "ab", "a", chosen, c=addend, c_modes="a", alpha=2, beta=2)
    assert twice.dtype is found.dtype
    if not found.dtype.is_bool:
        assert np.allclose(twice.numpy(), expected + expected)


def test_what_is_added_to_a_reduction_is_not_lost() -> None:
    x = np.array([[1, 2], [3, 4]], np.int32)
    half = np.array([0.5, 0.25], np.float32)
    assert sc.reduce(x, "ab", "a", c=half, c_modes="a").tolist() == [3.5, 7.25]
    most = sc.ReductionOp.Min
    found = sc.reduce(x, "ab", "a", most, c=np.array([2**40, 1]), c_modes="a")
    assert found.tolist() == [2**40 + 1, 4]
    assert sc.reduce(x, "ab", "ab", alpha=2**31).tolist() == (x.astype(np.int64) << 31).tolist()


@pytest.mark.parametrize("is_plan", [False, True])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Norm2", "LogSumExp"])
@pytest.mark.parametrize("unary", [UnaryOp.Identity, UnaryOp.Sqrt])
@pytest.mark.parametrize("dtype", ["i4", "f2", "f4"])
def test_a_reduction_computes_with_the_bits_of_c(
    dtype: str, unary: UnaryOp, op: str, *, is_plan: bool
) -> None:
    x = (np.arange(1, 7).reshape(2, 3) / (1 if dtype == "i4" else 7)).astype(dtype)
    if dtype == "i4" and op == "Sum" and unary is UnaryOp.Identity:
        x = x + 2**25  # no f32
    c = np.array([0.1, 0.2])
    kind = sc.ReductionOp[op]
    wide = sc.reduce(x.astype("f8"), "ab", "a", kind, unary=[unary]).numpy() + c
    if is_plan:
        out = TensorDescriptor.contiguous((2,), f64)
        a = like(x, "ab").with_unary(unary)
        operation = OperationDescriptor.reduction(a, like(c, "a"), out, "a", kind)
        found = Plan(operation).execute([x, c], [1, 1])
    else:
        found = sc.reduce(x, "ab", "a", kind, c=c, c_modes="a", unary=[unary])
    assert found.dtype is f64
    assert_close(found.numpy(), wide, f64, "sum", k_extent=3)
