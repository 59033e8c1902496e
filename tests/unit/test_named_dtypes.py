"""Named axes of mixed dtypes: bools, integers of two widths, and floats in one operation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import OperandDescriptor, OperationDescriptor, Plan, TensorDescriptor, UnaryOp
from softcuda.dtype import bool_, f16, f32, f64, i32, i64
from softcuda.errors import DTypeError

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
