"""The functions that named-axis operations apply: to an operand, between two, over labels."""

from __future__ import annotations

from enum import Enum

__all__ = ["BinaryOp", "ReductionOp", "UnaryOp"]


class UnaryOp(Enum):
    """A function of every element of an operand; the value is the token of its op.

    Conjugate is the identity of real numbers. Abs of complex numbers is real.
    """

    Identity = "identity"
    Negate = "neg"
    Abs = "abs"
    Square = "square"
    Sqrt = "sqrt"
    Reciprocal = "reciprocal"
    Exp = "exp"
    Log = "log"
    Sin = "sin"
    Cos = "cos"
    Tan = "tan"
    Sinh = "sinh"
    Cosh = "cosh"
    Tanh = "tanh"
    Asin = "asin"
    Acos = "acos"
    Atan = "atan"
    Asinh = "asinh"
    Acosh = "acosh"
    Atanh = "atanh"
    Ceil = "ceil"
    Floor = "floor"
    Relu = "relu"
    Sigmoid = "sigmoid"
    Swish = "silu"
    Mish = "mish"
    SoftPlus = "softplus"
    SoftSign = "softsign"
    Conjugate = "conj"


class BinaryOp(Enum):
    """A function of two elements; the value is the token of its op.

    Min and Max propagate NaN. And, Or and Xor are of truth values and give bools.
    """

    Add = "add"
    Sub = "sub"
    Mul = "mul"
    Div = "div"
    Min = "minimum"
    Max = "maximum"
    Pow = "pow"
    Atan2 = "atan2"
    FloorDivide = "floor_divide"
    Remainder = "remainder"
    And = "logical_and"
    Or = "logical_or"
    Xor = "logical_xor"


class ReductionOp(Enum):
    """What joins the elements along the labels that a reduction drops.

    Of nothing: Sum 0, Product 1, Min the largest value (inf), Max the smallest, Any False, All
    True, Norm1 and Norm2 0, LogSumExp -inf, Mean NaN; ArgMin and ArgMax have none. These two count
    positions over the dropped labels, in the order in which the operand first has them.
    """

    Sum = "sum"
    Product = "prod"
    Min = "min"
    Max = "max"
    Mean = "mean"
    Any = "any"
    All = "all"
    Norm1 = "norm1"
    Norm2 = "norm2"
    LogSumExp = "logsumexp"
    ArgMin = "argmin"
    ArgMax = "argmax"
