"""Device memory and pinned host memory: raw blocks for bump pools, and arrays on the device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from softcuda.driver.context import Context
from softcuda.driver.memory import DeviceMemory
from softcuda.forks import renew_in_child
from softcuda.graph.params import Dims
from softcuda.graph.shapes import is_contiguous, numel
from softcuda.pool.blocks import BLOCK_BYTES, RawBlock
from softcuda.pool.bump import BumpPool

__all__ = ["DeviceArray", "DeviceBlocks", "DevicePool", "Layout", "layout_of"]

Array = np.ndarray[Any, Any]


class Layout:
    """Stands for a shape, strides and a dtype; compared and hashed by identity."""

    __slots__ = ("__weakref__",)


class _Layouts:
    """The layouts that arrays have, or keys of caches hold."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[Any, ...], Layout] = WeakValueDictionary()
        self._lock = threading.RLock()  # a signal handler may make an array too
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.RLock()

    def of(self, shape: Dims, strides: Dims, dtype: np.dtype[Any]) -> Layout:
        """Return a layout: the same object for equal arguments, as long as anything has it."""
        key = (shape, strides, dtype)
        found = self._known.get(key)
        if found is None:
            with self._lock:
                found = self._known.get(key)
                if found is None:
                    found = self._known[key] = Layout()
        return found


layout_of: Final = _Layouts().of


class DeviceBlocks:
    """A block source of device memory; a window is the owner of the block's memory."""

    __slots__ = ("_context", "name")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.name = f"device {context.device.ordinal}"

    def allocate(self, nbytes: int) -> RawBlock[DeviceMemory]:
        """Return a block of `nbytes` bytes.

        Raises:
            DeviceOutOfMemory: the device has not that much.
        """
        memory = DeviceMemory(self._context, nbytes)
        return RawBlock(memory.ptr, nbytes, memory)

    def free(self, block: RawBlock[DeviceMemory]) -> None:
        """Give a block back."""
        block.memory.close()

    def window(self, block: RawBlock[DeviceMemory], offset: int, nbytes: int) -> DeviceMemory:
        """Return the owner of the block; the allocation's address says where the window is."""
        return block.memory


class DevicePool(BumpPool[DeviceMemory]):
    """A bump pool of device memory."""

    __slots__ = ()

    def __init__(
        self, context: Context, block_size: int = BLOCK_BYTES, limit_bytes: int | None = None
    ) -> None:
        """Make an empty pool on the device of a context."""
        super().__init__(DeviceBlocks(context), block_size, limit_bytes)


class DeviceArray:
    """An array in device memory; what a tensor's `data` is when a device owns it.

    Attributes:
        ptr: address of the first logical element.
        shape: extents.
        strides: in bytes, as NumPy counts them.
        dtype: NumPy dtype.
        layout: stands for its shape, strides and dtype.
        ordinal: the device.
        owner: what keeps the memory alive.
        is_volatile: whether its values change: a variable's, or memory shared with another
            library; `host` then fetches them anew each time.
        is_exported: whether another library was given its address, and may still use the memory
            in a stream of its own when it lets go of it.
        fetched: the copy on the host that `host` made; forgotten where the memory is written again.
    """

    __slots__ = (
        "__weakref__",
        "_fetch",
        "dtype",
        "fetched",
        "is_exported",
        "is_volatile",
        "layout",
        "ordinal",
        "owner",
        "ptr",
        "shape",
        "strides",
    )

    def __init__(
        self,
        ptr: int,
        shape: Dims,
        strides: Dims,
        dtype: np.dtype[Any],
        ordinal: int,
        owner: object,
        fetch: Callable[[DeviceArray], Array],
        *,
        is_volatile: bool = False,
    ) -> None:
        self.ptr = ptr
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.layout = layout_of(shape, strides, dtype)
        self.ordinal = ordinal
        self.owner = owner
        self.is_volatile = is_volatile
        self.is_exported = False
        self._fetch = fetch
        self.fetched: Array | None = None

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return numel(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, stored densely."""
        return self.size * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether it is row-major without gaps."""
        size = self.itemsize
        return is_contiguous(self.shape, tuple(s // size for s in self.strides))

    def host(self) -> Array:
        """Return the values on the host; waits for the device.

        They are copied there once, unless the array is volatile.

        Raises:
            DeviceLost: the device failed before.
            IndexOutOfRange, IntegerPowerError: a kernel of the run that made it met a bad value.
        """
        if self.is_volatile:
            return self._fetch(self)
        if self.fetched is None:
            self.fetched = self._fetch(self)
        return self.fetched

    def __repr__(self) -> str:
        return (
            f"DeviceArray({list(self.shape)} {self.dtype} on device {self.ordinal} at "
            f"{self.ptr:#x})"
        )
