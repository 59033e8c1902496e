"""Suite cpu: square matrix products, f32 and f64, against NumPy's call with and without out=."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case, Work, executable_contestant, peer, run_work
from benchmarks.results import Check, Row, at_least, at_most
from benchmarks.timing import OURS, Samples, Schedule

__all__ = ["CASES"]

EXTENTS = (8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048)
LARGE = 512  # from here on a rate must be reached, below it a call
GROUP = "Matrix product, n x n, DEFAULT.soft"


def _matmul(extent: int, dtype: str, bench: Bench) -> Row:
    """Time C[i, j] = sum_k A[i, k] * B[k, j] of one extent."""
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    rng = np.random.default_rng(extent)
    a, b = (rng.standard_normal((extent, extent)).astype(kind) for _ in range(2))
    out = np.empty_like(a)
    name = f"{dtype}, n = {extent}"
    executable = sc.compile(sc.asarray(a) @ sc.asarray(b), "default")
    torch = bench.peers.torch
    names: dict[str, Any] = {"a": a, "b": b, "o": out, "matmul": np.matmul}
    tensors: dict[str, Any] = {}
    if torch is not None:
        tensors = {"a": torch.from_numpy(a), "b": torch.from_numpy(b), "mm": torch.mm}

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        if OURS not in taken:
            return [at_least(f"matmul {name}", None, 0)]
        ours = taken[OURS].seconds
        fresh, reused = taken["NumPy"].seconds, taken["NumPy out="].seconds
        faster = min((fresh, reused), key=statistics.median)
        if extent >= LARGE:
            rate = statistics.median(f / own for f, own in zip(faster, ours, strict=True))
            return [at_least(f"matmul {name}: of NumPy's rate", rate, 0.97)]
        extra = statistics.median(own - f for f, own in zip(faster, ours, strict=True))
        return [at_most(f"matmul {name}: us above NumPy's call", extra * 1e6, 5.0)]

    threaded = extent >= 64
    work = Work(
        (
            executable_contestant(executable),
            peer("NumPy", "matmul(a, b)", names),
            peer("NumPy out=", "matmul(a, b, out=o)", names, poison=lambda: out.fill(np.nan)),
            peer("PyTorch", "mm(a, b)", tensors, absent=torch is None),
        ),
        _product(a, b),
        tolerance(dtype, extent),
        3 * a.nbytes,
        2 * extent**3,
        dtype,
        Schedule(
            budget_s=3.0 if extent >= 1024 else 1.5,
            sample_s=0.02 if threaded else 0.004,
            settle_s=0.02 if threaded else 0.0,
            rounds=(7, 25),
        ),
        checks,
    )
    return run_work(bench, GROUP, name, work)


def _product(a: Any, b: Any) -> Any:
    """Return the product in f64; of f64 operands, from their high and low halves."""
    if a.dtype == np.float32:
        return np.matmul(a.astype(np.float64), b.astype(np.float64))
    high = a.astype(np.float32).astype(np.float64)
    return np.matmul(high, b) + np.matmul(a - high, b)


CASES = tuple(
    Case(GROUP, f"{dtype}, n = {extent}", partial(_matmul, extent, dtype))
    for dtype in ("f32", "f64")
    for extent in EXTENTS
)
