"""Random tensors: nodes that read a generator, drawn when they are evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.dtype import DType, as_dtype, f32
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError
from softcuda.functions.binary import where
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.generator import Generator, default_generator
from softcuda.graph.op import OPS
from softcuda.graph.params import Random, literal
from softcuda.graph.shapes import check_dims
from softcuda.tensor import Tensor
from softcuda.tensor.values import converted, plain_number

__all__ = ["dropout", "normal", "uniform"]


def uniform(
    shape: int | Sequence[int] = (),
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType | Any = f32,
    generator: Generator | None = None,
) -> Tensor:
    """Return numbers drawn evenly from [low, high).

    y[i] = low + u[i] * (high - low), u of 24 bits (f64: 53), rounded once and never high. It is
    drawn when it, or something that depends on it, is first evaluated, and keeps that value.

    Args:
        shape: extents.
        low: the smallest number.
        high: the end, not included; not below low.
        dtype: a float dtype.
        generator: where the bits come from; None for the default generator.

    Returns:
        [shape], of `dtype`; one evaluation draws once, every run of an executable draws anew.

    Raises:
        ArgumentError: a bound is not finite in `dtype`, or high is below low.
        DTypeError: the dtype is no float.
        ShapeError: a negative extent.
    """
    kind = _float_dtype("uniform", dtype)
    first, last = (
        _finite("uniform", name, value, kind) for name, value in (("low", low), ("high", high))
    )
    if last < first:
        raise ArgumentError(f"uniform: low is {first} and high {last}; high may not be below low")
    return _drawn("uniform", shape, kind, first, last, generator)


def normal(
    shape: int | Sequence[int] = (),
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DType | Any = f32,
    generator: Generator | None = None,
) -> Tensor:
    """Return numbers drawn from the normal distribution.

    y[i] = mean + std * z[i], z by the Box-Muller transform in f64, rounded once. It is drawn when
    it, or something that depends on it, is first evaluated, and keeps that value.

    Args:
        shape: extents.
        mean: the mean.
        std: the standard deviation, not negative.
        dtype: a float dtype.
        generator: where the bits come from; None for the default generator.

    Returns:
        [shape], of `dtype`; one evaluation draws once, every run of an executable draws anew.

    Raises:
        ArgumentError: mean or std is not finite in `dtype`, or std is negative.
        DTypeError: the dtype is no float.
        ShapeError: a negative extent.

    Source:
        G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Annals
        of Mathematical Statistics 29 (1958).
    """
    kind = _float_dtype("normal", dtype)
    middle, width = (
        _finite("normal", name, value, kind) for name, value in (("mean", mean), ("std", std))
    )
    if width < 0:
        raise ArgumentError(f"normal: std is {width}; allowed are numbers >= 0")
    return _drawn("normal", shape, kind, middle, width, generator)


def dropout(x: TensorLike, probability: float = 0.5, generator: Generator | None = None) -> Tensor:
    """Return x with elements set to 0 at random, the others divided by the share that is kept.

    y[i] = 0 where u[i] < probability, else x[i] / (1 - probability), u as `uniform` draws it: the
    same state of the generator drops the same elements on every backend.

    Args:
        x: [any shape], any float dtype.
        probability: the chance of an element to be dropped, 0 to 1.
        generator: where the bits come from; None for the default generator.

    Returns:
        [shape of x], of its dtype; one evaluation draws once, every run of an executable draws
        anew.

    Raises:
        DTypeError: x is of integers or bools.
        ArgumentError: the probability is not from 0 to 1.

    Source:
        N. Srivastava, G. Hinton, A. Krizhevsky, I. Sutskever, R. Salakhutdinov, "Dropout: a simple
        way to prevent neural networks from overfitting", JMLR 15 (2014).
    """
    node = as_tensor("dropout", x)
    _float_dtype("dropout", node.dtype)
    share = float(plain_number("dropout", "probability", probability))
    if not 0 <= share <= 1:
        raise ArgumentError(f"dropout: the probability is {share}; allowed are 0 to 1")
    is_kept = uniform(node.dims, generator=generator) >= share
    return where(is_kept, node * (1 / (1 - share) if share < 1 else 0.0), 0)


def _float_dtype(what: str, dtype: DType | Any) -> DType:
    kind = as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"{what}: dtype {kind}; allowed are floats; floor and cast the result")
    return kind


def _finite(what: str, name: str, value: float, dtype: DType) -> float:
    number = float(plain_number(what, name, value))
    held = float(converted(np.array(number), dtype))
    if not math.isfinite(held):
        raise ArgumentError(
            f"{what}: {name} is {number}, {held} in {dtype}; allowed are numbers that are finite "
            "in the dtype; use a wider one"
        )
    return number


def _drawn(
    what: str,
    shape: int | Sequence[int],
    kind: DType,
    first: float,
    second: float,
    generator: Generator | None,
) -> Tensor:
    if generator is not None and not isinstance(generator, Generator):
        raise ArgumentTypeError(
            f"{what}: the generator is {generator!r}; allowed is a softcuda.Generator, or None"
        )
    source = (generator or default_generator()).variable
    dims = check_dims(what, shape)
    params = Random(dims, kind, literal(first), literal(second), 0)
    return Tensor.apply(OPS[what], (source,), params)
