"""Checks of operations with known values, through plans: every form, function, and layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softcuda.dtype import DType, f32, f64
from softcuda.named import OperationDescriptor, UnaryOp
from softcuda.tools.conformance_bench import Bench, Check, dense, operand
from softcuda.tools.conformance_cases import CASES, UNARY, Given
from softcuda.tools.tolerance import difference

__all__ = ["operation_checks"]

Array = np.ndarray[Any, Any]


def operation_checks() -> Iterator[Check]:
    """Yield the operations: lazily where a function has their form, and through a plan."""
    for case in CASES:
        for dtype in (f64, f32):
            yield Check(f"{case.name} {dtype}", _Planned(case, dtype))
    for unary in UnaryOp:
        yield Check(f"UnaryOp.{unary.name}", _Unary(unary))


class _Planned:
    """An operation in one dtype, through a plan, dense and strided."""

    def __init__(self, case: Given, dtype: DType) -> None:
        self._case = case
        self._dtype = dtype

    def __call__(self, bench: Bench) -> str:
        case, dtype = self._case, self._dtype
        value = np.asarray(case.value, np.float64)
        op = "norm" if "Norm" in case.name else "logsumexp" if "LogSumExp" in case.name else "sum"
        for turned in (False, True):
            arrays = [array.astype(dtype.numpy) for array, _ in case.operands]
            if turned:
                arrays = [np.asfortranarray(array) for array in arrays]
            described = [operand(x, m) for x, (_, m) in zip(arrays, case.operands, strict=True)]
            operation = case.build(dense(value.shape, dtype), *described)
            placed = [bench.place(array) for array in arrays]
            found = bench.plan(operation).execute(placed, list(case.scalars)).numpy()
            wrong = difference(found, value, dtype, op, k_extent=8) or _signs(found, value)
            if wrong:
                return wrong
        return ""


class _Unary:
    """A function of an operand, in a permutation and in a contraction."""

    def __init__(self, unary: UnaryOp) -> None:
        self._unary = unary

    def __call__(self, bench: Bench) -> str:
        x = np.array([[1.25, 1.5, 2.75], [3.5, 1.125, 5.0]])
        if self._unary in (UnaryOp.Asin, UnaryOp.Acos, UnaryOp.Atanh):
            x = x / 8
        expected = UNARY[self._unary](x)
        for dtype in (f64, f32):
            array = x.astype(dtype.numpy)
            a = operand(array, "ij").with_unary(self._unary)
            moved = OperationDescriptor.permutation(a, dense((3, 2), dtype), "ji")
            found = bench.plan(moved).execute([bench.place(array)], [1]).numpy()
            wrong = difference(found, expected.T, dtype, self._unary.value)
            ones = np.ones((3,), dtype.numpy)
            summed = OperationDescriptor.contraction(
                a, operand(ones, "j"), None, dense((2,), dtype), "i"
            )
            placed = [bench.place(array), bench.place(ones)]
            total = bench.plan(summed).execute(placed, [1]).numpy()
            scale = np.abs(expected).sum(1)
            wrong = wrong or difference(
                total, expected.sum(1), dtype, "tanh", k_extent=64, scale=scale
            )
            if wrong:
                return wrong
        return ""


def _signs(found: Array, value: Array) -> str:
    """Return where a zero has the wrong sign."""
    bad = (found == 0) & (value == 0) & (np.signbit(found) != np.signbit(value))
    return f"zeros of the wrong sign: {found}, right is {value}" if bad.any() else ""
