"""Strided arrays of a device: the memory that they span, and rows of it that a copy packs."""

from __future__ import annotations

from typing import Final, NamedTuple

from softcuda.interop.blocks import span_of
from softcuda.pool.device import DeviceArray

__all__ = ["Rows", "halves", "is_loose", "rows_of", "span_bytes"]

_MAX_PITCH: Final = 1 << 31  # bytes; what the driver copies rows of
_LOOSE: Final = 2  # a copy takes the whole span of an array up to so many times its bytes


class Rows(NamedTuple):
    """An array as rows of bytes at equal distances."""

    height: int
    width_bytes: int
    pitch_bytes: int


def span_bytes(array: DeviceArray) -> tuple[int, int]:
    """Return where the memory of an array begins, from its first element on, and its bytes."""
    if not array.size:
        return 0, 0
    size = array.itemsize
    return span_of(array.shape, tuple(stride // size for stride in array.strides), size)


def is_loose(array: DeviceArray) -> bool:
    """Return whether most of the memory that an array spans is not the array's."""
    return span_bytes(array)[1] > _LOOSE * array.nbytes


def rows_of(array: DeviceArray) -> Rows | None:
    """Return an array that is larger than its elements as rows, or None where it is none."""
    levels: list[tuple[int, int]] = [(array.itemsize, 1)]  # (extent, stride) [bytes], inner first
    for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        inner_extent, inner_stride = levels[-1]
        if extent == 1:
            continue
        if stride == inner_extent * inner_stride:
            levels[-1] = (inner_extent * extent, inner_stride)
        else:
            levels.append((extent, stride))
    if len(levels) != 2 or not levels[0][0] <= levels[1][1] < _MAX_PITCH:
        return None
    return Rows(levels[1][0], levels[0][0], levels[1][1])


def halves(array: DeviceArray) -> tuple[int, int]:
    """Return the axis along which an array spans most, and half of its extent there."""
    reach = [abs(s) * (d - 1) for d, s in zip(array.shape, array.strides, strict=True)]
    axis = max(range(array.ndim), key=reach.__getitem__)
    return axis, array.shape[axis] // 2
