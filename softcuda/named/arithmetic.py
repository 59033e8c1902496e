"""In which dtypes a named-axis operation loads, computes, and stores; one rounding at its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from softcuda.dtype import ComputeType, DType, bool_, compute_dtype, f32, f64, i32, promote
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

    Args:
        what: who asks, first word of the errors.
        dtypes: of the operands.
        compute: what was asked for; None for the rule above.
        result: of the result; None for the common dtype of the operands.

    Raises:
        ArgumentTypeError: `compute` is no ComputeType.
        DTypeError: f64 operands with a lesser compute type, a compute type for integers, or floats
            that would become integers.
    """
    if compute is not None and not isinstance(compute, ComputeType):
        raise ArgumentTypeError(
            f"{what}: compute is {compute!r}; allowed are None and "
            f"{', '.join(f'ComputeType.{member.name}' for member in ComputeType)}"
        )
    common = common_dtype(dtypes)
    given = common if result is None else result
    if not common.is_float:
        if compute is not None:
            raise DTypeError(
                f"{what}: the operands are {common}, and compute={compute.name} is for floats; "
                "leave compute out, or cast an operand to a float"
            )
        return Arithmetic(common, given, None)
    if not given.is_float:
        raise DTypeError(
            f"{what}: operands of {common} give a float and the result is to be {given}; allowed "
            "are floats; cast the result, which truncates"
        )
    if compute is ComputeType.F64 or (compute is None and common is f64):
        return Arithmetic(f64, given, None)
    if compute is not None and common is f64:
        raise DTypeError(
            f"{what}: an operand is f64 and compute={compute.name} has less precision; allowed is "
            "ComputeType.F64; cast the f64 operands to f32 first"
        )
    return Arithmetic(f32, given, compute if compute in _REDUCED else None)


def scale_dtype(dtype: DType) -> DType:
    """Return the dtype in which values of a dtype are multiplied by a scalar."""
    return i32 if dtype is bool_ else compute_dtype(dtype)
