"""Checks of einsum: expressions with known values and random ones, in every float and layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from softcuda.dtype import DType, bf16, f16, f32, f64, i64
from softcuda.named import einsum
from softcuda.tools.conformance_bench import Bench, Check, differs
from softcuda.tools.conformance_expressions import FAULTS, RULES, Case
from softcuda.tools.conformance_oracle import einsum as oracle
from softcuda.tools.conformance_oracle import magnitude
from softcuda.tools.conformance_random import laid_out, random_expression

__all__ = ["compared", "expression_checks", "random_checks"]

Array = np.ndarray[Any, Any]

_DTYPES = (f64, f32, f16, bf16, i64)
_SLICED_BYTES = 64  # a memory limit that most intermediates do not meet


def expression_checks() -> Iterator[Check]:
    """Yield the expressions with known values: lazily and through a plan, in every dtype."""
    for number, case in enumerate((*RULES, *FAULTS)):
        for dtype in _DTYPES:
            if dtype is i64 and any((np.asarray(x) % 1).any() for x in case.operands):
                continue
            name = f"einsum {number}, {case.expression!r} {_shapes(case)} {dtype}"
            yield Check(name, _Known(case, dtype))


def random_checks(count: int) -> Iterator[Check]:
    """Yield random expressions: strides of all kinds, slices, plans.

    Args:
        count: how many; the seeds are 0 to count - 1.
    """
    for seed in range(count):
        dtype = (f64, f32, f16, bf16)[seed % 4]
        text = random_expression(seed).text
        yield Check(f"random_expression({seed}): {text!r} {dtype}", _Random(seed, dtype))


class _Known:
    """An expression with a known value, in one dtype."""

    def __init__(self, case: Case, dtype: DType) -> None:
        self._case = case
        self._dtype = dtype

    def __call__(self, bench: Bench) -> str:
        operands = [
            np.asarray(x, np.float64).astype(self._dtype.numpy) for x in self._case.operands
        ]
        return compared(bench, self._case.expression, operands, self._dtype)


class _Random:
    """A random expression, in one dtype."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self._seed = seed
        self._dtype = dtype

    def __call__(self, bench: Bench) -> str:
        case = random_expression(self._seed)
        rng = np.random.default_rng([self._seed, 2])
        operands = [laid_out(x.astype(self._dtype.numpy), rng) for x in case.operands()]
        return compared(bench, case.text, operands, self._dtype)


def compared(bench: Bench, text: str, operands: list[Array], dtype: DType) -> str:
    """Return how einsum, its slices or its plan differ from the joint index space; "" if none."""
    wide = [x.astype(np.complex128 if dtype.is_complex else np.float64) for x in operands]
    expected = oracle(text, *wide)
    about: dict[str, Any] = {"terms": _terms(text, wide), "scale": magnitude(text, *wide)}
    placed = [bench.place(x) for x in operands]
    ways: dict[str, Callable[[], Array]] = {
        "lazy": lambda: bench.value(einsum(text, *placed)),
        "sliced": lambda: bench.value(einsum(text, *placed, memory_limit=_SLICED_BYTES)),
        "plan": lambda: bench.einsum_plan(text, operands).execute(placed).numpy(),
    }
    for way, run in ways.items():
        wrong = differs(run(), expected, dtype, **about)
        if wrong:
            return f"{way}: {wrong}"
    return ""


def _terms(text: str, operands: list[Array]) -> int:
    """Return how many products each element of the result sums, at most, plus one a factor."""
    ones = oracle(text, *(np.ones(x.shape) for x in operands))
    return int(max(ones.max(initial=0.0), 1)) + len(operands)


def _shapes(case: Case) -> str:
    return " ".join(str(list(np.shape(x))) for x in case.operands)
