"""First values of weights, by the number of elements that each output adds up."""

from __future__ import annotations

import math
from typing import Any

from softcuda.dtype import DType, f32
from softcuda.errors import ShapeError
from softcuda.functions import normal, uniform
from softcuda.generator import Generator
from softcuda.graph.shapes import check_dims
from softcuda.tensor import Tensor

__all__ = ["glorot_uniform", "he_normal", "uniform_by_fan_in"]


def uniform_by_fan_in(
    shape: tuple[int, ...], dtype: DType | Any = f32, generator: Generator | None = None
) -> Tensor:
    """Return numbers drawn evenly from -b to b, b = 1 / sqrt(fan_in).

    Args:
        shape: [fan_in.., fan_out].
        dtype: a float dtype.
        generator: where the bits come from; None for the default generator.

    Returns:
        [shape], of `dtype`, drawn when it is evaluated.

    Raises:
        ShapeError: fewer than two axes.
        DTypeError: the dtype is no float.
    """
    bound = 1 / math.sqrt(_fans("uniform_by_fan_in", shape)[0])
    return uniform(shape, -bound, bound, dtype, generator)


def glorot_uniform(
    shape: tuple[int, ...], dtype: DType | Any = f32, generator: Generator | None = None
) -> Tensor:
    """Return numbers drawn evenly from -b to b, b = sqrt(6 / (fan_in + fan_out)).

    Args:
        shape: [fan_in.., fan_out].
        dtype: a float dtype.
        generator: where the bits come from; None for the default generator.

    Returns:
        [shape], of `dtype`, drawn when it is evaluated.

    Raises:
        ShapeError: fewer than two axes.
        DTypeError: the dtype is no float.

    Source:
        X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural
        networks", AISTATS 2010.
    """
    bound = math.sqrt(6 / sum(_fans("glorot_uniform", shape)))
    return uniform(shape, -bound, bound, dtype, generator)


def he_normal(
    shape: tuple[int, ...], dtype: DType | Any = f32, generator: Generator | None = None
) -> Tensor:
    """Return numbers of the normal distribution of mean 0 and deviation sqrt(2 / fan_in).

    Args:
        shape: [fan_in.., fan_out].
        dtype: a float dtype.
        generator: where the bits come from; None for the default generator.

    Returns:
        [shape], of `dtype`, drawn when it is evaluated.

    Raises:
        ShapeError: fewer than two axes.
        DTypeError: the dtype is no float.

    Source:
        K. He, X. Zhang, S. Ren, J. Sun, "Delving deep into rectifiers", ICCV 2015.
    """
    deviation = math.sqrt(2 / _fans("he_normal", shape)[0])
    return normal(shape, 0.0, deviation, dtype, generator)


def _fans(what: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many elements an output adds up, and how many outputs there are; at least 1."""
    dims = check_dims(what, shape)
    if len(dims) < 2:
        raise ShapeError(
            f"{what}: the shape {list(dims)} has no axes of inputs and outputs; allowed are two "
            "axes or more, outputs last"
        )
    return max(math.prod(dims[:-1]), 1), max(dims[-1], 1)
