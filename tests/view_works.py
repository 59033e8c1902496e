"""Work of every family on arrays of one shape, and views of such arrays by all kinds of strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softcuda.dtype import REAL_DTYPES, DType, f32, i32, i64
from softcuda.graph.op import OPS
from softcuda.graph.params import (
    Cast,
    Concat,
    Contraction,
    Cumulative,
    Gather,
    LayerNorm,
    OneHot,
    Pad,
    Reduce,
    Softmax,
    Triangle,
)
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source, number_text

Array = np.ndarray[Any, Any]

DIMS = (5, 40)


def view_works(dtype: DType, source: Source) -> dict[str, Workload]:
    """Return work by name whose operands are, where they can be, of DIMS."""
    rows, columns = DIMS
    x, y = (source.array("small", DIMS, dtype) for _ in range(2))

    def work(op: str, params: Any, *arrays: Array) -> Workload:
        return Workload(OPS[op], arrays, params)

    zero = number_text(dtype, 0)
    made = {
        "maximum": work("maximum", (), x, y),
        "cast": work("cast", Cast(f32 if dtype is not f32 else REAL_DTYPES["f16"]), x),
        "copy": work("copy", (), x),
        "concat": work("concat", Concat(0), x, y),
        "concat columns": work("concat", Concat(1), x, y),
        "mixed concat": work("concat", Concat(0), x, source.array("small", DIMS, i32)),
        "stack": work("stack", Concat(1), x, y),
        "pad": work("pad", Pad((1, 0), (2, 3), zero), x),
        "tril": work("tril", Triangle(1), x),
    }
    for index, wide in (("i32", i32), ("i64", i64)):
        some = source.indices(rows, (3, 4), wide)
        far = source.indices(rows, DIMS, wide)
        table = source.array("small", (rows, 3), dtype)
        made[f"take {index}"] = work("take", Gather(0), x, some)
        made[f"take columns {index}"] = work("take", Gather(1), x, some)
        made[f"take by far {index}"] = work("take", Gather(0), table, far)
        made[f"gather {index}"] = work("gather", Gather(0), x, far)
        made[f"one_hot {index}"] = work("one_hot", OneHot(7, dtype), far)
        if not dtype.is_bool:
            slices = source.indices(columns, (columns,), wide)
            made[f"index_add {index}"] = work("index_add", Gather(1), x, slices, y)
            made[f"scatter_add {index}"] = work("scatter_add", Gather(0), x, far, y)
    for axis in (0, 1):
        made[f"max {axis}"] = work("max", Reduce((axis,), False), x)
        made[f"argmin {axis}"] = work("argmin", Reduce((axis,), False), x)
        made[f"sum {axis}"] = work("sum", Reduce((axis,), True), x)
        made[f"cumsum {axis}"] = work("cumsum", Cumulative(axis), x)
        if dtype.is_float:
            made[f"softmax {axis}"] = work("softmax", Softmax(axis), x)
    made["sum"] = work("sum", Reduce((0, 1), False), x)
    if dtype.is_float:
        made["layer_norm"] = work("layer_norm", LayerNorm(1, "1e-05", False, False), x)
        made["mean"] = work("mean", Reduce((0, 1), False), x)
    if not dtype.is_bool:
        near = source.array("small", (columns, 6), dtype)
        made["product"] = work("matmul", Contraction((0, 1), (1, 2), (0, 2)), x, near)
        made["turned product"] = work("matmul", Contraction((0, 1), (0, 2), (1, 2)), x, y)
        made["batches"] = work("matmul", Contraction((0, 1), (0, 1), (0,)), x, y)
    return made


# Views


def _backwards(x: Array) -> Array:
    return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]


def _rows_backwards(x: Array) -> Array:
    return np.ascontiguousarray(x[::-1])[::-1]


def _columns_backwards(x: Array) -> Array:
    return np.ascontiguousarray(x[:, ::-1])[:, ::-1]


def _turned(x: Array) -> Array:
    return np.ascontiguousarray(x.T).T


def _steps(x: Array) -> Array:
    wide = np.zeros((2 * DIMS[0], 3 * DIMS[1] + 1), x.dtype)
    view = wide[::2, 1::3]
    view[...] = x
    return view


def _inside(x: Array) -> Array:
    wide = np.zeros((DIMS[0] + 2, DIMS[1] + 5), x.dtype)
    view = wide[1:-1, 3:-2]
    view[...] = x
    return view


def _one_row(x: Array) -> Array:
    return np.broadcast_to(x[:1], x.shape)


def _one_column(x: Array) -> Array:
    return np.broadcast_to(x[:, :1], x.shape)


def _one_element(x: Array) -> Array:
    return np.broadcast_to(x[:1, :1], x.shape)


def _windows(x: Array) -> Array:
    flat = np.ascontiguousarray(x).reshape(-1)
    return np.lib.stride_tricks.as_strided(flat, DIMS, (3 * x.itemsize, x.itemsize))


# Kind of view -> an array [DIMS] by such strides, from one that is dense. The first ones keep the
# values; the last four read elements more than once.
VIEWS: dict[str, Callable[[Array], Array]] = {
    "backwards": _backwards,
    "rows backwards": _rows_backwards,
    "columns backwards": _columns_backwards,
    "turned": _turned,
    "steps": _steps,
    "inside": _inside,
    "one row": _one_row,
    "one column": _one_column,
    "one element": _one_element,
    "windows": _windows,
}


def viewed_works(dtype: DType) -> dict[str, Workload]:
    """Return work by name: every operand in turn, alone, is a view of every kind."""
    source, made = Source(np.random.default_rng(37)), {}
    for name, work in view_works(dtype, source).items():
        for operand, array in enumerate(work.arrays):
            if array.shape != DIMS:
                continue
            for kind, view in VIEWS.items():
                arrays = list(work.arrays)
                arrays[operand] = view(array)
                made[f"{name}, operand {operand}, {kind}"] = Workload(
                    work.op, tuple(arrays), work.params
                )
    return made
