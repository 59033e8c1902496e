"""Checks of faults that users reported of other libraries, each restated as what must hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from softcuda.dtype import bf16, dtype_of_array, f16, f32, f64, promote
from softcuda.errors import ArgumentError
from softcuda.functions import multiply
from softcuda.named import (
    OperationDescriptor,
    ReductionOp,
    contract,
    einsum,
    permute,
    reduce,
)
from softcuda.tools.conformance_bench import Bench, Check, dense, differs, operand
from softcuda.tools.conformance_expressions import pattern
from softcuda.tools.conformance_faults import refusal
from softcuda.tools.tolerance import difference

__all__ = ["report_checks"]

Array = np.ndarray[Any, Any]

_FLOATS = (f16, bf16, f32, f64)


def report_checks() -> Iterator[Check]:
    """Yield a check a report."""
    for name, run in _REPORTS.items():
        yield Check(name, run)


def _half_sums(bench: Bench) -> str:
    """Sums of ones in f16 count beyond 2048, along every axis, and overflow to infinity."""
    counts = {2048: 2048, 2049: 2048, 3000: 3000, 6000: 6000, 65504: 65504, 65520: math.inf}
    for count, total in counts.items():
        ones = bench.place(np.ones(count, np.float16))
        for found in (reduce(ones, "i", ""), einsum("i->", ones), einsum("i,i->", ones, ones)):
            value = bench.value(found)
            if value.dtype != np.float16 or float(value) != total:
                return f"{count} ones gave {value!r}"
    wide = bench.value(reduce(bench.place(np.ones((6000, 115), np.float16)), "ij", "j"))
    return "" if (wide == 6000).all() else f"6000 rows of ones gave {wide}"


def _column_means(bench: Bench) -> str:
    """A mean over a long first axis beside a short second one is right to a few units."""
    rows = 2_000_000
    x = (285 + np.resize(np.array([-1.0, 0.5, 0.25, -0.75, 1.0]), (rows, 2))).astype(np.float32)
    expected = x.mean(0, dtype=np.float64)
    for array, modes in ((x, "ij"), (x.T, "ji")):
        found = bench.value(reduce(bench.place(array), modes, "j", ReductionOp.Mean))
        wrong = difference(found, expected, f32, "mean")
        if wrong:
            return wrong
    return ""


def _plain_f32(bench: Bench) -> str:
    """F32 is F32: no operand is rounded to TF32 unless it is asked for."""
    v, eye = np.array([0, 3.14], np.float32), np.eye(2, dtype=np.float32)
    found = bench.value(einsum("i,ij,j->", *map(bench.place, (v, eye, v))))
    return differs(found, float(v[1]) ** 2, f32, terms=4)


def _mixed_dtypes(bench: Bench) -> str:
    """The dtype of a result does not depend on the order of the operands."""
    one = {d: bench.place(np.full(3, 0.1).astype(d.numpy)) for d in _FLOATS}
    for a in _FLOATS:
        for b in _FLOATS:
            for found in (multiply(one[a], one[b]), einsum("i,i->i", one[a], one[b])):
                value = bench.value(found)
                if dtype_of_array(value.dtype) is not promote(a, b):
                    return f"{a} with {b} gave {value.dtype}"
    return ""


def _exact_products(bench: Bench) -> str:
    """bf16 beside f32 is multiplied as it is stored, and gives f32."""
    a = (pattern((3, 4)) + 0.1).astype(bf16.numpy)
    b = (pattern((4, 5), 1) + 0.1).astype(np.float32)
    found = bench.value(einsum("ij,jk->ik", bench.place(a), bench.place(b)))
    wide = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(wide[0]) @ np.abs(wide[1])
    return differs(found, wide[0] @ wide[1], f32, terms=4, scale=scale)


def _one_rounding(bench: Bench) -> str:
    """What lies between the pairs of a path is not rounded to 16 bits."""
    for dtype, gap in ((f16, 2048), (bf16, 256)):  # from here on the dtype has no odd numbers
        rows = (np.array([[1, 1]]), np.array([[gap, -gap], [1, 0]]), np.array([[1], [1]]))
        placed = [bench.place(x.astype(dtype.numpy)) for x in rows]
        found = bench.value(einsum("ij,jk,kl->il", *placed, optimize=[(0, 1), (0, 1)]))
        if found.item() != 1:
            return f"{dtype}: {found.item()}, right is 1"
    return ""


def _reversed_views(bench: Bench) -> str:
    """A view with negative strides is read as such in every place of an operation."""
    v, m = pattern((5,))[::-1], pattern((5, 3), 1)
    both, rows = m[::-1, ::-1], m[::-1]
    ways: dict[str, tuple[Any, Any]] = {
        "i,ij->j": (einsum("i,ij->j", bench.place(v), bench.place(m[:, ::-1])), v @ m[:, ::-1]),
        "sum": (reduce(bench.place(both), "ij", "j"), both.sum(0)),
        "max": (reduce(bench.place(rows), "ij", "i", ReductionOp.Max), rows.max(1)),
        "permute": (permute(bench.place(rows), "ij", "ji"), rows.T),
    }
    for name, (made, expected) in ways.items():
        found = bench.value(made)
        if not np.array_equal(found, expected):
            return f"{name}: {found}, right is {expected}"
    return ""


def _windows(bench: Bench) -> str:
    """Windows that overlap are matrices like others."""
    base = np.array([[1.0, 2, 3], [4, 5, 6]])
    view = np.lib.stride_tricks.as_strided(base, (2, 2, 2), (24, 8, 8))
    found = bench.value(einsum("...ab,...bc->...ac", bench.place(view), bench.place(view)))
    expected = np.array([[[5.0, 8], [8, 13]], [[41, 50], [50, 61]]])
    return "" if np.array_equal(found, expected) else f"{found}"


def _strided_output(bench: Bench) -> str:
    """A converted result goes where the output's strides say, and nowhere else."""
    if bench.device != "cpu":
        return ""
    ones = np.ones((2, 2), np.float32)
    block = np.zeros((2, 2, 2))
    plan = bench.einsum_plan("ij,jk->ik", [ones, ones])
    plan.execute_into([ones, ones], block[:, :, 0])
    right = (block[:, :, 0] == 2).all() and (block[:, :, 1] == 0).all()
    scalar = np.zeros(())
    v, w = np.array([1.0, 2]), np.array([3.0, 4])
    bench.einsum_plan("i,i->", [v, w]).execute_into([v, w], scalar)
    return "" if right and scalar == 11 else f"{block}, {scalar}"


