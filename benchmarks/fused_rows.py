"""Cases of the suite reduce: softmax and layer norm in one kernel with ops around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, run_device_case
from benchmarks.host_work import by_rows, random_array
from benchmarks.results import Row
from softcuda.dtype import DType, bf16, f32

__all__ = ["FUSED_ROWS"]

Array = np.ndarray[Any, Any]

GROUP = "Rows with ops around them, PyTorch by torch.compile (floor: bytes over the copy rate)"
_SHAPES = ((8192, 8192), (65536, 128))


def _scores64(x: Array, mask: Array) -> Array:
    scores = x.astype(np.float64) * 0.125 + mask.astype(np.float64)
    made: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
    made /= made.sum(axis=1, keepdims=True)
    return made


def _block64(x: Array, r: Array, weight: Array, bias: Array) -> Array:
    made: Array = x.astype(np.float64) + r
    made -= made.mean(axis=1, keepdims=True)
    made /= np.sqrt(np.square(made).mean(axis=1, keepdims=True) + 1e-5)
    made = made * weight.astype(np.float64) + bias.astype(np.float64)
    return np.maximum(made, 0.0)


def _compiled(torch: Any, function: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    made = torch.compile(function)
    return lambda: made(*given)


def _scores(shape: tuple[int, int], dtype: DType, name: str, bench: Bench) -> Row:
    x = random_array(2, *shape).astype(dtype.numpy, copy=False)
    mask = random_array(3, shape[1]).astype(dtype.numpy, copy=False)
    case = DeviceCase(
        [x, mask],
        lambda x, mask: sc.softmax(x * 0.125 + mask),
        by_rows(lambda rows: _scores64(rows, mask), x),
        tolerance(dtype.name, summed=16, steps=3),
        2 * x.nbytes + mask.nbytes,
        torch=lambda torch, x, mask: _compiled(
            torch, lambda a, b: torch.softmax(a * 0.125 + b, dim=1), x, mask
        ),
    )
    return run_device_case(bench, GROUP, name, case)


def _block(shape: tuple[int, int], dtype: DType, name: str, bench: Bench) -> Row:
    x, r = (random_array(k, *shape).astype(dtype.numpy, copy=False) for k in (4, 5))
    w, b = (random_array(k, shape[1], low=0.5).astype(dtype.numpy, copy=False) for k in (6, 7))
    case = DeviceCase(
        [x, r, w, b],
        lambda x, r, w, b: sc.relu(sc.layer_norm(x + r, w, b)),
        by_rows(lambda rows, others: _block64(rows, others, w, b), x, r),
        tolerance(dtype.name, summed=16, steps=3),
        3 * x.nbytes + w.nbytes + b.nbytes,
        torch=lambda torch, x, r, w, b: _compiled(
            torch,
            lambda a, c, d, e: torch.relu(
                torch.nn.functional.layer_norm(a + c, (shape[1],), d, e, 1e-5)
            ),
            *(x, r, w, b),
        ),
    )
    return run_device_case(bench, GROUP, name, case)


def _cases() -> list[Case]:
    made = []
    texts = (("softmax(x * s + mask)", _scores), ("relu(layer_norm(x + r))", _block))
    for text, measure in texts:
        for dtype in (f32, bf16):
            for shape in _SHAPES:
                name = f"{text} {dtype} {shape[0]}x{shape[1]}"
                made.append(Case(GROUP, name, partial(measure, shape, dtype, name)))
    return made


FUSED_ROWS = tuple(_cases())
