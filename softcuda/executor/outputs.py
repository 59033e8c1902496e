"""Output buffers: an array is used again only once nobody else refers to it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from softcuda.graph.params import Dims
from softcuda.pool.buffers import aligned_empty, separate

__all__ = ["OutputRing", "Slot", "host_slot"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

_KEPT = 3


class Slot:
    """One output buffer.

    Attributes:
        memory: what bound calls write: an array, or the owner of device memory.
        array: the array that users get; views that they take refer to it, never to `memory`,
            so its reference count says whether it is still in use.
        nbytes: its size.
        is_on_device: whether it is device memory; `array` may then know a copy on the host.
        bindings: step -> (generation, calls) bound to this memory.
    """

    __slots__ = ("array", "bindings", "is_on_device", "memory", "nbytes")

    def __init__(self, memory: Any, array: Any, nbytes: int) -> None:
        self.memory = memory
        self.array = array
        self.nbytes = nbytes
        self.is_on_device = not isinstance(array, np.ndarray)
        self.bindings: dict[int, tuple[int, list[Call]]] = {}


def host_slot(dims: Dims, dtype: np.dtype[Any]) -> Slot:
    """Return a fresh output buffer on the host."""
    memory = aligned_empty(dims, dtype)
    return Slot(memory, separate(memory), memory.nbytes)


def _references(slot: Slot) -> int:
    return getrefcount(slot.array)


_IDLE = _references(host_slot((1,), np.dtype(np.uint8)))
_EXACT = "t" not in getattr(sys, "abiflags", "")


class OutputRing:
    """The buffers of one output."""

    __slots__ = ("_dims", "_dtype", "_make", "_slots")

    def __init__(
        self, dims: Dims, dtype: np.dtype[Any], make: Callable[[Dims, np.dtype[Any]], Slot]
    ) -> None:
        self._dims = dims
        self._dtype = dtype
        self._make = make
        self._slots: list[Slot] = []

    def take(self) -> Slot:
        """Return a slot whose array nobody refers to: a kept one, else a new one."""
        slots = self._slots
        if _EXACT:
            for slot in slots:
                if getrefcount(slot.array) == _IDLE:
                    if not slot.is_on_device:
                        return slot
                    if not slot.array.is_exported:
                        slot.array.fetched = None
                        return slot
                    # Another library let go of it and may still read it in a stream of its own.
                    # Giving the memory back waits for the device; writing it would not.
                    slots.remove(slot)
                    break
        made = self._make(self._dims, self._dtype)
        if len(slots) >= _KEPT:
            slots.pop(0)
        slots.append(made)
        return made

    def forget_bindings(self) -> None:
        """Drop every call that was bound to a buffer of this ring."""
        for slot in self._slots:
            slot.bindings.clear()

    def release(self) -> None:
        """Forget every buffer; those that users hold stay theirs."""
        self._slots.clear()

    @property
    def held_bytes(self) -> int:
        """Bytes of the buffers that only this ring holds."""
        return sum(s.nbytes for s in self._slots if _references(s) == _IDLE)
