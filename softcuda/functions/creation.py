"""Functions that make tensors of a shape: constant, counted, and the identity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from softcuda.dtype import DType, as_dtype, bool_, f32
from softcuda.errors import ArgumentError, DTypeError, ShapeError
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.graph.op import OPS
from softcuda.graph.params import Arange, Eye, Full, Linspace, literal
from softcuda.graph.shapes import broadcast_dims, check_dims
from softcuda.numbers import check_number, number_dtype
from softcuda.tensor import Tensor
from softcuda.tensor.values import flag, is_number, plain_number, whole_number

__all__ = [
    "arange",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "shaped_dtype",
    "zeros",
    "zeros_like",
]


def full(shape: int | Sequence[int], value: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return a tensor whose every element is one value.

    Args:
        shape: extents.
        value: a number, or something of a shape that broadcasts to `shape`.
        dtype: dtype of the result; None for that of the value.

    Returns:
        [shape], of `dtype`.

    Raises:
        ShapeError: a negative extent, or a value that does not broadcast.
        DTypeError, NumberRangeError: the dtype cannot hold the value.
    """
    return _filled("full", shape, value, dtype)


def _filled(what: str, shape: int | Sequence[int], value: TensorLike, dtype: Any) -> Tensor:
    dims = check_dims(what, shape)
    kind = None if dtype is None else shaped_dtype(what, shape, dtype)
    if not is_number(value):
        given = as_tensor(what, value)
        if broadcast_dims(what, (dims, given.dims)) != dims:
            raise ShapeError(
                f"{what}: the value has shape {list(given.dims)}, which does not broadcast to "
                f"{list(dims)}; aligned from the right each extent must be equal or 1"
            )
        spread = given.broadcast_to(dims)
        return spread if kind is None else spread.astype(kind)
    if kind is None:
        kind = number_dtype(value)
    number = value != 0 if kind is bool_ else check_number(value, kind)
    return Tensor.apply(OPS["full"], (), Full(dims, kind, literal(_plain(number))))


def shaped_dtype(what: str, shape: Any, dtype: Any) -> DType:
    """Return the dtype that is given behind a shape.

    Raises:
        DTypeError: it names no dtype; says so where it is an extent that the shape lacks.
    """
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        extents = (shape, dtype) if isinstance(shape, int) else (*shape, dtype)
        raise DTypeError(
            f"{what}: the dtype is the number {dtype}; allowed are names of dtypes; give the shape "
            f"as a tuple, as in {what}({extents})"
        )
    return as_dtype(dtype)


def _plain(number: Any) -> bool | int | float | complex:
    return number if isinstance(number, (int, float, complex)) else bool(number)


def zeros(shape: int | Sequence[int], dtype: DType | Any = f32) -> Tensor:
    """Return a tensor of zeros.

    Args:
        shape: extents.
        dtype: element type.

    Returns:
        [shape], of `dtype`.

    Raises:
        ShapeError: a negative extent, or more than 64 axes.
    """
    return _filled("zeros", shape, 0, dtype)


def ones(shape: int | Sequence[int], dtype: DType | Any = f32) -> Tensor:
    """Return a tensor of ones.

    Args:
        shape: extents.
        dtype: element type.

    Returns:
        [shape], of `dtype`.

    Raises:
        ShapeError: a negative extent, or more than 64 axes.
    """
    return _filled("ones", shape, 1, dtype)


