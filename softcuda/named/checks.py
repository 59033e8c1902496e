"""What a plan is given, compared with its descriptors; each fault has its own message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from softcuda.contraction.layout import overlaps_itself
from softcuda.dtype import DType
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    FeedError,
    NumberRangeError,
    ShapeError,
)
from softcuda.functions.leaves import asarray
from softcuda.functions.operands import TensorLike, as_tensor, as_tensors
from softcuda.graph.params import Dims
from softcuda.graph.shapes import numel
from softcuda.named.descriptors import TensorDescriptor
from softcuda.numbers import check_number
from softcuda.sizes import counted
from softcuda.tensor import Tensor
from softcuda.tensor.values import is_number

__all__ = [
    "Wanted",
    "check_fits",
    "check_layout",
    "checked_array",
    "checked_list",
    "checked_scalar",
    "operand_tensors",
    "rounded",
    "scalar_array",
    "wanted_of",
]

Array = np.ndarray[Any, Any]


class Wanted(NamedTuple):
    """What an array of a plan must be.

    Attributes:
        label: what messages call it.
        shape: extents.
        stored: NumPy dtype.
        strides_bytes: those that a dense or canonical array has, compared first.
        dtype: softcuda's.
        strides: [elements]; those of extent 1 do not count.
        device: "cpu" or "cuda".
    """

    label: str
    shape: Dims
    stored: np.dtype[Any]
    strides_bytes: Dims
    dtype: DType
    strides: Dims
    device: str


def wanted_of(label: str, described: TensorDescriptor, device: str) -> Wanted:
    """Return what an array must be to fit a descriptor."""
    strides, dtype = described.canonical_strides, described.dtype
    steps = tuple(stride * dtype.itemsize for stride in strides)
    return Wanted(label, described.extents, dtype.numpy, steps, dtype, strides, device)


def checked_list(what: str, given: Any, count: int) -> Sequence[Any]:
    """Return inputs or scalars as a sequence of the right length.

    Args:
        what: "input" or "scalar".
        given: the inputs or scalars.
        count: how many there must be.

    Raises:
        ArgumentTypeError: it is no list or tuple.
        ArgumentError: there are more or fewer.
    """
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(
            f"Plan: the {what}s are of type {type(given).__name__}; allowed is a list or a tuple"
        )
    if len(given) != count:
        names = ", ".join(("alpha", "beta", "gamma")[:count]) if what == "scalar" else ""
        allowed = f"; pass [{names}]" if names else ""
        raise ArgumentError(f"Plan: {counted(count, what)} expected, {len(given)} given{allowed}")
    return given


def checked_array(value: Any, wanted: Wanted) -> Any:
    """Return the array of an input that fits a descriptor.

    Args:
        value: a tensor, which is evaluated if it has no value, or an array.
        wanted: what it must be.

    Raises:
        ShapeError: another shape.
        ArgumentError: other strides where the extent is above 1, or another device.
        DTypeError: another dtype.
        FeedError: an input leaf, which has no value.
    """
    tensor = value if isinstance(value, Tensor) else _as_input(value, wanted.label)
    if tensor.op.name == "input" and tensor.data is None:
        raise FeedError(
            f"Plan: {wanted.label} is an input leaf, which has no value; give an evaluated tensor "
            "or an array; use compile for a graph with inputs"
        )
    data = tensor.evaluate().data
    check_fits(data, wanted)
    return data


def _as_input(value: Any, label: str) -> Tensor:
    try:
        return asarray(value)
    except (ArgumentTypeError, DTypeError, ShapeError) as error:
        raise type(error)(f"Plan: {label} cannot be a tensor: {error}") from None


def check_fits(data: Any, wanted: Wanted) -> None:
    """Refuse an array that does not fit a descriptor: its shape, strides, dtype, device.

    Raises:
        ShapeError, ArgumentError, DTypeError: names what differs.
    """
    if data.shape != wanted.shape:
        raise ShapeError(
            f"Plan: {wanted.label} has shape {list(data.shape)}; allowed is {list(wanted.shape)}, "
            "that of its descriptor; make a plan for the other shape"
        )
    size = data.itemsize
    triples = zip(wanted.shape, data.strides, wanted.strides, strict=True)
    if numel(wanted.shape) and any(d > 1 and have != want * size for d, have, want in triples):
        have = [stride // size for stride in data.strides]
        raise ArgumentError(
            f"Plan: {wanted.label} has strides {have} and its descriptor {list(wanted.strides)}, "
            f"shape {list(wanted.shape)}; allowed are those of the descriptor where the extent is "
            "above 1; make a plan for the other layout, or copy the tensor"
        )
    if data.dtype != wanted.stored:
        raise DTypeError(
            f"Plan: {wanted.label} has dtype {data.dtype}; allowed is {wanted.dtype}, that of its "
            f"descriptor; convert it with .astype('{wanted.stored}')"
        )
    here = "cpu" if isinstance(data, np.ndarray) else "cuda"
    if here != wanted.device:
        raise ArgumentError(
            f"Plan: {wanted.label} is on {here} and the plan runs on {wanted.device}; move it with "
            f"tensor.to('{wanted.device}'), or make the plan with device='{here}'"
        )


def operand_tensors(what: str, values: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    """Return the operands of a function as tensors; numbers are weak beside the others.

    Args:
        what: who asks, first word of the errors, which name the operand.
        values: tensors, arrays, lists, numbers.

    Raises:
        DTypeError, ShapeError, ArgumentTypeError: a value that cannot be a tensor.
        NumberRangeError: a number that the dtype of the others cannot hold.
    """
    made = [
        value if is_number(value) else as_tensor(f"{what}: operand {number}", value)
        for number, value in enumerate(values)
    ]
    return as_tensors(what, *made)


def scalar_array(name: str, value: Any, dtype: DType) -> Array:
    """Return a scalar as an array of rank 0, which is never written.

    Raises:
        ArgumentTypeError: it is no number.
        DTypeError, NumberRangeError: the dtype cannot hold it.
    """
    if value.__class__ is float and value:  # zeros of both signs are equal keys
        return _known_number(value, dtype, name)
    if not is_number(value):
        raise ArgumentTypeError(
            f"Plan: {name} is {value!r} of type {type(value).__name__}; allowed is a number"
        )
    return rounded(checked_scalar(f"Plan: {name}", value, dtype), dtype)


def checked_scalar(who: str, value: Any, dtype: DType) -> bool | int | float | complex:
    """Return a scalar of an operation as the Python number that a dtype will hold, unrounded.

    Args:
        who: the function and the scalar, first words of the errors.
        value: a number.
        dtype: in which the operation multiplies by it.

    Raises:
        DTypeError: the kind of the number is above that of the dtype.
        NumberRangeError: the dtype cannot hold it.
    """
    try:
        return check_number(value, dtype)
    except (DTypeError, NumberRangeError) as error:
        raise type(error)(f"{who}: {error}") from None


def rounded(number: bool | int | float | complex, dtype: DType) -> Array:
    """Return a number as an array of rank 0, rounded to a dtype."""
    with np.errstate(all="ignore"):  # a number that is too large for its dtype is infinite
        return np.array(number, dtype.numpy)


@lru_cache(maxsize=256)
def _known_number(value: float, dtype: DType, name: str) -> Array:
    return rounded(checked_scalar(f"Plan: {name}", value, dtype), dtype)


def check_layout(what: str, extents: Dims, strides: Dims) -> None:
    """Refuse the layout of a result in which two elements lie in one place.

    Args:
        what: who asks, first words of the error.
        extents: of the result.
        strides: [elements].

    Raises:
        ArgumentError: names the axes that overlap.
    """
    if not overlaps_itself(extents, strides):
        return
    rank = len(extents)
    for count in (1, 2, rank):  # more than two axes that overlap only together are named with all
        for chosen in combinations(range(rank), count):
            part = [extents[k] for k in chosen], [strides[k] for k in chosen]
            if overlaps_itself(*part):
                raise ArgumentError(
                    f"{what}: the output overlaps itself: its axes {list(chosen)} of extents "
                    f"{part[0]} and strides {part[1]} reach one element twice; allowed are "
                    "layouts in which every element has its own place"
                )
