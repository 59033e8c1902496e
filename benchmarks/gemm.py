"""The suite gemm: matrix products in f32 on FMA units, beside cuBLAS without TF32."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, random_array, run_device_case
from benchmarks.results import Row

__all__ = ["CASES"]

GROUP = "Matrix products, f32 (PyTorch: cuBLAS, TF32 off)"
BATCHED = "Batched and narrow matrix products, f32 (PyTorch: cuBLAS, TF32 off)"
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
    )
    row = run_device_case(bench, group, name, case)
    if row.timings[0].us:
        row.facts["TFLOP/s"] = case.flops / row.timings[0].us * 1e-6
    return row


CASES = (
    *(Case(GROUP, f"{n}", partial(_matmul, (1, n, n, n), GROUP, f"{n}")) for n in EXTENTS),
    *(
        Case(BATCHED, name, partial(_matmul, size, BATCHED, name))
        for size in SIZES
        for name in ("x".join(map(str, size)),)
    ),
)
