"""DLPack's structs, numbers and names, as the header dlpack.h 1.1 has them.

Source: https://dmlc.github.io/dlpack/latest/c_api.html.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from enum import IntEnum
from typing import Final

import ml_dtypes
import numpy as np

__all__ = [
    "IS_COPIED",
    "NUMPY_OF_CODE",
    "READ_ONLY",
    "UNVERSIONED",
    "UNVERSIONED_USED",
    "VERSION",
    "VERSIONED",
    "VERSIONED_USED",
    "DLDataType",
    "DLDevice",
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "DLTensor",
    "DeviceType",
    "TypeCode",
]

VERSION: Final = (
    1,
    1,
)  # the newest that capsules are read in; a higher minor number reads the same

# Names of capsules, before and after a consumer takes what is in them.
UNVERSIONED: Final = b"dltensor"
UNVERSIONED_USED: Final = b"used_dltensor"
VERSIONED: Final = b"dltensor_versioned"
VERSIONED_USED: Final = b"used_dltensor_versioned"

# Flags of a versioned capsule.
READ_ONLY: Final = 1
IS_COPIED: Final = 2


class DeviceType(IntEnum):
    """DLDeviceType: the kinds of memory that arrays are taken from."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    CUDA_MANAGED = 13


class TypeCode(IntEnum):
    """DLDataTypeCode: the kinds of elements that tensors have."""

    INT = 0
    UINT = 1
    FLOAT = 2
    BFLOAT = 4
    COMPLEX = 5
    BOOL = 6


# (code, bits) -> NumPy's dtype
NUMPY_OF_CODE: Final[dict[tuple[int, int], np.dtype[np.generic]]] = {
    **{(TypeCode.INT, 8 * n): np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{(TypeCode.UINT, 8 * n): np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{(TypeCode.FLOAT, 8 * n): np.dtype(f"f{n}") for n in (2, 4, 8)},
    **{(TypeCode.COMPLEX, 8 * n): np.dtype(f"c{n}") for n in (8, 16)},
    (TypeCode.BFLOAT, 16): np.dtype(ml_dtypes.bfloat16),
    (TypeCode.BOOL, 8): np.dtype(np.bool_),
}


class DLDevice(Structure):
    """A kind of memory and the number of the device."""

    _fields_ = (("device_type", c_int32), ("device_id", c_int32))


class DLDataType(Structure):
    """The type of an element."""

    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class DLTensor(Structure):
    """An array; `strides` [elements] may be NULL, which says row-major."""

    _fields_ = (
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class DLManagedTensor(Structure):
    """An array with its deleter, of DLPack before version 1."""

    _fields_ = (
        ("dl_tensor", DLTensor),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
    )


class DLManagedTensorVersioned(Structure):
    """An array with its deleter, its version and flags."""

    _fields_ = (
        ("version_major", c_uint32),
        ("version_minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    )
