"""What ops that read indices mean, in NumPy: values are float64 or int64, indices any integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def take(inputs: Sequence[Array], params: Any) -> Array:
    """Return slices of the data by position."""
    return np.take(inputs[0], inputs[1], params.axis)


def gather(inputs: Sequence[Array], p: Any) -> Array:
    """Return elements of the data by position."""
    data, indices = inputs
    window = tuple(
        slice(None) if axis == p.axis else slice(extent)
        for axis, extent in enumerate(indices.shape)
    )
    return np.take_along_axis(data[window], indices % data.shape[p.axis], p.axis)


def _added(inputs: Sequence[Array], place: tuple[Any, ...]) -> Array:
    total = np.array(inputs[0])
    np.add.at(total, place, inputs[2])
    return total


def _index_add(inputs: Sequence[Array], params: Any) -> Array:
    return _added(inputs, (*(slice(None),) * params.axis, inputs[1]))


def _scatter_add(inputs: Sequence[Array], params: Any) -> Array:
    place = list(np.indices(inputs[1].shape))
    place[params.axis] = inputs[1]
    return _added(inputs, tuple(place))


# Ops that add values at addressed places: their errors add up there too.
SCATTERED: dict[str, Callable[[Sequence[Array], Any], Array]] = {
    "index_add": _index_add,
    "scatter_add": _scatter_add,
}


def one_hot(indices: Array, params: Any) -> Array:
    """Return rows of zeros with a one where the index says; zeros alone beyond the depth."""
    return indices[..., None] == np.arange(params.depth)
