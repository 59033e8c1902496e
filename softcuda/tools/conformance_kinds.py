"""Checks of exact values: bools, integers and floats in one operation, and sums over nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.dtype import bool_, f32, f64, i32, i64
from softcuda.named import ReductionOp, UnaryOp, contract, einsum, reduce
from softcuda.named.arithmetic import common_dtype
from softcuda.tensor import Tensor
from softcuda.tools.conformance_bench import Bench, Check
from softcuda.tools.conformance_random import laid_out, random_expression
from softcuda.tools.conformance_values import compared

__all__ = ["kind_checks"]

_DTYPES: Final = (bool_, i32, i64, f32, f64)
I32, I64, F32 = np.int32, np.int64, np.float32

BIG: Final = np.array([2**20], I32)  # its square passes 32 bits
BIGS: Final = np.full((2, 2), 2**20, I32)
FLAGS: Final = np.array([[True, False, True], [True, True, True]])


class Mixed(NamedTuple):
    """An operation that is exact.

    Attributes:
        build: operands as tensors -> the result.
        operands: arrays.
        dtype: NumPy's, of the result.
        value: the result.
    """

    build: Callable[..., Tensor]
    operands: tuple[Any, ...]
    dtype: Any
    value: Any


def kind_checks(count: int) -> Iterator[Check]:
    """Yield the operations: their dtype and their value, exactly; then random expressions.

    Args:
        count: how many random expressions; the seeds are 0 to count - 1.
    """
    for name, mixed in _MIXED.items():
        yield Check(name, _Exact(mixed))
    for seed in range(count):
        yield Check(f"random_expression({seed}) of several kinds", _Random(seed))


class _Random:
    """A random expression of whole numbers, each operand in a dtype of its own, not all of bool."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, bench: Bench) -> str:
        case = random_expression(self._seed)
        rng = np.random.default_rng([self._seed, 4])
        whole = [np.asarray(4 * x) for x in case.operands()]
        kinds = _DTYPES[: rng.integers(3, len(_DTYPES) + 1)]  # so that many have no float
        dtypes = [kinds[rng.integers(len(kinds))] for _ in whole]
        dtypes[rng.integers(len(dtypes))] = kinds[rng.integers(1, len(kinds))]
        operands = [laid_out(x.astype(d.numpy), rng) for x, d in zip(whole, dtypes, strict=True)]
        wrong = compared(bench, case.text, operands, common_dtype(dtypes))
        return f"{case.text!r} of {dtypes}: {wrong}" if wrong else ""


class _Exact:
    def __init__(self, mixed: Mixed) -> None:
        self._mixed = mixed

    def __call__(self, bench: Bench) -> str:
        build, operands, dtype, value = self._mixed
        found = bench.value(build(*(bench.place(np.asarray(x)) for x in operands)))
        is_right = found.dtype == dtype and np.array_equal(found, value)
        return "" if is_right else f"{found.dtype} {found}, right is {np.dtype(dtype)} {value}"


def _expression(text: str) -> Callable[..., Tensor]:
    return lambda *operands: einsum(text, *operands, optimize="left-to-right")


_MIXED: Final[dict[str, Mixed]] = {
    "a product of i32 beside i64": Mixed(
        _expression("a,a,a->a"), (BIG, BIG, np.ones(1, I64)), I64, [2**40]
    ),
    "a chain of i32 and an i64": Mixed(
        _expression("ab,bc,cd->ad"), (BIGS, BIGS, np.eye(2, dtype=I64)), I64, [[2**41] * 2] * 2
    ),
    "i32 products and an i64 C": Mixed(
        lambda a, b, c: contract(a, "a", b, "a", "a", c=c, c_modes="a"),
        (BIG, BIG, np.ones(1, I64)),
        I64,
        [2**40 + 1],
    ),
    "bools that are summed beside floats": Mixed(
        _expression("ab,a->a"), (FLAGS, np.array([1, 2], F32)), F32, [2, 6]
    ),
    "bools multiplied before an integer": Mixed(
        _expression("ab,bc,cd->ad"), (FLAGS, FLAGS.T, np.ones((2, 2), I32)), I32, [[4, 4], [5, 5]]
    ),
    "a root of integers that is summed": Mixed(
        lambda a, b: contract(a, "ab", b, "ab", "a", unary=[UnaryOp.Sqrt]),
        (np.array([[4, 9]], I32), np.ones((1, 2), I32)),
        F32,
        [5],
    ),
    "integers that are summed and an f32 C": Mixed(
        lambda a, c: reduce(a, "ab", "a", c=c, c_modes="a"),
        (np.array([[1, 2], [3, 4]], I32), np.array([0.5, 0.25], F32)),
        F32,
        [3.5, 7.25],
    ),
    "the least i32 and an i64 C": Mixed(
        lambda a, c: reduce(a, "ab", "a", ReductionOp.Min, c=c, c_modes="a"),
        (np.array([[1, 2], [3, 4]], I32), np.array([2**40, 1], I64)),
        I64,
        [2**40 + 1, 4],
    ),
    "f32 that is summed and an f64 C": Mixed(
        lambda a, c: reduce(a, "ab", "a", c=c, c_modes="a"),
        (np.array([[1, 2**-30]], F32), np.array([0.5])),
        np.float64,
        [1.5 + 2**-30],
    ),
    "positions over a diagonal": Mixed(
        lambda a: reduce(a, "cce", "", ReductionOp.ArgMax),
        (np.arange(12).reshape(2, 2, 3) % 10,),
        I64,
        3,
    ),
    "the least of nothing, into nothing": Mixed(
        lambda a: reduce(a, "ab", "a", ReductionOp.Min), (np.zeros((0, 0), F32),), F32, []
    ),
    "a sum over nothing beside NaN": Mixed(
        _expression("a,b->a"), (np.array([np.nan, np.inf, 1]), np.zeros(0)), np.float64, [0, 0, 0]
    ),
    "a label that stretches to nothing beside NaN": Mixed(
        _expression("ab,b->a"), (np.array([[np.nan], [1]], F32), np.zeros(0, F32)), F32, [0, 0]
    ),
}
