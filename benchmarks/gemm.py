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
EXTENTS = (1024, 2048, 4096, 1031, 2053)


def _torch(torch: Any, a: Any, b: Any) -> Any:
    torch.backends.cuda.matmul.allow_tf32 = False
    return lambda: torch.matmul(a, b)


def _matmul(extent: int, name: str, bench: Bench) -> Row:
    a, b = random_array(1, extent, extent), random_array(2, extent, extent)
    case = DeviceCase(
        [a, b],
        lambda x, y: x @ y,
        a.astype(np.float64) @ b.astype(np.float64),
        tolerance("f32", summed=extent),
        3 * a.nbytes,
        2 * extent**3,
        torch=_torch,
        cupy=lambda cupy, x, y: lambda: cupy.matmul(x, y),
    )
    row = run_device_case(bench, GROUP, name, case)
    if row.timings[0].us:
        row.facts["TFLOP/s"] = case.flops / row.timings[0].us * 1e-6
    return row


CASES = tuple(Case(GROUP, f"{n}", partial(_matmul, n, f"{n}")) for n in EXTENTS)
