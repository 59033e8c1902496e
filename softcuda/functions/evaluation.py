"""Where values are, and their evaluation."""

from __future__ import annotations

from softcuda import evaluating
from softcuda.errors import ArgumentTypeError
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.tensor import Tensor

__all__ = ["evaluate", "to"]


def to(x: TensorLike, device: str) -> Tensor:
    """Return x on a device: y = x, its value held by "cpu" or "cuda".

    A node like any other: the copy is made when the value is asked for, and none where the value
    is there already. Where an operation runs is the profile's business, not the device's of its
    operands.

    Args:
        x: any tensor.
        device: "cpu" or "cuda", or the `device` of another tensor.

    Returns:
        [x.shape], x.dtype.

    Raises:
        ArgumentError: there is no device of this name.
    """
    return as_tensor("to", x).to(device)


def evaluate(*tensors: Tensor) -> None:
    """Compute the values of tensors in one run; what they share is computed once.

    Args:
        tensors: Tensors; those that have a value keep it.

    Raises:
        ArgumentTypeError: something is no Tensor.
        FeedError: one depends on an input, which has no value of its own.
    """
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(
                f"evaluate: argument {number} is {tensor!r}; allowed are Tensors; "
                "unpack a list with evaluate(*tensors)"
            )
    evaluating.evaluate_nodes(tensors)
