"""Functions that make leaves: of values, for feeds, and variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softcuda.dtype import DType, as_dtype, f32
from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.functions.operands import TensorLike
from softcuda.graph.op import OPS
from softcuda.graph.shapes import check_dims
from softcuda.tensor import Tensor
from softcuda.tensor.values import array_of

__all__ = ["asarray", "input", "tensor", "variable"]


def tensor(value: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return a tensor that owns a copy of a value.

    Args:
        value: number, nested list of numbers, array, CPU tensor with DLPack, or Tensor.
        dtype: dtype of the result; None gives Python's and NumPy's floats f32, ints i64, bools
            bool, and arrays their own (u8 i8 i16 u16 as i32, u32 as i64).

    Returns:
        [shape of the value], of `dtype`; lazy where the value is a Tensor, but for a variable,
        whose value now is copied.

    Raises:
        DTypeError: complex numbers, text, objects, u64.
        ShapeError: a ragged list.
        NumberRangeError: an int that the dtype cannot hold.
        ArgumentTypeError: a value of another type, or on another device.
    """
    if isinstance(value, Tensor):
        if value.op is not OPS["variable"]:
            return value.copy() if dtype is None else value.cast(dtype)
        value = value.numpy()
    return Tensor.leaf(array_of("tensor", value, None if dtype is None else as_dtype(dtype)))


def asarray(value: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return a value as a tensor that may alias it: later writes to the array may be seen.

    A Tensor is returned as it is; an aligned array of native byte order and of a dtype that
    tensors have is not copied. Use `tensor` for a copy.

    Args:
        value: number, nested list of numbers, array, CPU tensor with DLPack, or Tensor.
        dtype: dtype of the result; None as in `tensor`.

    Returns:
        [shape of the value], of `dtype`.

    Raises:
        DTypeError, ShapeError, NumberRangeError, ArgumentTypeError: as in `tensor`.
    """
    if isinstance(value, Tensor):
        return value if dtype is None else value.astype(dtype)
    wanted = None if dtype is None else as_dtype(dtype)
    return Tensor.leaf(array_of("asarray", value, wanted, copy=False))


def input(shape: int | Sequence[int], dtype: DType | Any = f32, name: str | None = None) -> Tensor:
    """Return a leaf without a value: what a run is fed.

    Args:
        shape: extents.
        dtype: element type.
        name: the name under which `run` takes its value; None feeds it by the tensor itself.

    Returns:
        [shape], of `dtype`.

    Raises:
        ShapeError: a negative extent, or more than 64 axes.
        ArgumentTypeError: the name is no text.
        ArgumentError: the name is empty.
    """
    dims = check_dims("input", shape)
    return Tensor(OPS["input"], (), dims, as_dtype(dtype), (), None, _name("input", name))


def variable(value: TensorLike, name: str | None = None, dtype: DType | Any = None) -> Tensor:
    """Return a leaf with a buffer of its own, which `assign` and a run's updates change.

    In a run every read sees the old value. What was evaluated before keeps its value.

    Args:
        value: number, nested list of numbers, array, or Tensor (which is evaluated): the first
            value, copied.
        name: the name in printed tables; None for none.
        dtype: dtype of the variable; None as in `tensor`.

    Returns:
        [shape of the value], of `dtype`.

    Raises:
        DTypeError, ShapeError, NumberRangeError, ArgumentTypeError: as in `tensor`.
    """
    checked = _name("variable", name)
    given = value.numpy() if isinstance(value, Tensor) else value
    array = array_of("variable", given, None if dtype is None else as_dtype(dtype))
    return Tensor.leaf(array.copy(order="C"), OPS["variable"], checked)


def _name(what: str, name: str | None) -> str | None:
    if name is not None and not isinstance(name, str):
        raise ArgumentTypeError(f"{what}: the name is {name!r}; allowed is text, or None")
    if name == "":
        raise ArgumentError(f"{what}: the name is empty; allowed is text, or None")
    return name
