"""concat, stack, pad, tril and triu on NumPy arrays, as lists of calls on views made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import boxes
from softcuda.graph.params import Concat, Pad, Triangle, value_of

__all__ = ["bind_concat", "bind_pad", "bind_stack", "bind_triangle", "scalar_of"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def scalar_of(value: bool | int | float | complex, dtype: np.dtype[Any]) -> Array:
    """Return a number as a rank 0 array of `dtype`, rounded once."""
    scalar = np.empty((), dtype)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        value = float(value)
    convert(np.array(value), scalar)
    return scalar


def _placed(source: Array, place: Array) -> Call:
    if source.dtype == place.dtype:
        return (np.copyto, (place, source))
    return (convert, (source, place))


def bind_concat(inputs: Sequence[Array], out: Array, params: Concat) -> list[Call]:
    """Return one copy an operand, each into its part of the joined axis."""
    calls, start = [], 0
    head = (slice(None),) * params.axis
    for source in inputs:
        stop = start + source.shape[params.axis]
        calls.append(_placed(source, out[(*head, slice(start, stop))]))
        start = stop
    return calls


def bind_stack(inputs: Sequence[Array], out: Array, params: Concat) -> list[Call]:
    """Return one copy an operand, each into its place of the new axis."""
    head = (slice(None),) * params.axis
    places: list[tuple[Any, ...]] = [(*head, i, ...) for i in range(len(inputs))]
    return [_placed(source, out[place]) for source, place in zip(inputs, places, strict=True)]


def bind_pad(inputs: Sequence[Array], out: Array, params: Pad) -> list[Call]:
    """Return the fills of the border slabs, then the copy of the operand."""
    source = inputs[0]
    value = scalar_of(value_of(params.value), out.dtype)
    inside: tuple[Any, ...] = tuple(
        slice(before, before + extent)
        for before, extent in zip(params.before, source.shape, strict=True)
    )
    calls: list[Call] = []
    for axis, part in enumerate(inside):
        for slab in (slice(0, part.start), slice(part.stop, out.shape[axis])):
            border = out[(*inside[:axis], slab)]
            if border.size:
                calls.append((np.copyto, (border, value)))
    whole: tuple[Any, ...] = (*inside, ...)
    calls.append(_placed(source, out[whole]))
    return calls


def bind_triangle(inputs: Sequence[Array], out: Array, params: Triangle, lower: bool) -> list[Call]:
    """Return the call of tril (`lower`) or triu."""
    return [(_triangle, (inputs[0], out, params.k, lower))]


def _triangle(source: Array, out: Array, k: int, lower: bool) -> None:
    zero = np.zeros((), out.dtype)
    for box in boxes(out.shape):
        rows = np.arange(box[-2].start, box[-2].stop)[:, None]
        columns = np.arange(box[-1].start, box[-1].stop)[None, :]
        drop = columns > rows + k if lower else columns < rows + k
        place = out[box]
        np.copyto(place, source[box])
        np.copyto(place, zero, where=drop)
