"""Elementwise ops whose operands need a conversion: piece by piece, no full-size temporary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.elementwise import function_for
from softcuda.backends.host.pieces import BLOCK, boxes
from softcuda.dtype import DType, bool_, compute_dtype

__all__ = ["Mapped", "bind_elementwise"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Mapped:
    """An elementwise function over arrays, carried out in cache-sized pieces.

    Every operand is converted to its operand dtype and then to that one's compute dtype, the
    function runs there, and its result is converted to the dtype of `out` once.

    Args:
        function: f(*blocks, out) in the compute dtype.
        operands: the dtype that each input is converted to on load.
        computed: the dtype that the function writes.
    """

    def __init__(self, function: Callable[..., Any], operands: Sequence[DType], computed: DType):
        self.function = function
        self.operands = tuple(operands)
        self.computed = computed.numpy

    def __call__(self, *arrays: Array) -> None:
        """Carry out the function on inputs (which may broadcast) and, last, the output."""
        out = arrays[-1]
        if out.size <= BLOCK:
            self._piece(arrays[:-1], out)
            return
        wide = [np.broadcast_to(x, out.shape) for x in arrays[:-1]]
        for box in boxes(out.shape):
            self._piece([x[box] for x in wide], out[box])

    def _piece(self, inputs: Sequence[Array], out: Array) -> None:
        blocks = [load(x, dtype) for x, dtype in zip(inputs, self.operands, strict=True)]
        if out.dtype == self.computed:
            self.function(*blocks, out)
            return
        result = np.empty(out.shape, self.computed)
        self.function(*blocks, result)
        convert(result, out)


def load(source: Array, dtype: DType) -> Array:
    """Return `source` rounded to `dtype`, as an array of the compute dtype of `dtype`.

    The array itself where it has that dtype and no negative stride (with which NumPy leaves its
    vector loops for others that differ in the last bit), else a new one of the same shape.
    """
    wanted = compute_dtype(dtype).numpy
    if source.dtype == wanted:
        return source if min(source.strides, default=0) >= 0 else source.copy()
    if dtype.numpy not in (source.dtype, wanted):
        rounded = np.empty(source.shape, dtype.numpy)
        convert(source, rounded)
        source = rounded
    loaded = np.empty(source.shape, wanted)
    convert(source, loaded)
    return loaded


def bind_elementwise(
    name: str, operands: Sequence[DType], result: DType, inputs: Sequence[Array], out: Array
) -> list[Call]:
    """Return the calls of an elementwise op other than cast on these arrays.

    Args:
        name: token of the op.
        operands: the dtype that each input is converted to on load.
        result: dtype of the op's result.
        inputs: arrays that broadcast to `out`.
        out: the output; may be the very array of an input.
    """
    if name == "copy" or (name == "conj" and not result.is_complex):
        return [(np.copyto, (out, inputs[0]))]
    kinds = [compute_dtype(dtype) for dtype in operands]
    function = function_for(name, kinds[-1])
    computed = bool_ if result is bool_ else compute_dtype(result)
    native = out.dtype == computed.numpy and all(
        x.dtype == d.numpy == kind.numpy and min(x.strides, default=0) >= 0
        for x, d, kind in zip(inputs, operands, kinds, strict=True)
    )
    if native and (isinstance(function, np.ufunc) or out.size <= BLOCK):
        return [(function, (*inputs, out))]
    return [(Mapped(function, operands, computed), (*inputs, out))]
