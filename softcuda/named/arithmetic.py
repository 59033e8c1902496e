"""In which dtypes a named-axis operation loads, computes, and stores; one rounding at its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from softcuda.dtype import (
    ComputeType,
    DType,
    bool_,
    complex64,
    complex128,
    compute_dtype,
    f32,
    f64,
    i32,
    promote,
)
from softcuda.errors import ArgumentTypeError, DTypeError

__all__ = ["Arithmetic", "arithmetic_of", "common_dtype", "scale_dtype"]

_REDUCED: Final = (ComputeType.TF32, ComputeType.BF16, ComputeType.F16)


class Arithmetic(NamedTuple):
    """The dtypes of a contraction.

    Attributes:
        between: of what lies between its steps, and of its scalars.
        result: of what it gives.
        compute: a compute type of less precision than `between`, where it was asked for.
    """

    between: DType
    result: DType
    compute: ComputeType | None


def common_dtype(dtypes: Sequence[DType]) -> DType:
    """Return the dtype that all of these promote to."""
    return reduce(promote, dtypes)


def arithmetic_of(
    what: str, dtypes: Sequence[DType], compute: ComputeType | None, result: DType | None
) -> Arithmetic:
    """Return the dtypes of a contraction of operands.

    Floats compute in f64 if one is f64, else in f32; integers in their common dtype, and wrap.
    Complex numbers compute in complex128 if an operand is f64 or complex128, else in complex64:
    both parts in the compute type.

    Args:
        what: who asks, first word of the errors.
        dtypes: of the operands.
        compute: what was asked for; None for the rule above.
        result: of the result; None for the common dtype of the operands.

    Raises:
        ArgumentTypeError: `compute` is no ComputeType.
        DTypeError: operands of 64 bits with a lesser compute type, complex ones with TF32, BF16 or
            F16, a compute type for integers, floats that would become integers, or complex
            numbers that would become real.
    """
    if compute is not None and not isinstance(compute, ComputeType):
        raise ArgumentTypeError(
            f"{what}: compute is {compute!r}; allowed are None and "
            f"{', '.join(f'ComputeType.{member.name}' for member in ComputeType)}"
        )
    common = common_dtype(dtypes)
    given = common if result is None else result
    if not common.is_inexact:
        if compute is not None:
            raise DTypeError(
                f"{what}: the operands are {common}, and compute={compute.name} is for floats; "
                "leave compute out, or cast an operand to a float"
            )
        return Arithmetic(common, given, None)
    if common.is_complex:
        _check_complex(what, common, compute, given)
    if not given.is_inexact:
        raise DTypeError(
            f"{what}: operands of {common} give a float and the result is to be {given}; allowed "
            "are floats; cast the result, which truncates"
        )
    narrow, wide = (complex64, complex128) if common.is_complex else (f32, f64)
    if compute is ComputeType.F64 or (compute is None and common is wide):
        return Arithmetic(wide, given, None)
    if compute is not None and common is wide:
        raise DTypeError(
            f"{what}: an operand is {wide} and compute={compute.name} has less precision; allowed "
            f"is ComputeType.F64; cast the {wide} operands to {narrow} first"
        )
    return Arithmetic(narrow, given, compute if compute in _REDUCED else None)


def _check_complex(what: str, common: DType, compute: ComputeType | None, given: DType) -> None:
    if not given.is_complex:
        raise DTypeError(
            f"{what}: operands of {common} give complex numbers and the result is to be {given}; "
            "allowed are complex64 and complex128; take real, imag or abs of the result"
        )
    if compute in _REDUCED:
        raise DTypeError(
            f"{what}: an operand is {common}, and compute={compute.name} is for real numbers; "
            "allowed are ComputeType.F32 and F64; contract the real and imaginary parts by "
            "themselves"
        )


def scale_dtype(dtype: DType) -> DType:
    """Return the dtype in which values of a dtype are multiplied by a scalar."""
    return i32 if dtype is bool_ else compute_dtype(dtype)
