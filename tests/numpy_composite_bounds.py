"""Bounds of the composites: see tests/numpy_bounds.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy_reference import layer_norm, log_softmax, softmax

from softcuda.graph.params import value_of

Array = np.ndarray[Any, Any]
Bound = tuple[Array, Any, int, Any]  # value, grown error, terms summed, their magnitude


def composite_bound(name: str, params: Any, values: list[Array], errors: list[Array]) -> Bound:
    """Return the bound of softmax, log_softmax or layer_norm."""
    x, e = values[0], errors[0]
    if name == "layer_norm":
        return _normed(params, values, errors)
    terms = x.shape[params.axis]
    worst = np.max(e, axis=params.axis, keepdims=True, initial=0.0)
    if name == "softmax":
        value = softmax(x, params)
        return value, value * np.expm1(2 * worst), terms, 0.0
    size = np.max(
        np.where(np.isfinite(x), np.abs(x), 0), axis=params.axis, keepdims=True, initial=1
    )
    return log_softmax(x, params), e + worst, terms, 2 * size


def _normed(params: Any, values: list[Array], errors: list[Array]) -> Bound:
    x, e = values[0], errors[0]
    value = layer_norm(values, params)
    axes = tuple(range(x.ndim - params.axes_count, x.ndim))
    count = max(math.prod(x.shape[axis] for axis in axes), 1)
    centred = x - np.sum(x, axis=axes, keepdims=True) / count
    variance = np.sum(centred * centred, axis=axes, keepdims=True) / count
    deviation = np.sqrt(variance + value_of(params.eps))
    each = e + np.sum(e, axis=axes, keepdims=True) / count
    normal = np.abs(centred) / deviation
    spread = np.sum(normal * each, axis=axes, keepdims=True) / count
    grown = (each + normal * spread) / deviation
    top = np.sqrt(np.sum(x * x, axis=axes, keepdims=True) / count) / deviation
    scale = normal + np.where(np.isfinite(top), top, 0.0)
    beside, slack = values[1:], errors[1:]
    if params.has_weight:
        grown = grown * np.abs(beside[0]) + normal * slack[0]
        scale = scale * np.abs(beside[0])
    if params.has_bias:
        grown, scale = grown + slack[-1], scale + np.abs(beside[-1])
    return value, grown, count, scale
