"""Operations whose values are worked out by hand: scalars, reductions, elementwise, stretching."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from softcuda.named import BinaryOp, OperationDescriptor, ReductionOp, UnaryOp

__all__ = ["CASES", "UNARY", "Given"]

Array = np.ndarray[Any, Any]

NAN, INF = math.nan, math.inf

A = np.arange(1.0, 7.0).reshape(2, 3)
B = np.array([[1.0, 0], [0, 1], [1, 1]])
X = np.array([[1, NAN, 3], [4, 5, 6]])
EMPTY = np.empty((2, 0))
ONES = np.ones((2, 2))
PLUS, MINUS = np.array([0.0]), np.array([-0.0])


class Given(NamedTuple):
    """An operation on arrays, its scalars, and the value it must have.

    Attributes:
        name: says what is checked.
        build: operands as descriptors -> the operation; its result has the value's extents.
        operands: arrays and their labels.
        scalars: alpha, beta, gamma as the operation has them.
        value: the result in f64.
    """

    name: str
    build: Callable[..., OperationDescriptor]
    operands: Sequence[tuple[Array, str]]
    scalars: Sequence[float]
    value: Any


def _contraction(modes: str) -> Callable[..., OperationDescriptor]:
    def build(out: Any, a: Any, b: Any, c: Any = None) -> OperationDescriptor:
        return OperationDescriptor.contraction(a, b, c, out, modes)

    return build


def _reduction(modes: str, op: ReductionOp) -> Callable[..., OperationDescriptor]:
    def build(out: Any, a: Any, c: Any = None) -> OperationDescriptor:
        return OperationDescriptor.reduction(a, c, out, modes, op)

    return build


def _permutation(modes: str) -> Callable[..., OperationDescriptor]:
    def build(out: Any, a: Any) -> OperationDescriptor:
        return OperationDescriptor.permutation(a, out, modes)

    return build


def _binary(modes: str, op: BinaryOp) -> Callable[..., OperationDescriptor]:
    def build(out: Any, a: Any, b: Any) -> OperationDescriptor:
        return OperationDescriptor.elementwise_binary(a, b, out, modes, op)

    return build


def _trinary(modes: str, ab: BinaryOp, abc: BinaryOp) -> Callable[..., OperationDescriptor]:
    def build(out: Any, a: Any, b: Any, c: Any) -> OperationDescriptor:
        return OperationDescriptor.elementwise_trinary(a, b, c, out, modes, ab, abc)

    return build


R = ReductionOp
_AB = ((A, "ik"), (B, "kj"))
_ROWS = {
    R.Sum: [NAN, 15],
    R.Product: [NAN, 120],
    R.Min: [NAN, 4],
    R.Max: [NAN, 6],
    R.Mean: [NAN, 5],
    R.Norm1: [NAN, 15],
    R.Norm2: [NAN, math.sqrt(77)],
}
_OF_A = {
    R.Sum: ([6, 15], 21),
    R.Product: ([6, 120], 720),
    R.Min: ([1, 4], 1),
    R.Max: ([3, 6], 6),
    R.Mean: ([2, 5], 3.5),
    R.Norm1: ([6, 15], 21),
    R.Norm2: ([math.sqrt(14), math.sqrt(77)], math.sqrt(91)),
    R.LogSumExp: (
        [math.log(sum(map(math.exp, row))) for row in ((1, 2, 3), (4, 5, 6))],
        math.log(sum(map(math.exp, range(1, 7)))),
    ),
}
_OF_NOTHING = {
    R.Sum: 0,
    R.Product: 1,
    R.Min: INF,
    R.Max: -INF,
    R.Mean: NAN,
    R.Norm1: 0,
    R.Norm2: 0,
    R.LogSumExp: -INF,
}

CASES = (
    *(
        Given(f"{op.name} with NaN", _reduction("i", op), [(X, "ij")], [1], v)
        for op, v in _ROWS.items()
    ),
    *(
        Given(f"{op.name} of rows", _reduction("i", op), [(A, "ij")], [1], rows)
        for op, (rows, _) in _OF_A.items()
    ),
    *(
        Given(f"{op.name} of all", _reduction("", op), [(A, "ij")], [1], whole)
        for op, (_, whole) in _OF_A.items()
    ),
    *(
        Given(f"{op.name} of nothing", _reduction("i", op), [(EMPTY, "ij")], [1], [v, v])
        for op, v in _OF_NOTHING.items()
    ),
    Given("scaled empty Min", _reduction("i", R.Min), [(EMPTY, "ij")], [-2], [-INF, -INF]),
    Given("empty Min times 0", _reduction("i", R.Min), [(EMPTY, "ij")], [0], [NAN, NAN]),
    Given("alpha 0 meets NaN", _reduction("i", R.Sum), [(X, "ij")], [0], [NAN, 0]),
    Given("a reduction that drops nothing", _reduction("ji", R.Sum), [(A, "ij")], [1], A.T),
    Given(
        "of one axis, nothing dropped",
        _reduction("i", R.Sum),
        [(np.arange(8.0), "i")],
        [1],
        np.arange(8.0),
    ),
    Given(
        "a reduction of a diagonal",
        _reduction("", R.Max),
        [(np.array([[1.0, 9], [9, 2]]), "ii")],
        [1],
        2,
    ),
    Given(
        "a reduction with C",
        _reduction("i", R.Sum),
        [(A, "ij"), (np.array([1.0, 2]), "i")],
        [2, 10],
        [22, 50],
    ),
    Given(
        "beta 0 of a reduction",
        _reduction("i", R.Sum),
        [(A, "ij"), (np.array([NAN, INF]), "i")],
        [1, 0],
        [6, 15],
    ),
    Given(
        "Max of negatives",
        _reduction("x", R.Max),
        [(-np.arange(16.0).reshape(4, 4), "xy")],
        [1],
        [-0.0, -4, -8, -12],
    ),
    Given("Max of infinities", _reduction("", R.Max), [(np.full(3, -INF), "i")], [1], -INF),
    Given(
        "Max propagates NaN in front", _reduction("", R.Max), [(np.array([NAN, 1]), "i")], [1], NAN
    ),
    Given(
        "Min propagates NaN behind", _reduction("", R.Min), [(np.array([1, NAN]), "i")], [1], NAN
    ),
    Given("alpha and beta", _contraction("ij"), [*_AB, (ONES, "ij")], [2, 3], [[11, 13], [23, 25]]),
    Given(
        "beta 0, C NaN", _contraction("ij"), [*_AB, (ONES * NAN, "ij")], [1, 0], [[4, 5], [10, 11]]
    ),
    Given(
        "beta 0, C inf", _contraction("ij"), [*_AB, (ONES * INF, "ij")], [1, 0], [[4, 5], [10, 11]]
    ),
    Given("beta 1, C NaN", _contraction("ij"), [*_AB, (ONES * NAN, "ij")], [1, 1], ONES * NAN),
    Given(
        "alpha 0 meets NaN in A", _contraction("i"), [(X, "ik"), (np.ones(3), "k")], [0], [NAN, 0]
    ),
    Given(
        "C of one label",
        _contraction("ij"),
        [*_AB, (np.array([10.0, 20]), "i")],
        [1, 1],
        [[14, 15], [30, 31]],
    ),
    Given(
        "C enlarges a label",
        _contraction("ij"),
        [(A[:1], "ik"), (B, "kj"), (np.arange(8.0).reshape(4, 2), "ij")],
        [1, 1],
        [[4, 6], [6, 8], [8, 10], [10, 12]],
    ),
    Given(
        "a label that is new",
        _contraction("ixj"),
        _AB,
        [1],
        np.repeat(np.array([[[4, 5]], [[10, 11]]]), 3, axis=1),
    ),
    Given("permutation", _permutation("ji"), [(A, "ij")], [2], 2 * A.T),
    Given("a permutation keeps NaN at alpha 0", _permutation("ji"), [(X, "ij")], [0], X.T * 0),
    Given(
        "binary with stretched labels",
        _binary("ij", BinaryOp.Add),
        [(np.array([1.0, 2]), "i"), (np.array([10.0, 20, 30]), "j")],
        [1, 2],
        [[21, 41, 61], [22, 42, 62]],
    ),
    Given(
        "binary of a diagonal",
        _binary("i", BinaryOp.Mul),
        [(np.array([[1.0, 9], [9, 2]]), "ii"), (np.array([3.0, 4]), "i")],
        [1, 1],
        [3, 8],
    ),
    Given(
        "trinary",
        _trinary("ij", BinaryOp.Add, BinaryOp.Mul),
        [(A, "ij"), (A.T.copy(), "ji"), (np.array([2.0, 3]), "i")],
        [1, 2, 10],
        (A + 2 * A) * np.array([[20], [30]]),
    ),
    Given(
        "no coefficient is left out",
        _trinary("i", BinaryOp.Add, BinaryOp.Add),
        [(np.array([NAN]), "i"), (np.array([1.0]), "i"), (np.array([2.0]), "i")],
        [0, 1, 1],
        [NAN],
    ),
    Given(
        "minimum of +0 and -0",
        _binary("i", BinaryOp.Min),
        [(PLUS, "i"), (MINUS, "i")],
        [1, 1],
        [-0.0],
    ),
    Given(
        "minimum of -0 and +0",
        _binary("i", BinaryOp.Min),
        [(MINUS, "i"), (PLUS, "i")],
        [1, 1],
        [-0.0],
    ),
    Given(
        "maximum of +0 and -0",
        _binary("i", BinaryOp.Max),
        [(PLUS, "i"), (MINUS, "i")],
        [1, 1],
        [0.0],
    ),
    Given(
        "maximum of -0 and +0",
        _binary("i", BinaryOp.Max),
        [(MINUS, "i"), (PLUS, "i")],
        [1, 1],
        [0.0],
    ),
)

UNARY: dict[UnaryOp, Callable[[Array], Array]] = {
    UnaryOp.Identity: lambda x: x,
    UnaryOp.Negate: np.negative,
    UnaryOp.Abs: np.abs,
    UnaryOp.Square: np.square,
    UnaryOp.Sqrt: np.sqrt,
    UnaryOp.Reciprocal: np.reciprocal,
    UnaryOp.Exp: np.exp,
    UnaryOp.Log: np.log,
    UnaryOp.Sin: np.sin,
    UnaryOp.Cos: np.cos,
    UnaryOp.Tan: np.tan,
    UnaryOp.Sinh: np.sinh,
    UnaryOp.Cosh: np.cosh,
    UnaryOp.Tanh: np.tanh,
    UnaryOp.Asin: np.arcsin,
    UnaryOp.Acos: np.arccos,
    UnaryOp.Atan: np.arctan,
    UnaryOp.Asinh: np.arcsinh,
    UnaryOp.Acosh: np.arccosh,
    UnaryOp.Atanh: np.arctanh,
    UnaryOp.Ceil: np.ceil,
    UnaryOp.Floor: np.floor,
    UnaryOp.Relu: lambda x: np.maximum(x, 0),
    UnaryOp.Sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    UnaryOp.Swish: lambda x: x / (1 + np.exp(-x)),
    UnaryOp.Mish: lambda x: x * np.tanh(np.log1p(np.exp(x))),
    UnaryOp.SoftPlus: lambda x: np.log1p(np.exp(x)),
    UnaryOp.SoftSign: lambda x: x / (1 + np.abs(x)),
    UnaryOp.Conjugate: lambda x: x,
}
