"""Self-attention over several heads, by einsum."""

from __future__ import annotations

import math
from typing import Any

from softcuda.dtype import DType, f32
from softcuda.errors import ArgumentError
from softcuda.functions import arange, softmax, where
from softcuda.generator import Generator
from softcuda.named import einsum
from softcuda.nn.layers import Linear
from softcuda.nn.module import Module
from softcuda.tensor import Tensor

__all__ = ["SelfAttention"]


class SelfAttention(Module):
    """Each place of a sequence adds up values of others, by how well its query fits their keys.

    p[b, h, i, j] = softmax over j of (sum over d of q[b, i, h, d] * k[b, j, h, d]) / sqrt(width /
    heads);  y = (sum over j of p[b, h, i, j] * v[b, j, h, d]) W + c, with q, k, v linear in x.

    Args:
        width: elements of a place; a multiple of `heads`.
        heads: how many sets of queries, keys and values there are.
        is_causal: whether a place sees itself and earlier ones alone.
        dtype: dtype of the weights.
        generator: where they are drawn from; None for the default generator.
        device: "cpu" or "cuda", where they are.

    Raises:
        ArgumentError: the width is no multiple of the heads.

    Source:
        A. Vaswani and others, "Attention is all you need", NeurIPS 2017.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        is_causal: bool = False,
        *,
        dtype: DType | Any = f32,
        generator: Generator | None = None,
        device: str = "cpu",
    ) -> None:
        if heads < 1 or width % heads:
            raise ArgumentError(
                f"SelfAttention: {heads} heads share a width of {width}; allowed are divisors of "
                "the width"
            )
        self.heads = heads
        self.is_causal = is_causal
        options: dict[str, Any] = {"dtype": dtype, "generator": generator, "device": device}
        self.inside = Linear(width, 3 * width, **options)
        self.outside = Linear(width, width, **options)

    def forward(self, x: Tensor, *, is_training: bool = False) -> Tensor:
        """Return y [batch, places, width] of x [batch, places, width]."""
        batch, places, width = x.dims
        depth = width // self.heads
        parts = self.inside(x).reshape(batch, places, 3, self.heads, depth)
        q, k, v = (parts[:, :, number] for number in range(3))
        scores = einsum("bihd,bjhd->bhij", q, k) * (1 / math.sqrt(depth))
        if self.is_causal:
            here = arange(places)
            scores = where(here[:, None] >= here, scores, -math.inf)
        mixed = einsum("bhij,bjhd->bihd", softmax(scores), v)
        y: Tensor = self.outside(mixed.reshape(batch, places, width))
        return y
