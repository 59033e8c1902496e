"""full, arange, linspace and eye on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.movement import scalar_of
from softcuda.backends.host.pieces import BLOCK
from softcuda.graph.params import Arange, Eye, Full, Linspace, value_of

__all__ = ["arange_into", "bind_eye", "bind_full", "linspace_into"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def bind_full(out: Array, params: Full) -> list[Call]:
    """Return the call that fills `out` with one number."""
    return [(np.copyto, (out, scalar_of(value_of(params.value), out.dtype)))]


def bind_eye(out: Array, params: Eye) -> list[Call]:
    """Return the calls that write ones on the k-th diagonal and zeros elsewhere."""
    calls: list[Call] = [(np.copyto, (out, scalar_of(0, out.dtype)))]
    row, column = max(-params.k, 0), max(params.k, 0)
    if min(params.rows - row, params.columns - column) > 0:
        diagonal = np.einsum("ii->i", _square(out[row:, column:]))
        calls.append((np.copyto, (diagonal, scalar_of(1, out.dtype))))
    return calls


def _square(matrix: Array) -> Array:
    side = min(matrix.shape)
    return matrix[:side, :side]


def arange_into(out: Array, params: Arange) -> None:
    """Write start + i * step: exact for integers (they wrap), in f64 rounded once for floats."""
    start: Any = value_of(params.start)
    step: Any = value_of(params.step)
    whole = isinstance(start, int) and isinstance(step, int) and out.dtype.kind in "bi"
    dtype = np.dtype(np.int64 if whole else np.float64)
    for first in range(0, out.size, BLOCK):
        place = out[first : first + BLOCK]
        values = np.arange(first, first + place.size, dtype=dtype)
        np.multiply(values, dtype.type(step), values)
        np.add(values, dtype.type(start), values)
        convert(values, place)


def linspace_into(out: Array, params: Linspace) -> None:
    """Write start + i * (stop - start) / intervals, in f64 rounded once, both ends exact."""
    start, stop = float(value_of(params.start)), float(value_of(params.stop))
    count = params.length
    intervals = max(count - 1 if params.endpoint else count, 1)
    for first in range(0, count, BLOCK):
        place = out[first : first + BLOCK]
        values = np.arange(first, first + place.size, dtype=np.float64)
        step = (stop - start) / intervals
        if step == 0 or not np.isfinite(step):
            # stop - start under- or overflows: weigh the two ends instead
            values /= intervals
            values = start * (1 - values) + stop * values
        else:
            values *= step
            values += start
        if params.endpoint and count > 1 and first + place.size == count:
            values[-1] = stop
        convert(values, place)
