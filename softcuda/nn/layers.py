"""The layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softcuda.dtype import DType, as_dtype, f32
from softcuda.errors import ArgumentTypeError
from softcuda.functions import dropout, layer_norm, normal, take, variable
from softcuda.generator import Generator
from softcuda.graph.shapes import check_dims
from softcuda.nn.initialisers import uniform_by_fan_in
from softcuda.nn.module import Module
from softcuda.tensor import Tensor

__all__ = ["Dropout", "Embedding", "LayerNorm", "Linear", "Sequential"]

Initialiser = Callable[[tuple[int, ...], DType, Generator | None], Tensor]


class Linear(Module):
    """y[.., n] = sum over k of x[.., k] * weight[k, n] + bias[n].

    Args:
        inputs: extent of k.
        outputs: extent of n.
        bias: whether a bias is added; zeros at first.
        dtype: dtype of weight and bias.
        initialiser: (shape, dtype, generator) -> the first weight.
        generator: where it is drawn from; None for the default generator.
        device: "cpu" or "cuda", where weight and bias are.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool = True,
        *,
        dtype: DType | Any = f32,
        initialiser: Initialiser = uniform_by_fan_in,
        generator: Generator | None = None,
        device: str = "cpu",
    ) -> None:
        kind = as_dtype(dtype)
        dims = check_dims("Linear", (inputs, outputs))
        self.weight = _parameter(initialiser(dims, kind, generator), device)
        self.bias: Tensor | None = None
        if bias:
            self.bias = _parameter(np.zeros(dims[1:], kind.numpy), device)

    def forward(self, x: Tensor, *, is_training: bool = False) -> Tensor:
        """Return the layer's output, [.., outputs], of x [.., inputs]."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class Embedding(Module):
    """y[.., j] = weight[x[..], j]: a row of a table for every index.

    Args:
        count: number of rows.
        width: elements of a row.
        dtype: dtype of the table; at first it is drawn from the normal distribution.
        generator: where it is drawn from; None for the default generator.
        device: "cpu" or "cuda", where the table is.
    """

    def __init__(
        self,
        count: int,
        width: int,
        *,
        dtype: DType | Any = f32,
        generator: Generator | None = None,
        device: str = "cpu",
    ) -> None:
        dims = check_dims("Embedding", (count, width))
        drawn = normal(dims, 0.0, 1.0, as_dtype(dtype), generator)
        self.weight = _parameter(drawn, device)

    def forward(self, x: Tensor, *, is_training: bool = False) -> Tensor:
        """Return the rows, [.., width], of x [..], i32 or i64."""
        return take(self.weight, x, 0)


class LayerNorm(Module):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axes.

    Args:
        shape: extents of the last axes, an int for one.
        eps: added to the variance.
        dtype: dtype of weight and bias; ones and zeros at first.
        device: "cpu" or "cuda", where they are.
    """

    def __init__(
        self,
        shape: int | tuple[int, ...],
        eps: float = 1e-5,
        *,
        dtype: DType | Any = f32,
        device: str = "cpu",
    ) -> None:
        dims, kind = check_dims("LayerNorm", shape), as_dtype(dtype)
        self.eps = eps
        self.weight = _parameter(np.ones(dims, kind.numpy), device)
        self.bias = _parameter(np.zeros(dims, kind.numpy), device)

    def forward(self, x: Tensor, *, is_training: bool = False) -> Tensor:
        """Return the normalised x, of its shape."""
        return layer_norm(x, self.weight, self.bias, eps=self.eps)


class Dropout(Module):
    """In training, elements are set to 0 at random and the others scaled; else x itself.

    Args:
        probability: the chance of an element to be dropped, 0 to 1.
        generator: where the bits come from; None for the default generator.
    """

    def __init__(self, probability: float = 0.5, generator: Generator | None = None) -> None:
        self.probability = probability
        self.generator = generator

    def forward(self, x: Tensor, *, is_training: bool = False) -> Tensor:
        """Return softcuda.dropout of x in training, else x."""
        return dropout(x, self.probability, self.generator) if is_training else x


class Sequential(Module):
    """Layers one after the other.

    Args:
        layers: modules, and functions of one tensor such as softcuda.relu.

    Raises:
        ArgumentTypeError: a layer cannot be called.
    """

    def __init__(self, *layers: Any) -> None:
        for number, layer in enumerate(layers):
            if not callable(layer):
                raise ArgumentTypeError(
                    f"Sequential: layer {number} is {layer!r}; allowed are modules and functions"
                )
        self.layers = layers

    def forward(self, x: Any, *, is_training: bool = False) -> Any:
        """Return the output of the last layer."""
        for layer in self.layers:
            x = layer(x, is_training=is_training) if isinstance(layer, Module) else layer(x)
        return x


def _parameter(value: Any, device: str) -> Tensor:
    # Without a name: those of one graph must differ, and the module knows it by its attribute.
    return variable(value, device=device, requires_grad=True)
