"""Inlets: small inputs that a node of the driver graph copies to where the kernels read them.

An input of the host goes through a pinned slot, another one each run, so that a run need not wait
for the one before. An input on the device that several kernels read is copied too: one node is
told its new address instead of all those kernels. Larger inputs are used in place.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.driver.copies import CopyEnd
from softcuda.driver.graph import CudaGraph
from softcuda.driver.graph_nodes import CopyNode, Nodes
from softcuda.executor.staging import SLOT_BYTES, Staging

__all__ = ["INLET_BYTES", "DeviceCopy", "HostInlet", "SharedInlet"]

Array = np.ndarray[Any, Any]

INLET_BYTES: Final = SLOT_BYTES  # inputs up to this size are copied
_NOTHING: Final = np.empty(0, np.uint8)


class HostInlet:
    """A small array of the host on its way to the device.

    Args:
        staging: the pinned slots of the device.
        nbytes: its size [bytes], 1 to INLET_BYTES.
        label: what messages call it.

    Attributes:
        node: its node, once the driver graph is made.
    """

    __slots__ = ("_is_flat", "_source", "_staging", "dst", "label", "nbytes", "node")

    def __init__(self, staging: Staging, nbytes: int, label: str) -> None:
        self._staging = staging
        self._source: Array = _NOTHING  # as bytes where it is flat
        self._is_flat = True
        self.node: CopyNode | None = None
        self.nbytes = nbytes
        self.label = label
        self.dst = 0

    def point(self, source: Array, dst: int) -> None:
        """Copy from another array, to another device address, from the next run on."""
        self._is_flat = source.flags.c_contiguous
        self._source = source.reshape(-1).view(np.uint8) if self._is_flat else source
        self.dst = dst
        if self.node is not None:
            self.node.params.dstDevice = dst

    def forget(self) -> None:
        """Let go of the array; `point` names another one before the next run."""
        self._source = _NOTHING

    def add_to(self, graph: CudaGraph, after: Nodes) -> CopyNode:
        """Return its new node of a driver graph."""
        src = CopyEnd(self._staging.slot().ptr, is_host=True)
        self.node = graph.add_copy(
            CopyEnd(self.dst), src, self.nbytes, after=after, label=self.label
        )
        return self.node

    def fill(self) -> None:
        """Bring the values into a pinned slot and point the node there; a launch follows.

        The caller holds the session's lock until the launch, so that the slot stays its own.
        """
        slot = self._staging.slot()
        source, room = self._source, slot.memory[: self.nbytes]
        if not self._is_flat:
            room = room.view(source.dtype).reshape(source.shape)
        room[...] = source
        node = self.node
        if node is not None:
            node.params.srcHost = slot.ptr
            node.apply()


class SharedInlet:
    """A small device array that several kernels read: they read a copy in a place of its own.

    Args:
        dst: the address of that place.
        nbytes: its size [bytes].
        label: what messages call it.
        readers: the numbers of the steps whose kernels read that place.

    Attributes:
        node: its node, once the driver graph is made.
        src: what is copied; `value` is its address, and `node.apply()` follows where it is changed.
    """

    __slots__ = ("dst", "label", "nbytes", "node", "readers", "src")

    def __init__(self, dst: int, nbytes: int, label: str, readers: frozenset[int]) -> None:
        self.readers = readers
        self.dst = dst
        self.nbytes = nbytes
        self.label = label
        self.node: CopyNode | None = None
        self.src = _End(self, "srcDevice")

    def add_to(self, graph: CudaGraph, after: Nodes) -> CopyNode:
        """Return its new node of a driver graph."""
        self.node = graph.add_copy(
            CopyEnd(self.dst), CopyEnd(self.src.value), self.nbytes, after=after, label=self.label
        )
        return self.node


class DeviceCopy:
    """A copy on the device that is a step: a new value on its way to its variable.

    Args:
        nbytes: its size [bytes], at least 1.
        label: what messages call it.

    Attributes:
        node: its node, once the driver graph is made.
        ends: what is read, and what is written; `value` of each is its address, and
            `node.apply()` follows where it is changed.
    """

    __slots__ = ("ends", "label", "nbytes", "node")

    def __init__(self, nbytes: int, label: str) -> None:
        self.nbytes = nbytes
        self.label = label
        self.node: CopyNode | None = None
        self.ends = (_End(self, "srcDevice"), _End(self, "dstDevice"))

    def add_to(self, graph: CudaGraph, after: Nodes) -> CopyNode:
        """Return its new node of a driver graph."""
        src, dst = (CopyEnd(end.value) for end in self.ends)
        self.node = graph.add_copy(dst, src, self.nbytes, after=after, label=self.label)
        return self.node


class _End:
    """The address of one end of a copy on the device."""

    __slots__ = ("_copy", "_field", "_value")

    def __init__(self, copy: SharedInlet | DeviceCopy, field: str) -> None:
        self._copy = copy
        self._field = field
        self._value = 0

    @property
    def value(self) -> int:
        """The address."""
        return self._value

    @value.setter
    def value(self, ptr: int) -> None:
        self._value = ptr
        if self._copy.node is not None:
            setattr(self._copy.node.params, self._field, ptr)
