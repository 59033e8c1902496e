"""Elementwise functions against NumPy and SciPy, in every dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special
from tolerance import assert_close

import softcuda as sc
from softcuda import errors
from softcuda.dtype import DType
from softcuda.graph.op import OPS, Kind

FLOATS = (sc.f16, sc.bf16, sc.f32, sc.f64)
UNARY: dict[str, Any] = {
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "negative": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "conj": np.conj,
    "real": np.real,
    "imag": np.imag,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": special.expit,
    "gelu": lambda x: np.maximum(x, -1e5) * special.ndtr(x),
    "silu": lambda x: np.maximum(x, -1e5) * special.expit(x),
    "mish": lambda x: np.maximum(x, -1e5) * np.tanh(np.logaddexp(x, 0)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
    "erf": special.erf,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "copy": np.copy,
}
BINARY: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "pow": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "atan2": np.arctan2,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
TOKEN = {op.public: op.name for op in OPS.values()}


def test_every_elementwise_op_is_listed() -> None:
    others = {"cast", "where", "clip", "multiply_add"}
    assert set(UNARY) | set(BINARY) | others == {
        op.public for op in OPS.values() if op.kind is Kind.ELEMENTWISE
    }


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_one_operand(name: str, dtype: DType) -> None:
    x = sc.tensor([0.25, 0.5, 0.875, 0.125, 1.0], dtype)
    with np.errstate(all="ignore"):
        expected = UNARY[name](x.numpy().astype(np.float64))
    found = getattr(sc, name)(x)
    assert_close(found.numpy(), expected, found.dtype, TOKEN[name], scale=1.0)
    method = getattr(x, name)()
    assert (method.op, method.inputs) == (found.op, (x,))


@pytest.mark.parametrize("name", UNARY)
def test_integers_give_f32_where_a_function_is_transcendental(name: str) -> None:
    rule = {"exact": sc.i64, "float": sc.f32, "bool": sc.bool_}
    exact = ["abs", "sign", "square", "negative", "relu", "conj", "real", "imag", "copy"]
    exact += ["floor", "ceil", "round"]
    kind = "exact" if name in exact else "bool" if name[:2] == "is" or "not" in name else "float"
    assert getattr(sc, name)([1, 2]).dtype is rule[kind]
    assert getattr(sc, name)(2).shape == ()


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_two_operands(name: str, dtype: DType) -> None:
    x = sc.tensor([[0.25, 0.5, 0.875], [2.0, 3.0, 0.0]], dtype)
    y = sc.tensor([1.5, 0.5, 2.0], dtype)
    wide = [v.numpy().astype(np.float64) for v in (x, y)]
    found = getattr(sc, name)(x, y)
    assert_close(found.numpy(), BINARY[name](*wide), found.dtype, TOKEN[name])


def test_functions_take_numbers_lists_and_arrays() -> None:
    assert sc.add(1, 2).tolist() == 3
    assert sc.add(1, 2.5).dtype is sc.f32
    assert sc.add(1, sc.ones((2,), sc.f16)).dtype is sc.f16
    assert sc.add([1, 2], 3).tolist() == [4, 5]
    assert sc.add(np.ones(2), sc.ones((2,))).dtype is sc.f64
    assert sc.maximum(True, False).tolist() is True
    with pytest.raises(errors.ArgumentTypeError, match="NoneType"):
        sc.add(None, 1)
    with pytest.raises(errors.DTypeError, match="text"):
        sc.multiply("text", 1)


def test_signed_zeros_and_nan() -> None:
    zeros = sc.tensor([0.0, -0.0])
    signs = [math.copysign(1, v) for v in sc.maximum(zeros, sc.flip(zeros)).tolist()]
    assert signs == [1, 1]
    signs = [math.copysign(1, v) for v in sc.minimum(zeros, sc.flip(zeros)).tolist()]
    assert signs == [-1, -1]
    assert math.copysign(1, sc.relu(-0.0).item()) == 1
    found = sc.maximum(sc.tensor([math.nan, 1.0, 2.0]), sc.tensor([math.nan, 0.0, 1.0])).tolist()
    assert math.isnan(found[0])
    assert found[1:] == [1, 2]


def test_where() -> None:
    x = sc.tensor([1.0, -2.0, math.nan])
    assert sc.where(x > 0, x, 0).tolist() == [1, 0, 0]
    assert sc.where(x > 0, 1, 2).dtype is sc.i64
    assert sc.where(x > 0, sc.ones((3,), sc.f16), 0.5).dtype is sc.f16
    assert sc.where([True, False], [[1], [2]], 0).tolist() == [[1, 0], [2, 0]]
    with pytest.raises(errors.DTypeError, match=r"condition has dtype f32.*compare"):
        sc.where(x, x, x)
    with pytest.raises(errors.ShapeError, match="where"):
        sc.where(x > 0, sc.ones((2,)), 0)


def test_clip() -> None:
    a = np.array([-2.0, 0.5, 9.0], np.float32)
    x = sc.tensor(a)
    assert sc.clip(x, 0, 1).tolist() == np.clip(a, 0, 1).tolist()
    assert sc.clip(x, min=0).tolist() == [0, 0.5, 9]
    assert sc.clip(x, max=1).tolist() == [-2, 0.5, 1]
    assert sc.clip(x).tolist() == a.tolist()
    assert x.clip(2, 1).tolist() == [1, 1, 1]
    assert sc.clip(sc.tensor([1, 2, 3]), 0, 2.5).dtype is sc.f32
    assert sc.clip(sc.tensor([1, 2, 3]), 0, 2).dtype is sc.i64
    assert sc.clip(x, [0, 1, 2], None).tolist() == [0, 1, 9]
    assert math.isnan(sc.clip(sc.tensor([math.nan]), 0, 1).tolist()[0])


def test_multiply_add() -> None:
    assert sc.multiply_add([1.0, 2.0], 3, 0.5).tolist() == [3.5, 6.5]
    assert sc.multiply_add(2, [1, 2], 1).dtype is sc.i64
    a = np.float32(1 + 2**-12)
    assert sc.multiply_add(a, a, -1.0).item() == np.float32(a * a) - 1


def test_cast_and_astype() -> None:
    x = sc.tensor([1.9, -1.9, math.nan, 1e30])
    assert sc.cast(x, sc.i32).tolist() == [1, -1, 0, 2**31 - 1]
    assert sc.cast(x, bool).tolist() == [True, True, True, True]
    assert sc.astype(x, "f32") is x
    assert sc.cast(x, np.float32) is not x
    assert x.astype(np.float64).dtype is sc.f64
    w = sc.variable([1.0])
    assert w.astype(sc.f32) is not w
    with pytest.raises(errors.DTypeError, match="int8"):
        x.astype(np.int8)


def test_numbers_are_constants_and_arrays_are_leaves() -> None:
    y = sc.tensor([1.0]) + 2.5
    assert y.b is not None
    assert y.b.op.name == "constant"
    assert (sc.tensor([1.0]) + np.array(2.5)).b.op.name == "none"  # type: ignore[union-attr]
