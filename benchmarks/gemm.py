"""The suite gemm: matrix products in f32 on FMA units, beside cuBLAS without TF32."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, run_device_case
from benchmarks.host_work import random_array
from benchmarks.results import Check, Row, at_least
from benchmarks.timing import OURS

__all__ = ["CASES", "summary"]

GROUP = "Matrix products, f32 (PyTorch: cuBLAS, TF32 off)"
BATCHED = "Batched and narrow matrix products, f32 (PyTorch: cuBLAS, TF32 off)"
PEER = "PyTorch"
LEAST, ODD_LEAST = 0.95, 0.9  # of cuBLAS, from 1024 on; of odd extents
EXTENTS = (512, 1024, 2048, 4096, 8192, 1031, 2053, 4099, 8191)
SIZES = (
    (4096, 32, 32, 32),
    (1024, 64, 64, 64),
    (256, 128, 128, 128),
    (1, 1, 4096, 4096),
    (1, 16, 4096, 4096),
    (1, 4096, 16, 4096),
    (1, 8192, 8192, 8),
    (1, 64, 65536, 64),
)


def _torch(torch: Any, a: Any, b: Any) -> Any:
    torch.backends.cuda.matmul.allow_tf32 = False
    return lambda: torch.matmul(a, b)


def _matmul(size: tuple[int, int, int, int], group: str, name: str, bench: Bench) -> Row:
    batches, m, n, k = size
    a, b = random_array(1, batches, m, k), random_array(2, batches, k, n)
    case = DeviceCase(
        [a, b],
        lambda x, y: x @ y,
        a.astype(np.float64) @ b.astype(np.float64),
        tolerance("f32", summed=k),
        a.nbytes + b.nbytes + 4 * batches * m * n,
        2 * batches * m * n * k,
        torch=_torch,
        cupy=lambda cupy, x, y: lambda: cupy.matmul(x, y),
        extra=(partial(_beside_cublas, n),) if group == GROUP and n >= EXTENTS[1] else (),
        published=f"matmul_{n}" if group == GROUP else "",
    )
    row = run_device_case(bench, group, name, case)
    if row.timings[0].us:
        row.facts["TFLOP/s"] = case.flops / row.timings[0].us * 1e-6
    return row


def _beside_cublas(n: int, row: Row) -> Check:
    """Return the check of a square product against cuBLAS."""
    ratio = row.ratios.get(PEER)
    least = ODD_LEAST if n % 2 else LEAST
    return at_least(f"{n}: times cuBLAS", ratio.median if ratio else None, least)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the row of the geometric mean over batched and narrow products."""
    ratios = [
        row.ratios[PEER].median for row in rows if row.group == BATCHED and PEER in row.ratios
    ]
    if not ratios:
        return []
    made = Row(BATCHED, "geometric mean")
    mean = statistics.geometric_mean(ratios)
    made.checks.append(at_least(f"{OURS} beside cuBLAS, geometric mean", mean, 1.0))
    return [made]


CASES = (
    *(Case(GROUP, f"{n}", partial(_matmul, (1, n, n, n), GROUP, f"{n}")) for n in EXTENTS),
    *(
        Case(BATCHED, name, partial(_matmul, size, BATCHED, name))
        for size in SIZES
        for name in ("x".join(map(str, size)),)
    ),
)
