"""The suite reduce: reductions, running sums, softmax and layer norm against the copy rate."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.fused_rows import FUSED_ROWS
from benchmarks.gpu_timing import RUNS, WARM_UPS, gpu_of
from benchmarks.gpu_work import DeviceCase, run_device_case
from benchmarks.host_work import by_kept_axis, by_rows, random_array
from benchmarks.published import beside_published
from benchmarks.results import Check, Row, at_least
from softcuda.driver.copies import copy_on_device_async
from softcuda.driver.memory import DeviceMemory
from softcuda.dtype import DType, bf16, f32

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

SUMS = "Reductions (floor: bytes read and written over the copy rate)"
ROWS = "Rows (floor: bytes read and written over the copy rate)"

# What to reach: 3.9e12 bytes/s read, of short rows and few columns 3.6e12, where a copy takes
# 4.25e12 read and written.
_REACHED, _SHORT_REACHED, _ROWS_REACHED = 3.9 / 4.25, 3.6 / 4.25, 0.85
_SQUARE = (8192, 8192)
_SHORT = ((1 << 20, 64), (1 << 22, 16))


class Reduction(NamedTuple):
    """A reduction by softcuda, by PyTorch and in f64.

    Attributes:
        ours: tensor, axes -> tensor.
        torch: torch, tensor, axes -> tensor.
        right: array, axes -> f64.
        summed: addends of a sum in f32; 0 where the result is exact.
    """

    ours: Callable[[Any, Axes], Any]
    torch: Callable[[Any, Any, Axes], Any]
    right: Callable[[Array, Axes], Any]
    summed: int


def _sum64(x: Array, axes: Axes) -> Any:
    return np.sum(x, axes, dtype=np.float64)


def _var64(x: Array, axes: Axes) -> Any:
    wide = x.astype(np.float64)
    wide -= wide.mean(axes, keepdims=True)
    return np.square(wide, out=wide).mean(axes)


REDUCTIONS = {
    "sum": Reduction(sc.sum, lambda torch, x, axes: torch.sum(x, axes), _sum64, 64),
    "amax": Reduction(sc.max, lambda torch, x, axes: torch.amax(x, axes), np.max, 0),
    "argmax": Reduction(
        lambda x, axes: sc.argmax(x, axes[0]),
        lambda torch, x, axes: torch.argmax(x, axes[0]),
        lambda x, axes: np.argmax(x, axes[0]),
        0,
    ),
    "var": Reduction(sc.var, lambda torch, x, axes: torch.var(x, axes, correction=0), _var64, 1024),
    "norm": Reduction(
        lambda x, axes: sc.norm(x, 2, axes),
        lambda torch, x, axes: torch.linalg.vector_norm(x, 2, axes),
        lambda x, axes: np.sqrt(_sum64(np.square(x, dtype=np.float64), axes)),
        64,
    ),
    "logsumexp": Reduction(
        sc.logsumexp,
        lambda torch, x, axes: torch.logsumexp(x, axes),
        lambda x, axes: np.log(_sum64(np.exp(x, dtype=np.float64), axes)),
        64,
    ),
    "cumsum": Reduction(
        lambda x, axes: sc.cumsum(x, axes[0]),
        lambda torch, x, axes: torch.cumsum(x, axes[0]),
        lambda x, axes: np.cumsum(x, axes[0], dtype=np.float64),
        64,
    ),
}
FIGURES: tuple[tuple[str, DType, Axes, Axes], ...] = (
    ("sum", f32, (1 << 26,), (0,)),
    ("sum", f32, _SQUARE, (0,)),
    ("sum", f32, _SQUARE, (1,)),
    ("sum", f32, (256, 256, 1024), (1,)),
    ("sum", f32, (256, 256, 1024), (0, 2)),
    ("sum", f32, (64, 1 << 20), (0,)),
    ("sum", f32, (1 << 20, 64), (1,)),
    ("sum", f32, (1 << 22, 16), (0,)),
    ("sum", f32, (1 << 22, 16), (1,)),
    ("sum", f32, (8191, 8191), (1,)),
    ("sum", bf16, _SQUARE, (0,)),
    ("sum", bf16, _SQUARE, (1,)),
    ("amax", f32, _SQUARE, (0,)),
    ("amax", f32, _SQUARE, (1,)),
    *((name, f32, _SQUARE, (axis,)) for name in ("argmax", "var", "cumsum") for axis in (0, 1)),
    ("norm", f32, _SQUARE, (1,)),
    ("logsumexp", f32, _SQUARE, (1,)),
)
_SMALL = (65536, 128)  # so few bytes that no kernel reaches the copy rate of large arrays
ROW_SHAPES = (_SQUARE, _SMALL)
COPY = "times the copy of its bytes"


def _reduction(op: str, dtype: DType, shape: Axes, axes: Axes, name: str, bench: Bench) -> Row:
    made = REDUCTIONS[op]
    array = random_array(1, *shape, low=0.0).astype(dtype.numpy, copy=False)
    reference = by_kept_axis(lambda part: np.asarray(made.right(part, axes)), array, axes)
    itemsize = 8 if op == "argmax" else dtype.itemsize
    is_listed = op in ("sum", "amax") and dtype is f32
    published = (beside_published,) if op == "sum" and dtype is f32 else ()
    reached = _SHORT_REACHED if shape in _SHORT else _REACHED
    case = DeviceCase(
        [array],
        lambda x: made.ours(x, axes),
        reference,
        tolerance(dtype.name, summed=made.summed) if made.summed else 0.0,
        array.nbytes + itemsize * reference.size,
        torch=lambda torch, x: lambda: made.torch(torch, x, axes),
        least=reached if is_listed else 0.0,
        extra=tuple(partial(check, name) for check in (_beside_torch, *published)),
        published=f"{op}_{_text(shape)}_ax{''.join(map(str, axes))}" if published else "",
    )
    return run_device_case(bench, SUMS, name, case)


def _beside_torch(name: str, row: Row) -> Check:
    """Return the check that a case is no slower than PyTorch."""
    ratio = row.ratios.get("PyTorch")
    return at_least(f"{name}: times PyTorch", ratio.median if ratio else None, 1.0)


def _softmax64(x: Array) -> Array:
    made: Array = np.exp(x - x.max(axis=1, keepdims=True))
    made /= made.sum(axis=1, keepdims=True)
    return made


def _layer_norm64(x: Array, weight: Array, bias: Array) -> Array:
    made: Array = x - x.mean(axis=1, keepdims=True)
    made /= np.sqrt(np.square(made).mean(axis=1, keepdims=True) + 1e-5)
    made *= weight.astype(np.float64)
    made += bias.astype(np.float64)
    return made


def _row(bench: Bench, name: str, case: DeviceCase) -> Row:
    """Return the row of a case; of few bytes with the time over that of the driver's own copy."""
    row = run_device_case(bench, ROWS, name, case)
    ours = row.timings[0].us
    if case.arrays[0].shape == _SMALL and ours is not None:
        row.facts[COPY] = ours / copy_us(bench, case.arrays[0].nbytes)
    return row


