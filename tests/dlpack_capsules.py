"""DLPack producers made by hand: capsules of any content that count the calls of their deleter."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, PYFUNCTYPE, addressof, c_char_p, c_int64, c_void_p, py_object
from typing import Any

import numpy as np

from softcuda.interop.structs import (
    UNVERSIONED,
    VERSIONED,
    DeviceType,
    DLManagedTensor,
    DLManagedTensorVersioned,
)

DELETER = CFUNCTYPE(None, c_void_p)
new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
address_in = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
name_of = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", ctypes.pythonapi))

LENT: set[Producer] = set()  # those whose capsules may still be used
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class Producer:
    """An object with DLPack whose capsule says what a test wants.

    Attributes:
        deleted: how often the deleter was called.
        holder: what lives as long as the capsule is used.
        streams: the stream of each request.
    """

    def __init__(
        self,
        array: Any,
        *,
        versioned: bool = True,
        device: tuple[int, int] = (DeviceType.CPU, 0),
        dims: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        byte_offset: int = 0,
        flags: int = 0,
        version: tuple[int, int] = (1, 0),
        type_code: tuple[int, int, int] | None = None,
        ptr: int | None = None,
    ) -> None:
        self.deleted = 0
        self.holder: Any = None
        self.streams: list[Any] = []
        self.array = array
        self.device = device
        self.versioned = versioned
        self.managed: Any = DLManagedTensorVersioned() if versioned else DLManagedTensor()
        dims = array.shape if dims is None else dims
        tensor = self.managed.dl_tensor
        tensor.data = array.ctypes.data if ptr is None else ptr
        tensor.device.device_type, tensor.device.device_id = device
        tensor.ndim = len(dims)
        code = type_code or (CODES[array.dtype.kind], 8 * array.itemsize, 1)
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = code
        self.dims = (c_int64 * len(dims))(*dims)
        tensor.shape = self.dims if dims else None
        if strides is not None:
            self.strides = (c_int64 * len(strides))(*strides)
            tensor.strides = self.strides
        tensor.byte_offset = byte_offset
        self.deleter = DELETER(self.delete)
        self.managed.deleter = ctypes.cast(self.deleter, c_void_p).value
        if versioned:
            self.managed.version_major, self.managed.version_minor = version
            self.managed.flags = flags
        name = VERSIONED if versioned else UNVERSIONED
        self.capsule = new_capsule(addressof(self.managed), name, None)

    def delete(self, address: int) -> None:
        assert address == addressof(self.managed)
        self.deleted += 1
        LENT.discard(self)

    @property
    def name(self) -> bytes:
        """The name that the capsule has now."""
        return bytes(name_of(self.capsule))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if not self.versioned and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        LENT.add(self)
        return self.capsule


def counting(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return 0, 1, 2, ... as f32."""
    return np.arange(count, dtype=np.float32)