def zeros_like(x: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return zeros of the shape of x, of its dtype or another.

    Args:
        x: [any shape], any dtype; its values are not read.
        dtype: element type; None for that of x.

    Returns:
        [shape of x], of `dtype`.
    """
    return _like("zeros_like", x, 0, dtype)


def ones_like(x: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return ones of the shape of x, of its dtype or another.

    Args:
        x: [any shape], any dtype; its values are not read.
        dtype: element type; None for that of x.

    Returns:
        [shape of x], of `dtype`.
    """
    return _like("ones_like", x, 1, dtype)


def full_like(x: TensorLike, value: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return a tensor of the shape of x whose every element is one value.

    Args:
        x: [any shape], any dtype; its values are not read.
        value: a number, or something of a shape that broadcasts to that of x.
        dtype: element type; None for that of x.

    Returns:
        [shape of x], of `dtype`.

    Raises:
        DTypeError, NumberRangeError: the dtype cannot hold the value.
    """
    return _like("full_like", x, value, dtype)


def _like(what: str, x: TensorLike, value: TensorLike, dtype: Any) -> Tensor:
    node = as_tensor(what, x)
    return _filled(what, node.dims, value, node.dtype if dtype is None else dtype)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: DType | Any = None
) -> Tensor:
    """Return y[i] = start + i * step, below stop.

    Args:
        start: the first element; with no stop it is the stop, and the start is 0.
        stop: the end, not included.
        step: the distance, not 0.
        dtype: element type; None gives i64 where all are ints, else f32.

    Returns:
        [ceil((stop - start) / step), at least 0], of `dtype`.

    Raises:
        ArgumentTypeError: something is no number.
        ArgumentError: the step is 0, or something, or stop - start, is not finite.
        ShapeError: there would be 2^62 elements or more.
        DTypeError, NumberRangeError: the dtype cannot hold the elements.
    """
    low, high = (0, start) if stop is None else (start, stop)
    names = ("start", "stop", "step")
    first, end, by = (
        plain_number("arange", name, value)
        for name, value in zip(names, (low, high, step), strict=True)
    )
    if not all(map(math.isfinite, (first, end, by))) or by == 0:
        raise ArgumentError(
            f"arange: start {first}, stop {end}, step {by}; allowed are finite numbers and a step "
            "that is not 0"
        )
    whole = isinstance(first, int) and isinstance(end, int) and isinstance(by, int)
    count = -((first - end) // by) if whole else _steps(float(first), float(end), float(by))
    (count,) = check_dims("arange", max(int(count), 0))
    kind = number_dtype(0 if whole else 0.0) if dtype is None else as_dtype(dtype)
    if kind is bool_ or kind.is_complex:
        raise DTypeError(f"arange: dtype {kind}; allowed are integers and floats")
    start_of, step_of = check_number(first, kind), check_number(by, kind)
    if kind.is_integer and count:
        check_number(first + (count - 1) * by, kind)
    numbers = (literal(start_of), literal(step_of))
    return Tensor.apply(OPS["arange"], (), Arange(*numbers, count, kind))


def _steps(first: float, end: float, by: float) -> int:
    """Return ceil((end - first) / by), 0 where it is negative.

    Raises:
        ArgumentError: the difference is more than a float holds.
        ShapeError: the quotient is.
    """
    if not math.isfinite(end - first):
        raise ArgumentError(
            f"arange: from {first} to {end} is farther than a float holds; allowed are distances "
            "below 1.8e308; use linspace"
        )
    count = (end - first) / by
    if count == math.inf:
        raise ShapeError(
            f"arange: start {first}, stop {end}, step {by} make 2^62 elements or more; allowed "
            "are fewer"
        )
    return 0 if count < 0 else math.ceil(count)


def linspace(
    start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: DType | Any = f32
) -> Tensor:
    """Return y[i] = start + i * (stop - start) / (num - 1), evenly spaced numbers.

    Args:
        start: the first element.
        stop: the last element, or the one after it without `endpoint`.
        num: how many elements.
        endpoint: whether stop is an element; without it the divisor is num.
        dtype: a float dtype.

    Returns:
        [num], of `dtype`.

    Raises:
        ArgumentTypeError: something is no number.
        ArgumentError: num is negative.
        ShapeError: num is 2^62 or more.
        DTypeError: the dtype is no float.
    """
    first = float(plain_number("linspace", "start", start))
    last = float(plain_number("linspace", "stop", stop))
    count = whole_number("linspace", "num", num)
    if count < 0:
        raise ArgumentError(f"linspace: num is {count}; allowed are numbers >= 0")
    check_dims("linspace", count)
    kind = as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"linspace: dtype {kind}; allowed are floats; cast the result")
    points = Linspace(
        literal(first), literal(last), count, flag("linspace", "endpoint", endpoint), kind
    )
    return Tensor.apply(OPS["linspace"], (), points)


def eye(n: int, m: int | None = None, k: int = 0, dtype: DType | Any = f32) -> Tensor:
    """Return y[i, j] = 1 where j == i + k, else 0.

    Args:
        n: rows.
        m: columns; None for as many as rows.
        k: the diagonal of the ones; 0 is the main one, positive above it.
        dtype: element type.

    Returns:
        [n, m], of `dtype`.

    Raises:
        ShapeError: a negative extent.
    """
    rows, columns = check_dims("eye", (n, n if m is None else m))
    offset = max(-rows, min(whole_number("eye", "k", k), columns))
    return Tensor.apply(OPS["eye"], (), Eye(rows, columns, offset, as_dtype(dtype)))
