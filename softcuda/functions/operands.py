"""What functions take as a tensor, and how it becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.tensor import Tensor
from softcuda.tensor.operands import as_node, operands

__all__ = ["TensorLike", "as_tensor", "as_tensors"]

TensorLike = Tensor | np.ndarray[Any, Any] | Sequence[Any] | float | np.generic | Any
"""A Tensor, or a number, nested list, array or tensor with DLPack, which becomes a leaf."""


def as_tensor(what: str, value: TensorLike) -> Tensor:
    """Return a value as a Tensor: itself, or a leaf with a copy of it.

    Raises:
        DTypeError, ShapeError, ArgumentTypeError: a value that cannot be a tensor.
    """
    return value if isinstance(value, Tensor) else as_node(Tensor, what, value)


def as_tensors(what: str, *values: TensorLike) -> tuple[Tensor, ...]:
    """Return values as Tensors; numbers are weak beside the others.

    Raises:
        DTypeError, ShapeError, ArgumentTypeError: a value that cannot be a tensor.
        NumberRangeError: a number that the dtype of the others cannot hold.
    """
    return operands(Tensor, what, values)
