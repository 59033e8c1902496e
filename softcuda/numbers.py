"""Python's and NumPy's numbers: the dtype of a new tensor of one, and what a dtype holds of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from softcuda.dtype import BOOL, COMPLEX, FLOAT, DType, bool_, complex64, f32, i64
from softcuda.errors import ArgumentTypeError, DTypeError, NumberRangeError

__all__ = ["check_number", "number_dtype"]


def number_dtype(value: object) -> DType:
    """Return the dtype of a new tensor made of a Python or NumPy number.

    Raises:
        ArgumentTypeError: `value` is no number.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return i64
    if isinstance(value, (float, np.floating, ml_dtypes.bfloat16)):
        return f32
    if isinstance(value, (complex, np.complexfloating)):
        return complex64
    raise ArgumentTypeError(
        f"a number was expected, got {value!r} of type {type(value).__name__}; "
        "allowed are bool, int, float, complex and NumPy's scalars of these kinds"
    )


def check_number(value: Any, dtype: DType) -> bool | int | float | complex:
    """Return a number as the Python value that `dtype` will hold, unrounded.

    Raises:
        NumberRangeError: the dtype cannot hold it.
        DTypeError: its kind is above that of the dtype.
        ArgumentTypeError: it is no number.
    """
    if number_dtype(value).kind > dtype.kind:
        raise DTypeError(
            f"the number {value!r} cannot be a {dtype.name} without losing its kind; "
            f"use softcuda.cast, or a dtype of its kind"
        )
    if dtype.kind in (FLOAT, COMPLEX):
        try:
            return float(value) if dtype.kind == FLOAT else complex(value)
        except OverflowError:
            raise NumberRangeError(
                f"an integer of {int(value).bit_length()} bits does not fit {dtype.name}; "
                "allowed are integers below 2^1024; give it as a float, math.inf say"
            ) from None
    if dtype.kind == BOOL:
        return bool(value)
    whole = int(value)
    bits = dtype.itemsize * 8 - 1
    if not -(1 << bits) <= whole < (1 << bits):
        raise NumberRangeError(
            f"the number {whole} does not fit {dtype.name}; allowed are "
            f"{-(1 << bits)} to {(1 << bits) - 1}; cast the tensor to i64 or to a float"
        )
    return whole
