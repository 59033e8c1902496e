"""Where `execute_into` writes: memory that the caller owns, apart from what is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from softcuda.dtype import DTYPES, DType, as_dtype
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from softcuda.graph.op import OPS
from softcuda.named.descriptors import TensorDescriptor
from softcuda.tensor import Tensor
from softcuda.tensor.values import device_array_of

__all__ = ["check_apart", "own_layout", "target_of"]

Array = np.ndarray[Any, Any]

_VARIABLE: Final = OPS["variable"]


class _Bytes:
    """Memory of any device as NumPy describes it: its addresses are compared, never read."""

    __slots__ = ("__array_interface__",)

    def __init__(self, ptr: int, data: Any) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": data.shape,
            "strides": data.strides,
            "typestr": f"|V{data.itemsize}",
            "data": (ptr, True),
        }


def target_of(out: Any) -> Any:
    """Return the memory of an output: an array of the host, or a device array.

    Raises:
        ArgumentTypeError: a tensor that is no variable, a masked array, or no array.
        ArgumentError: a read-only array.
    """
    if isinstance(out, Tensor):
        if out.op is not _VARIABLE:
            raise ArgumentTypeError(
                f"Plan: the output is a Tensor made by {out.op.name!r}, and tensors never change; "
                "allowed are a writable array and a softcuda.variable"
            )
        return out.data
    if not isinstance(out, np.ndarray):
        shared = device_array_of("Plan", out, is_target=True)
        if shared is None:
            raise ArgumentTypeError(
                f"Plan: the output is of type {type(out).__name__}; allowed are a writable NumPy "
                "array, a softcuda.variable, and an array in CUDA memory"
            )
        return shared
    if type(out) is not np.ndarray:
        if isinstance(out, np.ma.MaskedArray):
            raise ArgumentTypeError(
                f"Plan: the output, a masked array of shape {list(out.shape)}, would be written "
                "under its mask; allowed is a plain array, such as its .data"
            )
        out = out.view(np.ndarray)  # a subclass may answer for itself
    if not out.flags.writeable:
        raise ArgumentError(
            f"Plan: the output, an array of shape {list(out.shape)}, is read-only; allowed is a "
            "writable one"
        )
    return out


def _own_dtype(target: Array) -> DType:
    try:
        return as_dtype(target.dtype)
    except DTypeError:
        raise DTypeError(
            f"Plan: the output has dtype {target.dtype.str!r}, which no tensor has; allowed are "
            f"{', '.join(DTYPES)} in the byte order of this machine"
        ) from None


def own_layout(target: Any, described: TensorDescriptor) -> TensorDescriptor:
    """Return the descriptor of an output that has its own layout, and on the host its own dtype.

    Raises:
        ShapeError: another shape.
        DTypeError: a dtype whose kind is below that of the result, or one that no tensor has.
    """
    if target.shape != described.extents:
        raise ShapeError(
            f"Plan: the output has shape {list(target.shape)}; allowed is "
            f"{list(described.extents)}, that of the result"
        )
    dtype = described.dtype
    if isinstance(target, np.ndarray):
        dtype = _own_dtype(target)
        if dtype.kind < described.dtype.kind:
            allowed = [x.name for x in DTYPES.values() if x.kind >= described.dtype.kind]
            raise DTypeError(
                f"Plan: the output has dtype {dtype} and the result is {described.dtype}; allowed "
                f"are {', '.join(allowed)}"
            )
    strides = tuple(stride // target.itemsize for stride in target.strides)
    return TensorDescriptor(target.shape, strides, dtype)


def check_apart(out: Any, inputs: Sequence[Any], addend: int | None) -> bool:
    """Refuse an output that shares an element with an input, by an exact test.

    Args:
        out: where the result is written.
        inputs: arrays; all on the device of `out`.
        addend: the number of C among them, which `out` may be with the same layout; None
            without C.

    Returns:
        Whether no input lies near it; where False, C may be the output itself.

    Raises:
        ArgumentError: names the input.
    """
    is_apart = True
    also = "" if addend is None else ", and one that is C itself with C's layout"
    first = _memory(out)
    for number, data in enumerate(inputs):
        if not np.may_share_memory(first, second := _memory(data)):
            continue
        is_apart = False
        is_same = (
            number == addend
            and first.ctypes.data == second.ctypes.data
            and (out.shape, out.strides, out.dtype) == (data.shape, data.strides, data.dtype)
        )
        if not is_same and np.shares_memory(first, second):
            raise ArgumentError(
                f"Plan: the output overlaps input {number} in memory; allowed is an output of its "
                f"own{also}"
            )
    return is_apart


def _memory(data: Any) -> Array:
    """Return an array whose addresses are those of the data."""
    if isinstance(data, np.ndarray):
        return data
    return np.asarray(_Bytes(data.ptr, data))
