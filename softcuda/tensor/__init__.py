"""The user's Tensor: a node of the graph with operators, methods and values."""

from softcuda.tensor.tensor import Tensor

__all__ = ["Tensor"]
