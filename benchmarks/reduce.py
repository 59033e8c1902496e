"""The suite reduce: sums, softmax and layer norm against the copy rate of the device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, random_array, run_device_case
from benchmarks.results import Row

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]

SUMS = "Sums, f32 (floor: bytes read over the copy rate)"
ROWS = "Rows, f32 (floor: bytes read and written over the copy rate)"
SUM_SHAPES = ((8192, 8192), (1 << 20, 64))
ROW_SHAPES = ((8192, 8192), (65536, 128))
AXES: tuple[tuple[str, int | None], ...] = (("all", None), ("inner", 1), ("outer", 0))


def _sum(shape: tuple[int, ...], name: str, axis: int | None, bench: Bench) -> Row:
    array = random_array(1, *shape, low=0.0)
    reference = np.asarray(array.sum(axis=axis, dtype=np.float64))

    def torch_sum(torch: Any, x: Any) -> Any:
        return (lambda: torch.sum(x)) if axis is None else (lambda: torch.sum(x, dim=axis))

    case = DeviceCase(
        [array],
        lambda x: sc.sum(x, axis=axis),
        reference,
        tolerance("f32", summed=64),
        array.nbytes + 4 * reference.size,
        torch=torch_sum,
        cupy=lambda cupy, x: lambda: cupy.sum(x, axis=axis),
    )
    return run_device_case(bench, SUMS, name, case)


def _softmax64(x: Array) -> Array:
    made = x.astype(np.float64)
    made -= made.max(axis=1, keepdims=True)
    np.exp(made, out=made)
    made /= made.sum(axis=1, keepdims=True)
    return made


def _softmax(shape: tuple[int, ...], name: str, bench: Bench) -> Row:
    array = random_array(2, *shape)
    case = DeviceCase(
        [array],
        sc.softmax,
        _softmax64(array),
        tolerance("f32", summed=16),
        2 * array.nbytes,
        torch=lambda torch, x: lambda: torch.softmax(x, dim=1),
    )
    return run_device_case(bench, ROWS, name, case)


def _layer_norm(shape: tuple[int, ...], name: str, bench: Bench) -> Row:
    x = random_array(3, *shape)
    weight, bias = random_array(4, shape[1], low=0.5), random_array(5, shape[1])
    right = x.astype(np.float64)
    right -= right.mean(axis=1, keepdims=True)
    right /= np.sqrt(np.square(right).mean(axis=1, keepdims=True) + 1e-5)
    right *= weight
    right += bias
    case = DeviceCase(
        [x, weight, bias],
        sc.layer_norm,
        right,
        tolerance("f32", summed=16),
        2 * x.nbytes + weight.nbytes + bias.nbytes,
        torch=lambda torch, x, w, b: (
            lambda: torch.nn.functional.layer_norm(x, (shape[1],), w, b, 1e-5)
        ),
    )
    return run_device_case(bench, ROWS, name, case)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


CASES = (
    *(
        Case(
            SUMS,
            f"sum {_text(shape)}, {which}",
            partial(_sum, shape, f"sum {_text(shape)}, {which}", axis),
        )
        for shape in SUM_SHAPES
        for which, axis in AXES
    ),
    *(
        Case(ROWS, f"{label} {_text(shape)}", partial(measure, shape, f"{label} {_text(shape)}"))
        for label, measure in (("softmax", _softmax), ("layer_norm", _layer_norm))
        for shape in ROW_SHAPES
    ),
)
