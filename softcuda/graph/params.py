"""What a node carries beside its inputs: one small frozen record an op family.

Every record is hashable, prints itself and pickles; numbers are kept as text that reads back
exactly (`literal`), so that -0.0 and 0.0 differ and NaN equals itself in a structure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from softcuda.dtype import ComputeType, DType

__all__ = [
    "Arange",
    "Cast",
    "Concat",
    "Constant",
    "Contraction",
    "Cumulative",
    "Diagonal",
    "Dims",
    "Eye",
    "Full",
    "Gather",
    "LayerNorm",
    "Linspace",
    "Moment",
    "Norm",
    "OnDevice",
    "OneHot",
    "Pad",
    "Params",
    "Permute",
    "Random",
    "Reduce",
    "Shape",
    "Slice",
    "Softmax",
    "Transfer",
    "Triangle",
    "literal",
    "value_of",
]

Dims = tuple[int, ...]
Params = Any  # a NamedTuple below, or () for an op without parameters


def literal(value: bool | int | float | complex) -> str:
    """Return the text of a number that `value_of` reads back exactly.

    Example:
        >>> literal(-0.0), literal(True), literal(7), literal(1 - 2j)
        ('-0.0', 'True', '7', '(1-2j)')
    """
    return repr(value)


def value_of(text: str) -> Any:
    """Return the number that `literal` wrote: a bool, an int, a float or a complex number.

    Example:
        >>> value_of("inf"), value_of("False"), value_of("-3"), value_of("(1-2j)")
        (inf, False, -3, (1-2j))
    """
    if text in ("True", "False"):
        return text == "True"
    if text[-1:] == ")" or text[-1:] == "j":
        return complex(text)
    digits = text[1:] if text[:1] == "-" else text
    return int(text) if digits.isdecimal() else float(text)


class Constant(NamedTuple):
    """A number in the graph: rank 0, part of the structure."""

    value: str
    dtype: DType


class Cast(NamedTuple):
    """Target dtype of a conversion."""

    dtype: DType


class Reduce(NamedTuple):
    """Reduced axes (sorted, not negative); keepdims leaves them with extent 1."""

    axes: Dims
    keepdims: bool


class Moment(NamedTuple):
    """var and std: the divisor is the count less `correction` (text of a number)."""

    axes: Dims
    keepdims: bool
    correction: str


class Norm(NamedTuple):
    """Vector norm of the given order (text of a number; 'inf' and '-inf' allowed)."""

    axes: Dims
    keepdims: bool
    order: str


class Permute(NamedTuple):
    """Output axis i is input axis axes[i]."""

    axes: Dims


class Shape(NamedTuple):
    """Target extents of reshape and broadcast_to."""

    dims: Dims


class Slice(NamedTuple):
    """Axis i of the output reads starts[i] + j * steps[i], j below sizes[i]."""

    starts: Dims
    steps: Dims
    sizes: Dims


class Diagonal(NamedTuple):
    """The diagonal of two axes, `offset` above the main one; it becomes the last axis."""

    axis1: int
    axis2: int
    offset: int


class Concat(NamedTuple):
    """The axis along which operands are joined (concat) or that they span (stack)."""

    axis: int


class Pad(NamedTuple):
    """Elements added before and after each axis, filled with `value` (text of a number)."""

    before: Dims
    after: Dims
    value: str


class Triangle(NamedTuple):
    """tril keeps elements at or below the k-th diagonal, triu at or above it."""

    k: int


class Gather(NamedTuple):
    """The axis that indices address: take, gather and what adds there; who asked, for errors."""

    axis: int
    caller: str = ""


class OneHot(NamedTuple):
    """Extent of the new last axis and dtype of the result."""

    depth: int
    dtype: DType


class Cumulative(NamedTuple):
    """The axis of a running sum."""

    axis: int


class Full(NamedTuple):
    """Every element is `value` (text of a number)."""

    dims: Dims
    dtype: DType
    value: str


class Arange(NamedTuple):
    """Element i is start + i * step (texts of numbers), i below length."""

    start: str
    step: str
    length: int
    dtype: DType


class Linspace(NamedTuple):
    """`length` points from start to stop (texts of numbers)."""

    start: str
    stop: str
    length: int
    endpoint: bool
    dtype: DType


class Eye(NamedTuple):
    """Ones on the k-th diagonal, zeros elsewhere."""

    rows: int
    columns: int
    k: int
    dtype: DType


class Random(NamedTuple):
    """uniform: [low, high); normal: mean low, deviation high (texts of numbers).

    `offset` counts the Philox blocks that earlier nodes of the same generator take in a run;
    it is 0 until the graph is traced.
    """

    dims: Dims
    dtype: DType
    low: str
    high: str
    offset: int


class Softmax(NamedTuple):
    """The axis whose elements sum to one."""

    axis: int


class LayerNorm(NamedTuple):
    """The last `axes_count` axes are normalised; eps is the text of a number."""

    axes_count: int
    eps: str
    has_weight: bool
    has_bias: bool


class OnDevice(NamedTuple):
    """The device that holds the values an input is fed; () stands for the host."""

    device: str


class Transfer(NamedTuple):
    """The device that holds the copy."""

    device: str


class Contraction(NamedTuple):
    """Labels of a pair: D[out] = sum over the labels not in out of A[a] * B[b].

    Labels are small integers. An extent of 1 stretches to the other operand's.

    Attributes:
        a: labels of operand 0.
        b: labels of operand 1.
        out: labels of the result.
        dtype: of the result; None for the common dtype of the operands. Operands are then
            converted to its compute dtype alone, so that a wider operand is not rounded first.
        compute: a type of less precision than that compute dtype, where it was asked for.
    """

    a: Dims
    b: Dims
    out: Dims
    dtype: DType | None = None
    compute: ComputeType | None = None