def copy_us(bench: Bench, nbytes: int) -> float:
    """Return the median time of cuMemcpyDtoD of so many bytes, L2 cold [microseconds]."""
    gpu = gpu_of(bench)
    context, stream = gpu.on.context, gpu.on.stream
    source, target = DeviceMemory(context, nbytes), DeviceMemory(context, nbytes)
    gpu.fill_random(source.ptr, nbytes)

    def copy() -> None:
        copy_on_device_async(context, target.ptr, source.ptr, nbytes, stream=stream)

    seconds = [gpu.seconds(copy) for _ in range(WARM_UPS + RUNS)]
    source.close()
    target.close()
    return statistics.median(seconds[WARM_UPS:]) * 1e6


def _softmax(shape: Axes, dtype: DType, name: str, bench: Bench) -> Row:
    array = random_array(2, *shape).astype(dtype.numpy, copy=False)
    case = DeviceCase(
        [array],
        sc.softmax,
        by_rows(_softmax64, array),
        tolerance(dtype.name, summed=16),
        2 * array.nbytes,
        torch=lambda torch, x: lambda: torch.softmax(x, dim=1),
        least=_ROWS_REACHED,
    )
    return _row(bench, name, case)


def _layer_norm(shape: Axes, dtype: DType, name: str, bench: Bench) -> Row:
    x = random_array(3, *shape).astype(dtype.numpy, copy=False)
    weight = random_array(4, shape[1], low=0.5).astype(dtype.numpy, copy=False)
    bias = random_array(5, shape[1]).astype(dtype.numpy, copy=False)
    case = DeviceCase(
        [x, weight, bias],
        sc.layer_norm,
        by_rows(lambda rows: _layer_norm64(rows, weight, bias), x),
        tolerance(dtype.name, summed=16),
        2 * x.nbytes + weight.nbytes + bias.nbytes,
        torch=lambda torch, x, w, b: (
            lambda: torch.nn.functional.layer_norm(x, (shape[1],), w, b, 1e-5)
        ),
        least=_ROWS_REACHED,
    )
    return _row(bench, name, case)


def _text(shape: Axes) -> str:
    return "x".join(map(str, shape))


def _cases() -> list[Case]:
    made = []
    for op, dtype, shape, axes in FIGURES:
        name = f"{op} {dtype} {_text(shape)} ax{''.join(map(str, axes))}"
        made.append(Case(SUMS, name, partial(_reduction, op, dtype, shape, axes, name)))
    for label, measure in (("softmax", _softmax), ("layer_norm", _layer_norm)):
        for dtype in (f32, bf16):
            for shape in ROW_SHAPES:
                name = f"{label} {dtype} {_text(shape)}"
                made.append(Case(ROWS, name, partial(measure, shape, dtype, name)))
    return made


CASES = (*_cases(), *FUSED_ROWS)
