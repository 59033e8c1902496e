"""Blocks: arrays of other libraries, whatever protocol described them, and host arrays of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.errors import DTypeError, ExchangeError, ShapeError
from softcuda.graph.params import Dims
from softcuda.graph.shapes import check_dims, contiguous_strides, numel
from softcuda.interop.structs import DeviceType
from softcuda.interrupts import Uninterrupted

__all__ = ["FOREIGN_ERRORS", "Block", "Held", "array_at", "checked_layout", "host_array", "span_of"]

Array = np.ndarray[Any, Any]

_SPAN: Final = 1 << 60  # elements

# What the code of another library may raise where it is asked for an array.
FOREIGN_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Block(NamedTuple):
    """An array somewhere in memory.

    Attributes:
        ptr: address of the first logical element; 0 where there is none.
        dims: extents.
        strides: in elements; where the extent is at most 1 they are row-major.
        dtype: NumPy dtype.
        device: the kind of memory.
        ordinal: the device.
        is_read_only: whether its owner forbids writing.
        owner: what keeps the memory alive.
    """

    ptr: int
    dims: Dims
    strides: Dims
    dtype: np.dtype[Any]
    device: DeviceType
    ordinal: int
    is_read_only: bool
    owner: object


def checked_layout(what: str, dims: Dims, strides: Dims | None) -> tuple[Dims, Dims]:
    """Return extents and strides [elements]; strides of extents up to 1 become row-major.

    Args:
        what: who asks, first word of the errors.
        dims: extents.
        strides: in elements; None for row-major.

    Raises:
        ShapeError: a negative extent, more than 64 axes, or not as many strides as extents.
        ExchangeError: strides that no memory spans, such as negative ones taken for unsigned.
    """
    dims = check_dims(what, dims)
    row_major = contiguous_strides(dims)
    if strides is None or not numel(dims):
        return dims, row_major
    if len(strides) != len(dims):
        raise ShapeError(
            f"{what}: {len(strides)} strides were given for {len(dims)} extents; allowed are as "
            "many, or none for row-major order"
        )
    if any(abs(s) * (d - 1) >= _SPAN for d, s in zip(dims, strides, strict=True)):
        raise ExchangeError(
            f"{what}: no memory spans {list(dims)} elements with strides {list(strides)}; allowed "
            "are strides within the array's memory; copy the array first"
        )
    layout = zip(dims, strides, row_major, strict=True)
    return dims, tuple(dense if extent <= 1 else given for extent, given, dense in layout)


def span_of(dims: Dims, strides: Dims, itemsize: int) -> tuple[int, int]:
    """Return where the memory of an array begins, from its first element on, and its bytes.

    Args:
        dims: extents, each at least 1.
        strides: in elements.
        itemsize: of an element [bytes].

    Example:
        >>> span_of((3, 2), (-2, 1), 4)
        (-16, 24)
    """
    reach = [stride * (extent - 1) for extent, stride in zip(dims, strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    return low * itemsize, (sum(map(abs, reach)) + 1) * itemsize


class Held:
    """Holds what another library lent, and gives it back when nobody holds this any more.

    Args:
        settle: called before it is given back, once: waits for whoever may still use it.
        give_back: called then, once, with `argument`, which is kept alive until then.
        argument: what `give_back` takes.
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        settle: Callable[[], object],
        give_back: Callable[[Any], object],
        argument: object,
    ) -> None:
        weakref.finalize(self, _give_back, settle, give_back, argument).atexit = False


def _give_back(
    settle: Callable[[], object], give_back: Callable[[Any], object], argument: object
) -> None:
    with Uninterrupted(is_finalizer=True):
        try:
            settle()
        finally:
            give_back(argument)


class _Memory:
    """An address for NumPy to make an array of; keeps the owner of the memory alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def array_at(block: Block) -> Array:
    """Return a block as an array of unsigned integers, or complex numbers, of the same size.

    It is never read or written here: the memory need not be the host's.
    """
    size = block.dtype.itemsize
    stands_in = block.dtype if block.dtype.kind == "c" else np.dtype(f"u{size}")
    interface = {
        "version": 3,
        "shape": block.dims,
        "typestr": stands_in.str,
        "data": (block.ptr, block.is_read_only),
        "strides": tuple(stride * size for stride in block.strides),
    }
    return np.asarray(_Memory(block.owner, interface))


def host_array(block: Block) -> Array:
    """Return a block of host memory as an array that shares it, read-only where the block is.

    Raises:
        DTypeError: NumPy cannot view elements of this dtype.
        ExchangeError: there are elements and the address is 0.
    """
    if block.device not in (DeviceType.CPU, DeviceType.CUDA_HOST):
        raise ExchangeError(f"a block of {block.device.name} memory is no host memory")
    if not numel(block.dims):
        return np.empty(block.dims, block.dtype)
    if not block.ptr:
        raise ExchangeError(
            f"an array of shape {list(block.dims)} was given with address 0; allowed is that of "
            "its first element"
        )
    try:
        return array_at(block).view(block.dtype)
    except TypeError as error:
        raise DTypeError(
            f"an array of {block.dtype} cannot be viewed on the host: {error}"
        ) from None
