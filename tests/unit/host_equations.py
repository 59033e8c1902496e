"""Operands of an einsum-like equation, in layouts of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
from host_harness import sample

from softcuda.dtype import DType
from softcuda.graph.params import Contraction

Array = np.ndarray[Any, Any]


def params_of(subscripts: str) -> Contraction:
    inputs, out = subscripts.split("->")
    a, b = inputs.split(",")
    return Contraction(*(tuple(map(ord, part)) for part in (a, b, out)))


def operands(subscripts: str, extents: str, left: DType, right: DType, kind: int) -> list[Array]:
    """Return the operands in a layout: 0 dense, 1 reversed, 2 padded, 3 turned, 4 stepped."""
    sizes = {word[0]: int(word[1:]) for word in extents.split()}
    result = []
    for labels, dtype in zip(subscripts.partition("->")[0].split(","), (left, right), strict=True):
        dims = tuple(sizes[x] for x in labels)
        seed = 11 + len(result)
        if kind == 1 and dims:
            array = sample(dtype, dims, seed)[::-1]
        elif kind == 2:
            array = sample(dtype, tuple(d + 2 for d in dims), seed)
            array = array[tuple(slice(1, d + 1) for d in dims)]
        elif kind == 3:
            array = sample(dtype, dims[::-1], seed).transpose()
        elif kind == 4:
            array = sample(dtype, tuple(2 * d for d in dims), seed)
            array = array[tuple(slice(None, None, 2) for _ in dims)]
        else:
            array = sample(dtype, dims, seed)
        result.append(array)
    return result
