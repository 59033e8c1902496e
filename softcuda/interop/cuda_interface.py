"""The CUDA array interface, read and written.

Source: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3.
"""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.errors import ArgumentTypeError, DTypeError, ExchangeError, SoftCudaError
from softcuda.interop.blocks import FOREIGN_ERRORS, Block, checked_layout
from softcuda.interop.structs import DeviceType

__all__ = ["Described", "described", "interface_of"]

_LEGACY_STREAM: Final = 1
_LARGEST: Final = (1 << 64) - 1  # of an address, and of a handle
_TELLS_STREAM: Final = 3  # the version from which on the interface names a stream


class Described(NamedTuple):
    """What an interface says: the array, and the stream to wait for; None for none."""

    block: Block
    stream: int | None


def described(what: str, value: Any) -> Described:
    """Return the array that an object describes by `__cuda_array_interface__`.

    The block's owner is the object; its `ordinal` is -1, since the interface names no device.
    Before version 3 no stream is named, and the legacy default stream is the one to wait for.

    Args:
        what: who asks, first word of the errors.
        value: the object.

    Raises:
        ArgumentTypeError: a field is missing or malformed.
        ExchangeError: the array has a mask, its strides divide elements, or a number is none of
            an address, a version or a stream.
        DTypeError: no dtype has its elements.
        ShapeError: a negative extent, or more than 64 axes.
    """
    try:
        fields = value.__cuda_array_interface__
        dims = tuple(map(operator.index, fields["shape"]))
        ptr, read_only = fields["data"]
        ptr = operator.index(ptr or 0)
        dtype = _dtype_of(fields["typestr"])
        version = operator.index(fields["version"])
        strides_bytes = fields.get("strides")
        if strides_bytes is not None:
            strides_bytes = tuple(map(operator.index, strides_bytes))
        stream = fields.get("stream")
        stream = None if stream is None else operator.index(stream)
    except SoftCudaError:
        raise
    except FOREIGN_ERRORS as error:
        raise ArgumentTypeError(
            f"{what}: the __cuda_array_interface__ of the {type(value).__name__} cannot be read "
            f"({type(error).__name__}: {error}); allowed is a dict with shape, typestr, data and "
            "version, and whole numbers in it"
        ) from error
    for name, number in (("data", ptr), ("version", version), ("stream", stream or 0)):
        if not 0 <= number <= _LARGEST:
            raise ExchangeError(
                f"{what}: the __cuda_array_interface__ of the {type(value).__name__} has {number} "
                f"as its {name}; allowed is 0 to {_LARGEST}"
            )
    if fields.get("mask") is not None:
        raise ExchangeError(
            f"{what}: the {type(value).__name__} of shape {list(dims)} has a mask, which would be "
            "lost; allowed are arrays without one; fill it first"
        )
    if dtype.kind not in "biufc" or not dtype.isnative:
        raise DTypeError(
            f"{what}: a CUDA array of typestr {fields['typestr']!r} cannot be a tensor; allowed "
            "are bool, integers, floats and complex numbers of native byte order; bfloat16 goes by "
            "DLPack"
        )
    strides = None if strides_bytes is None else _in_elements(what, strides_bytes, dtype)
    dims, strides = checked_layout(what, dims, strides)
    block = Block(ptr, dims, strides, dtype, DeviceType.CUDA, -1, bool(read_only), value)
    return Described(block, _stream(what, stream, version))


def _dtype_of(typestr: object) -> np.dtype[Any]:
    if not isinstance(typestr, str):
        raise TypeError(f"the typestr is {typestr!r}, no text")
    return np.dtype(typestr)


def _in_elements(
    what: str, strides_bytes: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[int, ...]:
    if any(stride % dtype.itemsize for stride in strides_bytes):
        raise ExchangeError(
            f"{what}: strides of {list(strides_bytes)} bytes divide elements of {dtype.itemsize} "
            "bytes; allowed are multiples; copy the array first"
        )
    return tuple(stride // dtype.itemsize for stride in strides_bytes)


def _stream(what: str, stream: int | None, version: int) -> int | None:
    if version < _TELLS_STREAM:
        return _LEGACY_STREAM
    if stream == 0:
        raise ExchangeError(
            f"{what}: the __cuda_array_interface__ names stream 0, which is ambiguous; allowed are "
            "1 (the legacy default stream), 2 (the thread's own) and handles"
        )
    return stream


def interface_of(block: Block, stream: int) -> dict[str, Any]:
    """Return the interface of a block, to be waited for on a stream.

    It never says read-only: PyTorch refuses what does.

    Raises:
        AttributeError: bfloat16 elements, which the interface cannot name.
    """
    dtype = block.dtype
    if dtype.kind not in "biufc":
        raise AttributeError(
            f"__cuda_array_interface__ cannot name elements of {dtype}; use DLPack, or cast first"
        )
    return {
        "version": 3,
        "shape": block.dims,
        "typestr": dtype.str,
        "data": (block.ptr, False),
        "strides": tuple(stride * dtype.itemsize for stride in block.strides),
        "stream": stream,
    }
