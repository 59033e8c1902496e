"""Gradient clipping by the norm of all gradients together."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from softcuda.dtype import compute_dtype, f32
from softcuda.errors import ArgumentError
from softcuda.executor.structure import flatten, rebuild
from softcuda.functions import maximum, norm, stack
from softcuda.tensor import Tensor
from softcuda.tensor.values import plain_number

__all__ = ["Clipped", "clip_by_global_norm"]


class Clipped(NamedTuple):
    """Gradients in their structure, and their norm before they were clipped."""

    gradients: Any
    norm: Tensor


def clip_by_global_norm(gradients: Any, limit: float) -> Clipped:
    """Return gradients scaled down so that their common norm is at most a limit.

    g'[i] = g[i] * min(1, limit / n), n = sqrt(sum over all gradients of g[i]^2). Where n is within
    the limit they are unchanged, bit for bit. NaN in one makes all of them NaN.

    Args:
        gradients: a float tensor, or lists, tuples and dicts of them.
        limit: the largest norm, above 0.

    Returns:
        The gradients in their structure, each [its shape] of its dtype, and n [] of f32 or f64.

    Raises:
        ArgumentError: the limit is not above 0, or there are no gradients.
        ArgumentTypeError: `gradients` is no such structure, or the limit no number.
    """
    most = float(plain_number("clip_by_global_norm", "limit", limit))
    if not 0 < most < math.inf:
        raise ArgumentError(
            f"clip_by_global_norm: the limit is {most}; allowed are finite numbers above 0"
        )
    nodes, skeleton = flatten(gradients, "clip_by_global_norm")
    if not nodes:
        raise ArgumentError("clip_by_global_norm: there are no gradients; allowed is one or more")
    wide: list[Any] = [node.astype(compute_dtype(node.dtype)) for node in nodes]  # type: ignore[attr-defined]
    total = norm(stack([norm(x).astype(_widest(wide)) for x in wide]))
    factor = most / maximum(total, most)
    clipped = [
        (x * factor.astype(x.dtype)).astype(node.dtype) for x, node in zip(wide, nodes, strict=True)
    ]
    return Clipped(rebuild(skeleton, clipped.__getitem__), total)


def _widest(tensors: list[Any]) -> Any:
    return max((x.dtype for x in tensors), key=lambda dtype: dtype.itemsize, default=f32)
