"""The values of leaves as npy: the memory that a leaf lies in, so that strides need nothing more.

A leaf of strides s and extents d lies in 1 + sum |s_i| (d_i - 1) elements; gaps are written as
zeros. What NumPy has no name for (bf16) is written as unsigned integers of its bits.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from softcuda.dtype import DType
from softcuda.executor.saved.plain import Misfit
from softcuda.graph.params import Dims
from softcuda.graph.shapes import is_contiguous, numel
from softcuda.pool.buffers import aligned_empty

__all__ = ["array_bytes", "array_of_bytes", "span_of"]

Array = np.ndarray[Any, Any]

# What NumPy raises where the head is none: it reads a damaged one word by word, with tokenize.
_UNREADABLE: Final = (
    *(ValueError, TypeError, SyntaxError, EOFError, RecursionError),
    *(tokenize.TokenError, MemoryError, OverflowError),
)


def span_of(dims: Dims, strides: Sequence[int]) -> tuple[int, int]:
    """Return how many elements lie before and from the first one in the memory of an array.

    Example:
        >>> span_of((3, 2), (-2, 1))
        (4, 2)
    """
    if 0 in dims:
        return 0, 0
    reach = [stride * (extent - 1) for extent, stride in zip(dims, strides, strict=True)]
    return -sum(r for r in reach if r < 0), 1 + sum(r for r in reach if r > 0)


def _stored(dtype: DType) -> np.dtype[Any]:
    """Return the dtype of an npy file for one of softcuda's, little-endian."""
    known = dtype.numpy.isbuiltin == 1
    kind = dtype.numpy if known else np.dtype(f"u{dtype.itemsize}")
    return kind.newbyteorder("<")


def array_bytes(array: Array, dtype: DType, strides: Dims) -> bytes:
    """Return the npy file of a leaf's value.

    Args:
        array: [dims], of the dtype, any strides.
        dtype: the leaf's.
        strides: those it was declared with [elements].
    """
    before, behind = span_of(array.shape, strides)
    flat = np.zeros(before + behind, dtype.numpy)
    if array.size:
        _window(flat[before:], array.shape, strides)[...] = array
    file = io.BytesIO()
    np.save(file, flat.view(_stored(dtype).newbyteorder("=")).astype(_stored(dtype)))
    return file.getvalue()


def _window(base: Array, dims: Dims, strides: Dims) -> Array:
    steps = [stride * base.itemsize for stride in strides]
    window: Array = np.lib.stride_tricks.as_strided(base, dims, steps)
    return window


def array_of_bytes(data: memoryview, dims: Dims, dtype: DType, strides: Dims) -> Array:
    """Return the value of a leaf from its npy file, in memory of its own.

    Args:
        data: the file.
        dims: the leaf's extents.
        dtype: its dtype.
        strides: the strides it gets [elements].

    Returns:
        [dims], of the dtype, with these strides.

    Raises:
        Misfit: the file is none, or not of the length and dtype that these take.
    """
    stored = _stored(dtype)
    before, behind = span_of(dims, strides)
    count = before + behind
    file = io.BytesIO(data[:4096])
    allowed = f"an npy file of {count} elements of {stored.str}"
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise Misfit("an npy file of another version", allowed)
        shape, is_fortran, found = np.lib.format.read_array_header_1_0(file)
    except _UNREADABLE as error:
        if isinstance(error, Misfit):
            raise
        raise Misfit(f"no npy file ({error!r})", allowed) from error
    body = data[file.tell() :]
    if shape != (count,) or is_fortran or found != stored or len(body) != count * dtype.itemsize:
        raise Misfit(f"{shape} of {found.str} with {len(body)} bytes", allowed)
    flat = np.frombuffer(body, stored).astype(stored.newbyteorder("=")).view(dtype.numpy)
    is_dense = is_contiguous(dims, strides)
    memory = aligned_empty((numel(dims) if is_dense else count,), dtype.numpy)
    memory[...] = flat
    return memory.reshape(dims) if is_dense else _window(memory[before:], dims, strides)
