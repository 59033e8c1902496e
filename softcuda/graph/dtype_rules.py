"""Dtype rules of the op table: (inputs, params) -> dtype (DESIGN section 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

from softcuda.dtype import (
    REAL_DTYPES,
    DType,
    bool_,
    complex128,
    compute_dtype,
    f32,
    f64,
    i64,
    promote,
    real_dtype,
)
from softcuda.errors import DTypeError

__all__ = [
    "accumulated",
    "boolean",
    "branches",
    "check_parts",
    "common",
    "contracted",
    "converted",
    "factors",
    "floating",
    "given",
    "index",
    "indexed",
    "magnitude",
    "no_bools",
    "one_hot",
    "part",
    "real",
    "same",
    "scattered",
    "unruled",
]

Rule = Callable[[Sequence[Any], Any], DType]

_WIDE: Final = (f64, complex128)


def same(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype of the first operand."""
    return inputs[0].dtype  # type: ignore[no-any-return]


def common(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype that all operands promote to."""
    result: DType = inputs[0].dtype
    for operand in inputs[1:]:
        if operand.dtype is not result:
            result = promote(result, operand.dtype)
    return result


def floating(inputs: Sequence[Any], params: Any) -> DType:
    """Return the common dtype of the operands, f32 for bools and integers."""
    result = common(inputs, params)
    return result if result.is_inexact else f32


def part(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype of the parts of the operand: of itself where it is real."""
    return real_dtype(inputs[0].dtype)


def magnitude(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype of the parts of the operand, f32 for bools and integers."""
    return real_dtype(floating(inputs, params))


def boolean(inputs: Sequence[Any], params: Any) -> DType:
    """Return bool."""
    return bool_


def index(inputs: Sequence[Any], params: Any) -> DType:
    """Return i64, the dtype of positions."""
    return i64


def accumulated(inputs: Sequence[Any], params: Any) -> DType:
    """Return i64 for bools and integers, else the operand's dtype."""
    dtype: DType = inputs[0].dtype
    return dtype if dtype.is_inexact else i64


def given(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype that the params name."""
    return params.dtype  # type: ignore[no-any-return]


def real(what: str, rule: Rule) -> Rule:
    """Return a rule that refuses complex operands and is `rule` for all others."""

    @wraps(rule)
    def checked(inputs: Sequence[Any], params: Any) -> DType:
        for operand in inputs:
            if operand.dtype.is_complex:
                raise DTypeError(
                    f"{what}: an operand is {operand.dtype}, and there is no {what} of complex "
                    f"numbers; allowed are {', '.join(REAL_DTYPES)}; use abs, real or imag first"
                )
        return rule(inputs, params)

    return checked


def converted(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype that a cast was asked for; complex numbers become no reals but bools."""
    check_parts("cast", inputs[0].dtype, params.dtype)
    return params.dtype  # type: ignore[no-any-return]


def check_parts(what: str, source: DType, target: DType) -> None:
    """Refuse a conversion that drops imaginary parts.

    Raises:
        DTypeError: from a complex dtype to integers or floats.
    """
    if source.is_complex and (target.is_float or target.is_integer):
        raise DTypeError(
            f"{what}: {source} to {target} would drop the imaginary parts; allowed are complex64, "
            "complex128 and bool; take real, imag or abs first"
        )


def no_bools(what: str) -> Rule:
    """Return the rule of arithmetic: the common dtype, which may not be bool."""
    advice = {
        "add": "logical_or",
        "subtract": "logical_xor",
        "multiply": "logical_and",
        "negative": "logical_not",
    }.get(what, "logical_and")

    def rule(inputs: Sequence[Any], params: Any) -> DType:
        result = common(inputs, params)
        if result is bool_:
            raise DTypeError(
                f"{what}: the operands are bool and {what} has no meaning for them; allowed are "
                f"numbers; use {advice}, or cast to an integer first"
            )
        return result

    return rule


def branches(inputs: Sequence[Any], params: Any) -> DType:
    """Return the common dtype of the two branches of where; the condition is a bool."""
    if inputs[0].dtype is not bool_:
        raise DTypeError(
            f"where: the condition has dtype {inputs[0].dtype}; allowed is bool; compare first, "
            "as in where(x != 0, a, b)"
        )
    return promote(inputs[1].dtype, inputs[2].dtype)


def indexed(what: str) -> Rule:
    """Return the rule of take and gather: the data's dtype, with integer indices."""

    def rule(inputs: Sequence[Any], params: Any) -> DType:
        _check_indices(what, inputs[1].dtype)
        return inputs[0].dtype  # type: ignore[no-any-return]

    return rule


def scattered(what: str) -> Rule:
    """Return the rule of index_add and scatter_add: the common dtype of x and of the values."""

    def rule(inputs: Sequence[Any], params: Any) -> DType:
        _check_indices(what, inputs[1].dtype)
        result = promote(inputs[0].dtype, inputs[2].dtype)
        if result is bool_:
            raise DTypeError(
                f"{what}: the tensor and the values are bool, which cannot be added up; allowed "
                "are numbers; cast one of them to an integer first"
            )
        return result

    return rule


def _check_indices(what: str, dtype: DType) -> None:
    if not dtype.is_integer:
        raise DTypeError(
            f"{what}: the indices have dtype {dtype}; allowed are i32 and i64; cast them first"
        )


def one_hot(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype that one_hot was asked for; its operand holds integers."""
    _check_indices("one_hot", inputs[0].dtype)
    return params.dtype  # type: ignore[no-any-return]


def contracted(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype that params state, else the common one of the operands, but not bool."""
    result = common(inputs, params)
    if params.dtype is not None:
        given: DType = params.dtype
        is_narrower = result in _WIDE and given not in _WIDE
        if not given.is_inexact or is_narrower or (result.is_complex and not given.is_complex):
            raise DTypeError(
                f"matmul: operands of {result} with a result of {given}; allowed are floats, for "
                "f64 operands f64, and for complex ones complex numbers as wide; cast the result"
            )
        return given
    if result is bool_:
        raise DTypeError(
            "matmul: both operands are bool; allowed are numbers; cast one to an integer, or use "
            "any(logical_and(...)) for a boolean product"
        )
    return result


def factors(inputs: Sequence[Any], params: Any) -> DType:
    """Return the dtype that the operands of a contraction are converted to."""
    result = contracted(inputs, params)
    return result if params.dtype is None else compute_dtype(result)


def unruled(inputs: Sequence[Any], params: Any) -> DType:
    """Refuse: a leaf has its dtype from its value."""
    raise DTypeError("a leaf has no dtype rule; its dtype is that of its value")
