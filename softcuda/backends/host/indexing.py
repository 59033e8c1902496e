"""take, gather and one_hot on NumPy arrays, piece by piece."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.host.pieces import BLOCK, Box, boxes
from softcuda.backends.host.tiles import part_of
from softcuda.backends.reports import index_error
from softcuda.graph.params import Gather, OneHot

__all__ = ["check_indices", "gather_into", "one_hot_into", "take_into"]

Array = np.ndarray[Any, Any]


def check_indices(what: str, indices: Array, extent: int, params: Gather) -> None:
    """Refuse an index outside -extent to extent - 1.

    Raises:
        IndexOutOfRange: names who asked, the index, the extent and the axis.
    """
    if not indices.size:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < -extent or high >= extent:
        bad = low if low < -extent else high
        raise index_error(params.caller or what, bad, params.axis, extent)


def take_into(data: Array, indices: Array, out: Array, params: Gather) -> None:
    """Write data[.., indices, ..] along an axis; negative indices count from the end.

    Raises:
        IndexOutOfRange: an index is outside the axis.
    """
    axis = params.axis
    check_indices("take", indices, data.shape[axis], params)
    if not out.size:
        return
    if axis == 0 and data.flags.c_contiguous and out.flags.c_contiguous:
        _take_rows(data, indices, out)
        return
    last = axis + indices.ndim
    for box in boxes(out.shape):
        where: tuple[Any, ...] = (*box[:axis], part_of(indices, box[axis:last]), *box[last:])
        out[box] = data[where]


def _take_rows(data: Array, indices: Array, out: Array) -> None:
    count = math.prod(data.shape[1:])
    rows, target = data.reshape(data.shape[0], count), out.reshape(-1, count)
    step = max(BLOCK // max(count, 1), 1)
    flat = indices.reshape(-1) if indices.flags.c_contiguous else indices.flatten()
    for start in range(0, flat.size, step):
        part = slice(start, start + step)
        np.take(rows, flat[part], 0, target[part], "wrap")


def gather_into(data: Array, indices: Array, out: Array, params: Gather) -> None:
    """Write data[i, .., indices[i, .., j], ..] along an axis, as take_along_axis.

    Raises:
        IndexOutOfRange: an index is outside the axis.
    """
    axis = params.axis
    check_indices("gather", indices, data.shape[axis], params)
    for box in boxes(out.shape):
        out[box] = _gathered(data, part_of(indices, box), box, axis)


def _gathered(data: Array, indices: Array, box: Box, axis: int) -> Array:
    """Return the elements that a box of indices addresses."""
    near = data[(*box[:axis], slice(None), *box[axis + 1 :])]
    used = [k for k, extent in enumerate(indices.shape) if extent != 1 and k != axis]
    # Axes of extent 1 are left out: an advanced index takes fewer axes than a view.
    keep = sorted([*used, axis])
    near = near[tuple(slice(None) if k in keep else 0 for k in range(near.ndim))]
    wanted = indices.reshape(tuple(indices.shape[k] for k in keep))
    grid = np.ogrid[tuple(slice(0, d) for d in wanted.shape)]
    index = tuple(wanted if k == axis else g for k, g in zip(keep, grid, strict=True))
    return near[index].reshape(indices.shape)


def one_hot_into(indices: Array, out: Array, params: OneHot) -> None:
    """Write rows of zeros with a one at the index; none where it is outside the depth."""
    depth = params.depth
    one = np.empty((), out.dtype)
    convert(np.array(1), one)
    if not out.size:
        return
    # Axes of extent 1 are left out: an advanced index takes fewer axes than a tensor may have.
    first = tuple(0 if extent == 1 else slice(None) for extent in indices.shape)
    indices, out = indices[first][None], out[first][None]
    limit = max(BLOCK // depth, 1)
    for box in boxes(indices.shape, limit):
        place = out[(*box, slice(None))]
        place.fill(0)
        part = part_of(indices, box)
        inside = np.nonzero((part >= 0) & (part < depth))
        place[(*inside, part[inside])] = one
