"""Output buffers: an array is used again only once nobody else refers to it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from softcuda.graph.params import Dims
from softcuda.pool.buffers import aligned_empty, separate

__all__ = ["OutputRing", "Slot"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

_KEPT = 3


class Slot:
    """One output buffer.

    Attributes:
        memory: the array that bound calls write.
        array: the array that users get; views that they take refer to it, never to `memory`,
            so its reference count says whether it is still in use.
        bindings: step -> (generation, calls) bound to this memory.
    """

    __slots__ = ("array", "bindings", "memory")

    def __init__(self, dims: Dims, dtype: np.dtype[Any]) -> None:
        self.memory: Array = aligned_empty(dims, dtype)
        self.array: Array = separate(self.memory)
        self.bindings: dict[int, tuple[int, list[Call]]] = {}


def _references(slot: Slot) -> int:
    return sys.getrefcount(slot.array)


_IDLE = _references(Slot((1,), np.dtype(np.uint8)))
_EXACT = "t" not in getattr(sys, "abiflags", "")


class OutputRing:
    """The buffers of one output."""

    __slots__ = ("_dims", "_dtype", "_slots")

    def __init__(self, dims: Dims, dtype: np.dtype[Any]) -> None:
        self._dims = dims
        self._dtype = dtype
        self._slots: list[Slot] = []

    def take(self) -> Slot:
        """Return a slot whose array nobody refers to: a kept one, else a new one."""
        slots = self._slots
        if _EXACT:
            for slot in slots:
                if _references(slot) == _IDLE:
                    return slot
        made = Slot(self._dims, self._dtype)
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
        return sum(s.memory.nbytes for s in self._slots if _references(s) == _IDLE)
