"""index_add and scatter_add on NumPy arrays: values added at addressed places, piece by piece.

Floats are added up in f64, complex numbers in complex128, and rounded once; integers wrap. Repeats
are added in the order in which their boxes, and in a box their positions, come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.indexing import check_indices
from softcuda.backends.host.pieces import Box, boxes
from softcuda.backends.host.tiles import part_of
from softcuda.backends.steps import Operand
from softcuda.graph.params import Gather
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["bind_scatter", "scatter_scratch_bytes"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def scatter_scratch_bytes(result: Operand) -> int:
    """Return the bytes of the sums where they do not run in the result itself."""
    wide = _wide(result.dtype.numpy)
    if not result.dtype.is_inexact or result.dtype.numpy == wide:
        return 0
    return numel(result.dims) * wide.itemsize


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def bind_scatter(
    name: str, inputs: Sequence[Array], out: Array, params: Gather, scratch: Array | None
) -> list[Call]:
    """Return the call of index_add or scatter_add.

    Args:
        name: the op's token.
        inputs: x, indices and values, any dtypes and strides.
        out: the result, dense.
        params: the axis.
        scratch: `scatter_scratch_bytes` bytes, or None for none.
    """
    sums = out if scratch is None else scratch.view(_wide(out.dtype)).reshape(out.shape)
    return [(_scatter, (name, *inputs, out, sums, params))]


def _scatter(
    name: str, x: Array, indices: Array, values: Array, out: Array, sums: Array, params: Gather
) -> None:
    """Write x with the values added to it.

    Raises:
        IndexOutOfRange: an index is outside the axis.
    """
    check_indices(name, indices, out.shape[params.axis], params)
    convert(x, out)
    if sums is not out:
        convert(out, sums)
    flat = sums.reshape(-1)
    addressed = _slices if name == "index_add" else _elements
    for box in boxes(values.shape):
        part = part_of(values, box)
        if part.dtype != out.dtype:
            rounded = np.empty(part.shape, out.dtype)
            convert(part, rounded)
            part = rounded
        places = addressed(indices, box, out.shape, params.axis)
        added = part.astype(sums.dtype, order="C")
        np.add.at(flat, places.reshape(-1), added.reshape(-1))
    if sums is not out:
        convert(sums, out)


def _slices(indices: Array, box: Box, dims: tuple[int, ...], axis: int) -> Array:
    """Return where the values of a box go, for indices that address whole slices."""
    last = axis + indices.ndim
    rows = part_of(indices, box[axis:last])
    beside = (*box[:axis], *(slice(0, 1) for _ in rows.shape), *box[last:])
    strides = contiguous_strides(dims)
    steps = (*strides[:axis], *(0 for _ in rows.shape), *strides[axis + 1 :])
    places = _wrapped(rows, dims[axis], strides[axis])
    behind = (1,) * (len(dims) - axis - 1)
    return np.asarray(places.reshape((*rows.shape, *behind)) + _grid(beside, steps))


def _elements(indices: Array, box: Box, dims: tuple[int, ...], axis: int) -> Array:
    """Return where the values of a box go, for an index a value."""
    strides = contiguous_strides(dims)
    beside = (*box[:axis], slice(0, 1), *box[axis + 1 :])
    return _wrapped(part_of(indices, box), dims[axis], strides[axis]) + _grid(beside, strides)


def _wrapped(indices: Array, extent: int, stride: int) -> Array:
    """Return offsets along the axis, indices below 0 counted from its end."""
    rows = indices.astype(np.int64, order="C")
    np.add(rows, extent, rows, where=rows < 0)
    return np.multiply(rows, stride, rows)


def _grid(box: Box, steps: Sequence[int]) -> Array:
    """Return the offset of every place of a box, i64."""
    total = np.zeros((1,) * len(box), np.int64)
    for axis, (part, step) in enumerate(zip(box, steps, strict=True)):
        if part.stop - part.start > 1 or part.start:
            places = np.arange(part.start, part.stop, dtype=np.int64) * step
            total = total + places.reshape(-1, *(1,) * (len(box) - axis - 1))
    return total
