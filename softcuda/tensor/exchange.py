"""The protocols by which other libraries take a tensor's memory, and a variable's assignment."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.errors import ArgumentTypeError, DTypeError, ExchangeError, ShapeError
from softcuda.executor.on_demand import cuda_interface, device_capsule, duplicate, write_array
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.node import Node, on_host
from softcuda.graph.op import OPS
from softcuda.graph.shapes import contiguous_strides
from softcuda.interop.blocks import Block
from softcuda.interop.capsules import encapsulated, is_versioned
from softcuda.interop.structs import DeviceType
from softcuda.pool.buffers import dense_copy
from softcuda.tensor.values import array_of, device_array_of, is_number

__all__ = ["Exchange", "assign_value", "value_now"]

Array = np.ndarray[Any, Any]

_VARIABLE: Final = OPS["variable"]
_HOST_DEVICE: Final = (int(DeviceType.CPU), 0)


class Exchange(Node):
    """A node that other libraries read without a copy: DLPack and the CUDA array interface."""

    __slots__ = ()

    def evaluate(self) -> Any:
        """Compute the value, unless it is there.

        Raises:
            NotImplementedError: the class of tensors gives no method.
        """
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's number of the kind of memory, and the device; evaluates."""
        data = self.evaluate().data
        return _HOST_DEVICE if isinstance(data, np.ndarray) else (DeviceType.CUDA, data.ordinal)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of the value, which it shares; evaluates.

        A capsule of DLPack 1 says that the memory is read-only, unless this is a variable; in
        one before version 1 nothing can, and the memory must not be written all the same.

        Args:
            stream: for CUDA memory the stream that will read it, made to wait for the value:
                None or 1 for the legacy default stream, 2 for the thread's own, a handle, or -1
                for no waiting. For host memory None.
            max_version: the newest version of DLPack that the consumer takes; None for one
                before 1.
            dl_device: where the memory is wanted; None for where it is. A value on a device can
                also be had on the host, copied there.
            copy: True for memory of the consumer's own; False makes a needed copy an error.

        Raises:
            ExchangeError: another device, a needed copy that is forbidden, or a wrong stream.
            FeedError: the tensor depends on an input, which has no value of its own.
        """
        data = self.evaluate().data
        here = self.__dlpack_device__()
        there = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        copied = bool(copy)
        if there != here:
            if there != _HOST_DEVICE or copy is False:
                why = "copy=False forbids the copy" if copy is False else "it cannot go there"
                raise ExchangeError(
                    f"__dlpack__: the tensor is on device {here} of DLPack, {there} was asked and "
                    f"{why}; allowed is its own device, or the host with a copy; use .to first"
                )
            data, copied = on_host(data), True
        versioned = is_versioned(max_version)
        read_only = self.op is not _VARIABLE and not copied
        if isinstance(data, np.ndarray):
            if stream not in (None, -1) and here == _HOST_DEVICE:
                raise ExchangeError(
                    f"__dlpack__: the stream is {stream!r} and the tensor in host memory; allowed "
                    "is None there"
                )
            return _host_capsule(dense_copy(data) if copy else data, versioned, read_only, copied)
        data = duplicate(data) if copy else data
        return device_capsule(data, stream, versioned=versioned, read_only=read_only, copied=copied)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The value in CUDA memory, which it shares; evaluates.

        Raises:
            AttributeError: the value is on the host, or bfloat16.
        """
        data = self.evaluate().data
        if isinstance(data, np.ndarray):
            raise AttributeError(
                "__cuda_array_interface__: the tensor is in host memory; use .to('cuda') first"
            )
        return cuda_interface(data)


def _host_capsule(array: Array, versioned: bool, read_only: bool, copied: bool) -> object:
    size = array.itemsize
    row_major = contiguous_strides(array.shape)
    strides = tuple(
        dense if extent <= 1 or not array.size else stride // size
        for extent, stride, dense in zip(array.shape, array.strides, row_major, strict=True)
    )
    forbidden = not array.flags.writeable or (read_only and versioned)
    ptr, kind = array.ctypes.data, DeviceType.CPU
    block = Block(ptr, array.shape, strides, array.dtype, kind, 0, forbidden, array)
    return encapsulated(block, versioned=versioned, copied=copied)


def value_now(variable: Node) -> Array:
    """Return a copy of the value of a variable on the host, not of one that is being written."""
    with VARIABLE_LOCKS.held([variable.data]):
        data = on_host(variable.data)
        return dense_copy(data) if data is variable.data else data


def assign_value(variable: Node, value: Any) -> None:
    """Write a value into a variable's buffer, on its device.

    Raises:
        ArgumentTypeError: the node is no variable.
        ShapeError: the value has another shape.
        DTypeError: the value has another dtype.
    """
    if variable.op is not _VARIABLE:
        raise ArgumentTypeError(
            f"assign: this tensor was made by {variable.op.name} and never changes; allowed are "
            "variables, made by softcuda.variable"
        )
    plain = is_number(value) or isinstance(value, (list, tuple, range))
    if isinstance(value, Exchange):
        given = value.evaluate().data
    else:
        given = device_array_of("assign", value)
        given = array_of("assign", value) if given is None else given
    name = variable.name or ""
    if given.shape != variable.dims:
        raise ShapeError(
            f"assign: the value has shape {list(given.shape)} and the variable {name} "
            f"{list(variable.dims)}; both must be equal; broadcast it first"
        )
    if given.dtype != variable.dtype.numpy:
        own = type(variable).leaf(given).dtype
        if not plain or own.kind > variable.dtype.kind:
            raise DTypeError(
                f"assign: the value has dtype {own} and the variable {name} {variable.dtype}; both "
                "must be equal; use astype first"
            )
        given = array_of("assign", value, variable.dtype)
    with VARIABLE_LOCKS.held([variable.data]):
        if isinstance(variable.data, np.ndarray):
            np.copyto(variable.data, on_host(given))
        else:
            write_array(variable.data, given)
