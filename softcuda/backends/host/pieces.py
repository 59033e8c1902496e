"""Cache-sized pieces of index spaces: how host code walks big arrays with small scratch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from softcuda.graph.params import Dims

__all__ = ["BLOCK", "Box", "boxes"]

Box = tuple[slice, ...]

# 32 Ki elements: three f64 blocks stay in a 1 MiB second-level cache.
BLOCK = 32768


def boxes(dims: Dims, limit: int = BLOCK) -> Iterator[Box]:
    """Yield boxes of at most `limit` elements that tile `dims`, in row-major order.

    Args:
        dims: extents of the index space; an extent of 0 gives no box, rank 0 gives one.
        limit: the most elements a box may have, at least 1.

    Example:
        >>> [b[0].start for b in boxes((5, 2), 4)]
        [0, 2, 4]
    """
    if math.prod(dims) <= limit:
        if 0 not in dims:
            yield tuple(slice(0, d) for d in dims)
        return
    inner, axis = 1, len(dims) - 1
    while inner * dims[axis] <= limit:
        inner *= dims[axis]
        axis -= 1
    rows = max(limit // inner, 1)
    tail = tuple(slice(0, d) for d in dims[axis + 1 :])
    starts = range(0, dims[axis], rows)
    for index in itertools.product(*map(range, dims[:axis])):
        head = tuple(slice(i, i + 1) for i in index)
        for start in starts:
            yield (*head, slice(start, min(start + rows, dims[axis])), *tail)
