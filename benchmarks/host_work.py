"""What a case needs of the host, shared out to threads: random inputs, copies, references.

NumPy's loops leave the interpreter's lock, so threads of Python do them side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from softcuda.knobs import thread_count
from softcuda.pool.buffers import aligned_empty

__all__ = ["by_kept_axis", "by_rows", "dense", "in_threads", "random_array", "slices"]

Array = np.ndarray[Any, Any]
Item = TypeVar("Item")
Made = TypeVar("Made")

_DRAWN = 1 << 20  # numbers of one generator
_PARTS = 64  # of a copy: some for each thread
_BLOCK = 1 << 17  # elements of a reference at a time: f64 that stays in a cache
_SMALL = 1 << 16  # elements from which on threads are worth their start


def slices(count: int, length: int) -> list[slice]:
    """Return the parts of `count` elements, of `length` each but the last.

    Example:
        >>> slices(5, 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + length, count)) for start in range(0, count, length)]


def in_threads(work: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """Return what `work` makes of each item, in their order; by one thread where there is one."""
    held = list(items)
    threads = min(thread_count(), len(held))
    if threads <= 1:
        return [work(item) for item in held]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, held))


def random_array(seed: int, *shape: int, low: float = -1.0) -> Array:
    """Return random numbers from `low` to 1 [shape], f32; the same for any number of threads."""
    made = aligned_empty(shape, np.dtype(np.float32))
    flat = made.reshape(-1)

    def draw(part: slice) -> None:
        block = flat[part]
        np.random.default_rng((seed, part.start)).random(out=block, dtype=np.float32)
        block *= np.float32(1.0 - low)
        block += np.float32(low)

    in_threads(draw, slices(flat.size, _DRAWN))
    return made


def dense(view: Array) -> Array:
    """Return a row-major copy of an array of any strides."""
    made = aligned_empty(view.shape, view.dtype)
    if view.size < _SMALL:
        made[...] = view
        return made
    axis = int(np.argmax(view.shape))

    def copy(part: slice) -> None:
        place = (slice(None),) * axis + (part,)
        made[place] = view[place]

    in_threads(copy, slices(view.shape[axis], -(-view.shape[axis] // _PARTS)))
    return made


def by_rows(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return a function's value in f64, worked out for some rows at a time.

    Args:
        function: rows of every array, in f64 -> the rows of the result that belong to them.
        arrays: [rows, ...] each, any dtype.
    """
    rows = len(arrays[0])

    def some(part: slice) -> Array:
        return function(*(array[part].astype(np.float64) for array in arrays))

    parts = slices(rows, max(_BLOCK * rows // max(array.size for array in arrays), 1))
    first = some(parts[0])
    made = aligned_empty((rows, *first.shape[1:]), np.dtype(np.float64))
    made[parts[0]] = first

    def fill(part: slice) -> None:
        made[part] = some(part)

    in_threads(fill, parts[1:])
    return made


def by_kept_axis(function: Callable[[Array], Array], array: Array, axes: tuple[int, ...]) -> Array:
    """Return a function's value, worked out for some places of an axis at a time.

    Args:
        function: array -> what it makes of its values along `axes`, by themselves: with the other
            axes of the array in their order, those of `axes` gone or as they were.
        array: any shape.
        axes: 0 or more; where they are all of them, the function sees the whole array.
    """
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    if not kept:
        return function(array)
    before = (slice(None),) * kept[0]
    extent = array.shape[kept[0]]
    found = in_threads(
        lambda part: function(array[(*before, part)]), slices(extent, -(-extent // _PARTS))
    )
    return np.concatenate(found, axis=kept[0] if found[0].ndim == array.ndim else 0)
