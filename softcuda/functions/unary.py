"""Elementwise functions of one operand: one row of a table a function."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any, Final

from softcuda.dtype import DType
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.graph import dtype_rules as dt
from softcuda.graph.op import OPS, Op
from softcuda.tensor import Tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "angle",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atanh",
    "cast",
    "ceil",
    "conj",
    "copy",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gelu",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "logical_not",
    "mish",
    "negative",
    "real",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "tan",
    "tanh",
]

_DTYPES: Final[dict[Any, str]] = {
    dt.same: "of the dtype of x",
    dt.part: "of the dtype of x, of that of its parts where x is complex",
    dt.floating: "of the dtype of x, f32 for bool and integers",
    dt.boolean: "bool",
}


def _unary(token: str, formula: str, note: str = "") -> Callable[[TensorLike], Tensor]:
    op = OPS[token]

    def function(x: TensorLike) -> Tensor:
        node = as_tensor(op.public, x)
        return node.apply(op, (node,))

    function.__name__ = function.__qualname__ = op.public
    function.__doc__ = _doc(op, formula, note)
    return function


def _doc(op: Op, formula: str, note: str) -> str:
    rule = unwrap(op.dtype_rule)
    arithmetic = rule not in _DTYPES
    result = "of the dtype of x" if arithmetic else _DTYPES[rule]
    excluded = ["bool"] * arithmetic + ["complex"] * (rule is not op.dtype_rule)
    refused = f"DTypeError: x is {' or '.join(excluded)}, or " if excluded else "DTypeError: "
    but = f" but {' and '.join(excluded)}" if excluded else ""
    text = f"""Return y[i] = {formula} for every element.

    {note or "NaN gives NaN."}

    Args:
        x: [any shape], any dtype{but}.

    Returns:
        [shape of x], {result}.

    Raises:
        {refused}x cannot be a tensor.
    """
    return text


abs = _unary("abs", "|x[i]|", "The smallest integer of a dtype is its own absolute value.")
sign = _unary("sign", "-1, 0 or 1 by the sign of x[i]", "sign(NaN) is NaN.")
square = _unary("square", "x[i] * x[i]", "Integers wrap.")
negative = _unary("neg", "-x[i]", "Integers wrap.")
relu = _unary("relu", "max(x[i], 0)", "relu(NaN) is NaN, relu(-0) is +0.")
conj = _unary("conj", "the complex conjugate of x[i]", "Real numbers are their own conjugates.")
real = _unary("real", "the real part of x[i]", "Real numbers are their own real parts.")
imag = _unary("imag", "the imaginary part of x[i]", "Real numbers give 0.")
floor = _unary("floor", "the largest integer not above x[i]")
ceil = _unary("ceil", "the smallest integer not below x[i]")
round = _unary("round", "the integer nearest to x[i]", "A tie goes to the even integer.")
sqrt = _unary("sqrt", "x[i]^(1/2)", "Negative numbers give NaN.")
rsqrt = _unary("rsqrt", "x[i]^(-1/2)", "Zero gives inf, negative numbers NaN.")
reciprocal = _unary("reciprocal", "1 / x[i]", "Zero gives inf of its sign.")
exp = _unary("exp", "e^x[i]")
exp2 = _unary("exp2", "2^x[i]")
expm1 = _unary("expm1", "e^x[i] - 1", "Accurate where x[i] is small.")
log = _unary("log", "ln x[i]", "Zero gives -inf, negative numbers NaN.")
log2 = _unary("log2", "log2 x[i]", "Zero gives -inf, negative numbers NaN.")
log1p = _unary("log1p", "ln(1 + x[i])", "Accurate where x[i] is small.")
sin = _unary("sin", "sin x[i]", "x is in radians; infinities give NaN.")
cos = _unary("cos", "cos x[i]", "x is in radians; infinities give NaN.")
tan = _unary("tan", "tan x[i]", "x is in radians; infinities give NaN.")
asin = _unary("asin", "arcsin x[i]", "In [-pi/2, pi/2]; NaN outside [-1, 1].")
acos = _unary("acos", "arccos x[i]", "In [0, pi]; NaN outside [-1, 1].")
atan = _unary("atan", "arctan x[i]", "In [-pi/2, pi/2].")
sinh = _unary("sinh", "(e^x[i] - e^-x[i]) / 2")
cosh = _unary("cosh", "(e^x[i] + e^-x[i]) / 2")
tanh = _unary("tanh", "sinh x[i] / cosh x[i]")
asinh = _unary("asinh", "arsinh x[i]")
acosh = _unary("acosh", "arcosh x[i]", "At least 0; NaN below 1.")
atanh = _unary("atanh", "artanh x[i]", "1 gives inf and -1 -inf; NaN outside [-1, 1].")
sigmoid = _unary("sigmoid", "1 / (1 + e^-x[i])")
gelu = _unary("gelu", "x[i] * (1 + erf(x[i] / sqrt 2)) / 2", "The exact form, not tanh's.")
silu = _unary("silu", "x[i] / (1 + e^-x[i])")
mish = _unary("mish", "x[i] * tanh(ln(1 + e^x[i]))", "Does not overflow.")
softplus = _unary("softplus", "ln(1 + e^x[i])", "Does not overflow.")
softsign = _unary("softsign", "x[i] / (1 + |x[i]|)", "Infinities give NaN.")
erf = _unary("erf", "2/sqrt(pi) * integral of e^(-t^2) from 0 to x[i]")
isnan = _unary("isnan", "whether x[i] is NaN", "False for bool and integers.")
isinf = _unary("isinf", "whether x[i] is inf or -inf", "False for bool and integers.")
isfinite = _unary("isfinite", "whether x[i] is neither NaN nor infinite")
logical_not = _unary("logical_not", "whether x[i] is 0 or False", "NaN counts as true.")
copy = _unary("copy", "x[i]", "A node of its own: of a variable, the value at evaluation.")


def angle(x: TensorLike) -> Tensor:
    """Return y[i] = the angle of x[i] in the complex plane, atan2(imag(x[i]), real(x[i])).

    In [-pi, pi]; a negative real number has the angle pi. NaN gives NaN.

    Args:
        x: [any shape], any dtype.

    Returns:
        [shape of x], of the dtype of the parts of x; f32 for bool and integers.

    Raises:
        DTypeError: x cannot be a tensor.
    """
    return as_tensor("angle", x).angle()


def cast(x: TensorLike, dtype: DType | Any) -> Tensor:
    """Return the elements of a tensor in another dtype.

    Floats are rounded once, to nearest even; float to integer truncates, saturates, and makes 0
    of NaN; integers wrap; anything but 0 becomes True. Complex numbers become complex numbers or
    bools alone: real, imag and abs say which real number is meant.

    Args:
        x: [any shape], any dtype.
        dtype: a DType, its name, or the NumPy or Python type of it.

    Returns:
        [shape of x], of `dtype`.

    Raises:
        DTypeError: `dtype` names no dtype, or is one of integers or floats and x is complex.
    """
    return as_tensor("cast", x).cast(dtype)


def astype(x: TensorLike, dtype: DType | Any) -> Tensor:
    """Return a tensor in a dtype: itself where it has it, else cast(x, dtype).

    Args:
        x: [any shape], any dtype.
        dtype: a DType, its name, or the NumPy or Python type of it.

    Returns:
        [shape of x], of `dtype`.

    Raises:
        DTypeError: `dtype` names no dtype, or is one of integers or floats and x is complex.
    """
    return as_tensor("astype", x).astype(dtype)
