"""Elementwise functions of two and three operands; operands broadcast as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any, Final

from softcuda.functions.operands import TensorLike, as_tensor, as_tensors
from softcuda.graph import dtype_rules as dt
from softcuda.graph.op import OPS, Op
from softcuda.tensor import Tensor
from softcuda.tensor.operands import checked_power

__all__ = [
    "add",
    "atan2",
    "clip",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "multiply_add",
    "not_equal",
    "pow",
    "remainder",
    "subtract",
    "where",
]

_DTYPES: Final[dict[Any, str]] = {
    dt.common: "of the common dtype",
    dt.floating: "of the common dtype, f32 for bool and integers",
    dt.boolean: "bool",
}


def _binary(token: str, formula: str, note: str = "") -> Callable[[TensorLike, TensorLike], Tensor]:
    op = OPS[token]
    is_power = token == "pow"

    def function(a: TensorLike, b: TensorLike) -> Tensor:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            x, y = a, b
        else:
            x, y = as_tensors(op.public, a, b)
        return Tensor.apply(op, checked_power((x, y)) if is_power else (x, y))

    function.__name__ = function.__qualname__ = op.public
    function.__doc__ = _doc(op, formula, note)
    return function


def _doc(op: Op, formula: str, note: str) -> str:
    rule = unwrap(op.dtype_rule)
    arithmetic = rule not in _DTYPES
    result = "of the common dtype" if arithmetic else _DTYPES[rule]
    refusals = "both operands are bool, or " if arithmetic else ""
    if rule is not op.dtype_rule:
        refusals += "one is complex, or "
    power = "\n        IntegerPowerError: integers to a negative number." * (op.name == "pow")
    text = f"""Return y[i] = {formula} for every element.

    {note or "NaN in an operand gives NaN."}

    Args:
        a: [any shape], any dtype; a number takes the dtype of b unless its kind is higher.
        b: [shape that broadcasts with a], any dtype; likewise.

    Returns:
        [broadcast shape], {result}.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: {refusals}an operand cannot be a tensor.
        NumberRangeError: a number does not fit the other's dtype.{power}
    """
    return text


_NAN_COMPARES: Final = "Whatever is compared with NaN is False."
_TRUTH: Final = "Numbers but 0 count as true, NaN too."

add = _binary("add", "a[i] + b[i]", "Integers wrap.")
subtract = _binary("sub", "a[i] - b[i]", "Integers wrap.")
multiply = _binary("mul", "a[i] * b[i]", "Integers wrap.")
divide = _binary("div", "a[i] / b[i]", "The quotient of integers is a float.")
floor_divide = _binary("floor_divide", "floor(a[i] / b[i])", "An integer by zero gives 0.")
remainder = _binary(
    "remainder",
    "a[i] - floor(a[i] / b[i]) * b[i]",
    "It has the sign of b; an integer by zero gives 0.",
)
pow = _binary("pow", "a[i] ^ b[i]", "Integers wrap; their negative powers are errors.")
minimum = _binary("minimum", "the smaller of a[i] and b[i]", "NaN gives NaN; -0 is below +0.")
maximum = _binary("maximum", "the larger of a[i] and b[i]", "NaN gives NaN; -0 is below +0.")
atan2 = _binary("atan2", "the angle of the point (b[i], a[i])", "In [-pi, pi].")
equal = _binary("eq", "whether a[i] == b[i]", _NAN_COMPARES)
not_equal = _binary("ne", "whether a[i] != b[i]", "NaN differs from everything.")
less = _binary("lt", "whether a[i] < b[i]", _NAN_COMPARES)
less_equal = _binary("le", "whether a[i] <= b[i]", _NAN_COMPARES)
greater = _binary("gt", "whether a[i] > b[i]", _NAN_COMPARES)
greater_equal = _binary("ge", "whether a[i] >= b[i]", _NAN_COMPARES)
logical_and = _binary("logical_and", "whether a[i] and b[i]", _TRUTH)
logical_or = _binary("logical_or", "whether a[i] or b[i]", _TRUTH)
logical_xor = _binary("logical_xor", "whether just one of a[i] and b[i]", _TRUTH)


def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """Return y[i] = a[i] where condition[i], else b[i].

    Args:
        condition: [any shape], bool.
        a: [shape that broadcasts], any dtype; a number takes the dtype of b unless its kind is
            higher.
        b: [shape that broadcasts], any dtype; likewise.

    Returns:
        [broadcast shape], of the common dtype of a and b.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: the condition is no bool, or an operand cannot be a tensor.
    """
    test = as_tensor("where", condition)
    return test.apply(OPS["where"], (test, *as_tensors("where", a, b)))


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Return y[i] = minimum(maximum(x[i], min[i]), max[i]).

    NaN in an operand gives NaN; where min is above max the result is max.

    Args:
        x: [any shape], any dtype.
        min: [shape that broadcasts], or a number, or None for no lower bound.
        max: [shape that broadcasts], or a number, or None for no upper bound.

    Returns:
        [broadcast shape], of the common dtype; numbers are weak.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: an operand cannot be a tensor.
        NumberRangeError: a number does not fit the dtype.
    """
    return as_tensor("clip", x).clip(min, max)


def multiply_add(a: TensorLike, b: TensorLike, c: TensorLike) -> Tensor:
    """Return y[i] = a[i] * b[i] + c[i], rounded after each of the two.

    Args:
        a: [any shape], any dtype; a number takes the dtype of the others unless its kind is
            higher.
        b: [shape that broadcasts]; likewise.
        c: [shape that broadcasts]; likewise.

    Returns:
        [broadcast shape], of the common dtype.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: all operands are bool, or one cannot be a tensor.
    """
    x, y, z = as_tensors("multiply_add", a, b, c)
    return x.apply(OPS["multiply_add"], (x, y, z))
