"""Leaves whose arrays lie on a device with any strides: real ones, and ones to plan with.

A leaf of the host is made dense on its way to the device; these keep their strides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from softcuda.driver.copies import copy_to_device
from softcuda.driver.memory import DeviceMemory
from softcuda.executor.on_demand import session
from softcuda.graph.node import Node
from softcuda.graph.op import Kind
from softcuda.pool.device import DeviceArray
from softcuda.tools.workloads_base import Workload

Array = np.ndarray[Any, Any]
Place = Callable[[Array], Node]
N = TypeVar("N", bound=Node)

NOWHERE = 1 << 44  # an address to plan with


class Span(NamedTuple):
    """The bytes that an array's elements lie in, relative to its first one."""

    low: int
    nbytes: int


def span_of(array: Array) -> Span:
    """Return where the elements of an array lie; it has at least one."""
    reach = [s * (d - 1) for d, s in zip(array.shape, array.strides, strict=True)]
    return Span(sum(r for r in reach if r < 0), sum(map(abs, reach)) + array.itemsize)


def planned_leaf(array: Array) -> Node:
    """Return a leaf on a device that is not there: programs can be compiled, not run."""
    return planned(Node, array.shape, array.strides, array.dtype)


def planned(cls: type[N], dims: Any, strides: Any, dtype: np.dtype[Any]) -> N:
    """Return a leaf of any size on a device that is not there; strides in bytes."""

    def fetch(lost: DeviceArray) -> NoReturn:
        raise AssertionError(f"{lost!r} was fetched from a device that is not there")

    return cls.leaf(DeviceArray(NOWHERE, dims, strides, dtype, 0, None, fetch))


def device_array(array: Array) -> DeviceArray:
    """Return a copy of an array on the device, with its strides."""
    on = session()
    memory, ptr = DeviceMemory(on.context, 0), NOWHERE
    if array.size:
        low, nbytes = span_of(array)
        memory = DeviceMemory(on.context, nbytes)
        copy_to_device(on.context, memory.ptr, array.ctypes.data + low, nbytes)
        on.context.synchronize()  # the copy is in the legacy stream, the session's in its own
        ptr = memory.ptr - low
    return DeviceArray(ptr, array.shape, array.strides, array.dtype, on.ordinal, memory, on.fetch)


def device_leaf(array: Array) -> Node:
    """Return a leaf with the same values and strides on the device."""
    return Node.leaf(device_array(array))


def node_of(work: Workload, place: Place) -> Node:
    """Return the node of a workload over leaves that `place` makes.

    The state of a random op is a variable of the host, which runs change.
    """
    if work.op.kind is Kind.RANDOM:
        return work.node(Node)
    return work.build(Node, tuple(place(array) for array in work.arrays))
