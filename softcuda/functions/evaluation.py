"""Evaluation of several tensors at once."""

from __future__ import annotations

from softcuda import running
from softcuda.errors import ArgumentTypeError
from softcuda.tensor import Tensor

__all__ = ["evaluate"]


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
    running.evaluate_nodes(tensors)
