"""Index spaces of chains: axes that are contiguous in every operand become one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softcuda.graph.params import Dims

__all__ = ["Space", "fuse_axes", "pieces"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Space:
    """The fewest axes that index some arrays jointly.

    Attributes:
        dims: extents of the fused axes, at least one, none of them 1 unless it stands alone.
        arrays: the arrays over these axes; an axis along which an array repeats has extent 1.
        labels: the label of every fused axis.
    """

    dims: Dims
    arrays: tuple[Array, ...]
    labels: tuple[bool, ...]


def fuse_axes(dims: Dims, arrays: Sequence[Array], labels: Sequence[bool] | None = None) -> Space:
    """Return the space `dims` over `arrays` with as few axes as their strides allow.

    Args:
        dims: extents of the space; none is 0.
        arrays: each broadcasts to `dims`, any strides.
        labels: one for every axis; only axes of equal label are joined.
    """
    rank = len(dims)
    labels = labels or (False,) * rank
    strides = [_aligned_strides(dims, array) for array in arrays]
    groups: list[list[int]] = []
    for axis in range(rank):
        if dims[axis] == 1:
            continue
        before = groups[-1][-1] if groups else -1
        if (
            groups
            and labels[before] == labels[axis]
            and all(s[before] == s[axis] * dims[axis] for s in strides)
        ):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if not groups:
        ones = tuple(array.reshape((1,), copy=False) for array in arrays)
        return Space((1,), ones, (False,))
    fused = tuple(math.prod(dims[axis] for axis in group) for group in groups)
    views = []
    for array, steps in zip(arrays, strides, strict=True):
        own = tuple(
            1 if steps[group[-1]] == 0 else extent
            for group, extent in zip(groups, fused, strict=True)
        )
        views.append(_once(array).reshape(own, copy=False))
    return Space(fused, tuple(views), tuple(labels[group[-1]] for group in groups))


def _aligned_strides(dims: Dims, array: Array) -> Dims:
    """Return byte strides over `dims`, 0 along axes on which the array repeats."""
    shift = len(dims) - array.ndim
    own = tuple(0 if d == 1 else s for d, s in zip(array.shape, array.strides, strict=True))
    return (0,) * shift + own


def _once(array: Array) -> Array:
    """Return the array with the axes of stride 0 cut to one element."""
    if 0 not in array.strides:
        return array
    return array[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)]


def pieces(extent: int, size: int, multiple: int = 1) -> int:
    """Return the size of about equal pieces, at most `size`, that cover `extent`.

    Args:
        extent: what is cut.
        size: the largest piece allowed.
        multiple: the number of pieces, where it is more than one and small, is made a multiple
            of this, so that as many threads finish together.
    """
    count = -(-extent // max(size, 1))
    if 1 < count < 8 * multiple:
        count = -(-count // multiple) * multiple
    return -(-extent // count)