def _overlaps(bench: Bench) -> str:
    """An output that overlaps itself or an input is refused; C itself is a fine output."""
    if bench.device != "cpu":
        return ""
    a = np.arange(4.0).reshape(2, 2)
    plan = bench.einsum_plan("ij,jk->ik", [a, a])
    broadcast = np.lib.stride_tricks.as_strided(np.ones(1), (2, 2), (0, 0))
    c = np.ones((2, 2))
    operation = OperationDescriptor.contraction(
        operand(a, "ik"), operand(a, "kj"), operand(c, "ij"), dense((2, 2), f64), "ij"
    )
    bench.plan(operation).execute_into([a, a, c], c, [1, 1])
    return (
        refusal(
            ArgumentError,
            "the output overlaps itself: its axes [0]",
            lambda: plan.execute_into([a, a], broadcast),
        )
        or refusal(
            ArgumentError,
            "the output overlaps input 0",
            lambda: plan.execute_into([a, a], a.T),
        )
        or ("" if np.array_equal(c, a @ a + 1) else f"in place: {c}")
    )


def _transposed_sum(bench: Bench) -> str:
    """A matrix plus its own transpose is symmetric, run after run."""
    x = bench.place(np.arange(10000.0).reshape(100, 100))
    total = x + x.T
    for _ in range(3):
        found = bench.value(total)
        if found.sum() != 99990000 or found[0, 99] != 9999 or found[99, 0] != 9999:
            return f"the sum is {found.sum()}"
    return ""


def _linear_memory(bench: Bench) -> str:
    """A power by a repeated operand takes memory of its size, not of its square."""
    x = pattern((1024,)) + 1.5
    plan = bench.einsum_plan("i,i,i,i->i", [x] * 4)
    found = plan.execute([bench.place(x)] * 4).numpy()
    most = 64 << 10
    if plan.workspace_bytes > most:
        return f"{plan.workspace_bytes} bytes of workspace; allowed are {most}"
    return differs(found, x**4, f64, terms=4)


