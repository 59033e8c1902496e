"""What a reduction keeps of the elements it has seen: the structs of reductions.cuh."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import Any, Final

from softcuda.dtype import DType, complex128, compute_dtype, f64, i64
from softcuda.graph.params import value_of

__all__ = ["Measure", "measure_of", "pack_options"]

# Options::flags of reductions.cuh.
_SQUARED: Final = 2
_NONZERO: Final = 4
_DIVIDED: Final = 8
_ROOT: Final = 16

_SIGN: Final = {"f32": 1 << 31, "f64": -(1 << 63), "bool": 1, "i32": -1, "i64": -1}


@dataclass(frozen=True, slots=True)
class Measure:
    """How a reduction is computed.

    Attributes:
        state: the struct, such as "Sum<f32>".
        nbytes: its size.
        value: bytes of what an element is converted to.
        is_placed: it takes the places of elements.
        of_sizes: the elements are to be made absolute first.
        divisor: of mean and var.
        order: of a norm.
        flip: the bits that turn the order of values over; 0 for none.
        flags: what is done with elements, then with the result.
    """

    state: str
    nbytes: int
    value: int
    is_placed: bool = False
    of_sizes: bool = False
    divisor: float = 1.0
    order: float = 1.0
    flip: int = 0
    flags: int = 0

    @property
    def name(self) -> str:
        """The struct's name and type in letters that a file may have, such as "sum_f32"."""
        return self.state.replace("<", "_").replace(">", "").lower()


def pack_options(measure: Measure) -> bytes:
    """Return the bytes of `Options` of reductions.cuh."""
    return struct.pack("<ddqii", measure.divisor, measure.order, measure.flip, measure.flags, 0)


def measure_of(name: str, dtype: DType, params: Any, count: int) -> Measure:
    """Return how a reduction is computed.

    Args:
        name: token of the op.
        dtype: of the elements.
        params: the Reduce, Moment or Norm of the op.
        count: elements that a result is made of.
    """
    if name == "norm":
        return _norm(dtype, float(value_of(params.order)), count)
    if name in ("min", "max", "argmin", "argmax"):
        return _extreme(name, dtype)
    if name in ("any", "all"):
        return Measure("Extreme<bool>", 1, 1, flip=int(name == "all"))
    if name == "prod":
        wide = complex128 if dtype.is_complex else f64 if dtype.is_float else i64
        return Measure(f"Product<{wide}>", wide.itemsize, wide.itemsize)
    if name == "sum" and not dtype.is_float:
        return Measure("Sum<bool>", 8, 4) if dtype.is_bool else Measure("Sum<i64>", 8, 8)
    typed = compute_dtype(dtype) if dtype.is_float else f64
    size = typed.itemsize
    if name in ("sum", "mean"):
        divided = _DIVIDED if name == "mean" else 0
        nbytes = 16 if typed is f64 else 8
        return Measure(f"Sum<{typed}>", nbytes, size, divisor=float(count), flags=divided)
    if name == "logsumexp":
        return Measure(f"LogSumExp<{typed}>", 16, size)
    divisor = max(count - float(value_of(params.correction)), 0.0)
    flags = _ROOT if name == "std" else 0
    return Measure(f"Moments<{typed}>", 24, size, divisor=divisor, flags=flags)


def _extreme(name: str, dtype: DType) -> Measure:
    typed = compute_dtype(dtype)
    flip = _SIGN[typed.name] if name.endswith("min") else 0
    if name.startswith("arg"):
        return Measure(f"Argument<{typed}>", 16, typed.itemsize, is_placed=True, flip=flip)
    return Measure(f"Extreme<{typed}>", typed.itemsize, typed.itemsize, flip=flip)


def _norm(dtype: DType, order: float, count: int) -> Measure:
    if math.isinf(order) and count:
        typed = dtype if dtype.is_float else f64
        return replace(_extreme("max" if order > 0 else "min", typed), of_sizes=True)
    if order in (0, 1, 2) or not count:  # the norm of nothing is 0
        flags = _NONZERO if order == 0 else _SQUARED | _ROOT if order == 2 else 0
        typed = compute_dtype(dtype) if dtype.is_float else f64
        nbytes = 16 if typed is f64 else 8
        return Measure(f"Norm<{typed}>", nbytes, typed.itemsize, flags=flags)
    return Measure("Powers<f64>", 8, 8, order=order)