def _plans_by_labels(bench: Bench) -> str:
    """Plans of one layout and other labels are other plans."""
    a, b = pattern((6, 6, 6, 6)), pattern((6, 6), 1)
    for text in ("ijkl,ik->jl", "ijkl,jl->ik", "ijkl,ik->jl"):
        found = bench.einsum_plan(text, [a, b]).execute([bench.place(a), bench.place(b)]).numpy()
        if not np.array_equal(found, np.einsum(text, a, b)):
            return text
    return ""


def _scalars_by_dtype(bench: Bench) -> str:
    """A scalar is packed as the dtype that the operation computes in, whatever Python holds."""
    x = np.array([0.25, 0.5, 1, 2, 4], np.float32)
    operation = OperationDescriptor.permutation(operand(x, "i"), dense((5,), f32), "i")
    factors: tuple[Any, ...] = (5.0, 5, np.float64(5.0), np.float32(5.0))
    for factor in factors:
        found = bench.plan(operation).execute([bench.place(x)], [factor]).numpy()
        if not np.array_equal(found, 5 * x):
            return f"{factor!r}: {found}"
    lazy = bench.value(contract(bench.place(x), "i", 1.0, "", "i", alpha=5.0))
    return "" if np.array_equal(lazy, 5 * x) else f"contract: {lazy}"


def _kept_batch(bench: Bench) -> str:
    """An inner product with a kept axis is that of each part."""
    x, y = (pattern((8, 4, 4, 4), k).astype(np.float32) for k in (0, 1))
    found = bench.value(einsum("...ijk,...ijk->...", bench.place(x), bench.place(y)))
    expected = (x.astype(np.float64) * y).sum((1, 2, 3))
    return differs(found, expected, f32, terms=64, scale=np.abs(x * y).sum((1, 2, 3)))


def _many_labels(bench: Bench) -> str:
    """61 labels are no more than 26 or 52."""
    even = np.array([[1, 0.5], [0, 1]])
    odd = np.array([[1, 0], [-0.25, 1]])
    v, w = np.array([1, -0.5]), np.array([0.25, 1])
    arguments: list[Any] = [bench.place(v), [0]]
    for k in range(60):
        arguments += [bench.place(odd if k % 2 else even), [k, k + 1]]
    found = bench.value(einsum(*arguments, bench.place(w), [60], []))
    return differs(found, -1.2337989103882405, f64, terms=128, scale=64.0)


def _extremes(bench: Bench) -> str:
    """Positions and extremes are right where every element is the value a search may begin with."""
    cases: tuple[tuple[list[float], ReductionOp, float], ...] = (
        ([-math.inf] * 3, ReductionOp.ArgMax, 0),
        ([math.inf], ReductionOp.ArgMin, 0),
        ([np.finfo(np.float64).max], ReductionOp.ArgMin, 0),
        ([-math.inf] * 2, ReductionOp.Max, -math.inf),
        ([math.inf], ReductionOp.Min, math.inf),
    )
    for values, op, right in cases:
        found = bench.value(reduce(bench.place(np.array(values)), "i", "", op))
        if found != right:
            return f"{op.name} of {values} gave {found}"
    matrix = np.array([[1.0, 7, 3], [9, 2, 4]])
    place = bench.value(reduce(bench.place(matrix), "ij", "", ReductionOp.ArgMax))
    return "" if place == 3 else f"ArgMax over two labels gave {place}"


_REPORTS: dict[str, Callable[[Bench], str]] = {
    "sums of f16 ones": _half_sums,
    "means over a long first axis": _column_means,
    "f32 without TF32": _plain_f32,
    "dtypes of mixed operands": _mixed_dtypes,
    "bf16 beside f32": _exact_products,
    "one rounding": _one_rounding,
    "reversed views": _reversed_views,
    "overlapping windows": _windows,
    "a strided, converted output": _strided_output,
    "outputs that overlap": _overlaps,
    "a matrix and its transpose": _transposed_sum,
    "i,i,i,i->i in linear memory": _linear_memory,
    "plans by labels": _plans_by_labels,
    "scalars by dtype": _scalars_by_dtype,
    "a kept batch axis": _kept_batch,
    "61 labels": _many_labels,
    "extremes and positions": _extremes,
}
