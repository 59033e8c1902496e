"""Handles and structs of the CUDA driver API, with their C names and C layout.

Source: CUDA Driver API, "Data types used by CUDA driver"; sizes and offsets are tested against
`cuda.bindings`.
"""

from __future__ import annotations

from ctypes import (
    Structure,
    Union,
    c_char,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
)

__all__ = [
    "CUDA_MEMCPY2D",
    "CUDA_MEMCPY3D",
    "CUDA_MEMSET_NODE_PARAMS",
    "CUDA_KERNEL_NODE_PARAMS_v2",
    "CUcontext",
    "CUdevice",
    "CUdeviceptr",
    "CUevent",
    "CUfunction",
    "CUgraph",
    "CUgraphEdgeData",
    "CUgraphExec",
    "CUgraphNode",
    "CUlaunchAttribute",
    "CUlaunchAttributeValue",
    "CUlaunchConfig",
    "CUmodule",
    "CUstream",
    "CUtensorMap",
    "CUuuid",
]

CUdevice = c_int
CUdeviceptr = c_uint64
CUcontext = c_void_p
CUmodule = c_void_p
CUfunction = c_void_p
CUstream = c_void_p
CUevent = c_void_p
CUgraph = c_void_p
CUgraphNode = c_void_p
CUgraphExec = c_void_p


class CUuuid(Structure):
    """The 16 bytes that name one device."""

    _fields_ = (("bytes", c_char * 16),)


class _ClusterDim(Structure):
    _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))


class CUlaunchAttributeValue(Union):
    """The value of a launch attribute; only the members that softcuda sets."""

    _fields_ = (
        ("pad", c_char * 64),
        ("cooperative", c_int),
        ("clusterDim", _ClusterDim),
        ("programmaticStreamSerializationAllowed", c_int),
        ("priority", c_int),
    )


class CUlaunchAttribute(Structure):
    """One launch attribute; its value begins at byte 8."""

    _fields_ = (
        ("id", c_int),
        ("pad", c_char * 4),
        ("value", CUlaunchAttributeValue),
    )


class CUlaunchConfig(Structure):
    """Grid, block, shared memory, stream and attributes of a launch."""

    _fields_ = (
        ("gridDimX", c_uint),
        ("gridDimY", c_uint),
        ("gridDimZ", c_uint),
        ("blockDimX", c_uint),
        ("blockDimY", c_uint),
        ("blockDimZ", c_uint),
        ("sharedMemBytes", c_uint),
        ("hStream", CUstream),
        ("attrs", c_void_p),  # CUlaunchAttribute *
        ("numAttrs", c_uint),
    )


class CUDA_KERNEL_NODE_PARAMS_v2(Structure):
    """A kernel node: function, launch shape, addresses of its arguments."""

    _fields_ = (
        ("func", CUfunction),
        ("gridDimX", c_uint),
        ("gridDimY", c_uint),
        ("gridDimZ", c_uint),
        ("blockDimX", c_uint),
        ("blockDimY", c_uint),
        ("blockDimZ", c_uint),
        ("sharedMemBytes", c_uint),
        ("kernelParams", c_void_p),  # void **
        ("extra", c_void_p),  # void **
        ("kern", c_void_p),
        ("ctx", CUcontext),
    )


class CUDA_MEMCPY2D(Structure):
    """A copy of rows between host and device memory."""

    _fields_ = (
        ("srcXInBytes", c_size_t),
        ("srcY", c_size_t),
        ("srcMemoryType", c_int),
        ("srcHost", c_void_p),
        ("srcDevice", CUdeviceptr),
        ("srcArray", c_void_p),
        ("srcPitch", c_size_t),
        ("dstXInBytes", c_size_t),
        ("dstY", c_size_t),
        ("dstMemoryType", c_int),
        ("dstHost", c_void_p),
        ("dstDevice", CUdeviceptr),
        ("dstArray", c_void_p),
        ("dstPitch", c_size_t),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
    )


class CUDA_MEMCPY3D(Structure):
    """A copy of planes of rows; what a copy node of a driver graph is made of."""

    _fields_ = (
        ("srcXInBytes", c_size_t),
        ("srcY", c_size_t),
        ("srcZ", c_size_t),
        ("srcLOD", c_size_t),
        ("srcMemoryType", c_int),
        ("srcHost", c_void_p),
        ("srcDevice", CUdeviceptr),
        ("srcArray", c_void_p),
        ("reserved0", c_void_p),
        ("srcPitch", c_size_t),
        ("srcHeight", c_size_t),
        ("dstXInBytes", c_size_t),
        ("dstY", c_size_t),
        ("dstZ", c_size_t),
        ("dstLOD", c_size_t),
        ("dstMemoryType", c_int),
        ("dstHost", c_void_p),
        ("dstDevice", CUdeviceptr),
        ("dstArray", c_void_p),
        ("reserved1", c_void_p),
        ("dstPitch", c_size_t),
        ("dstHeight", c_size_t),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
        ("Depth", c_size_t),
    )


class CUDA_MEMSET_NODE_PARAMS(Structure):
    """A node that fills memory with one value of 1, 2 or 4 bytes."""

    _fields_ = (
        ("dst", CUdeviceptr),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("elementSize", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class CUgraphEdgeData(Structure):
    """What a dependency between two nodes waits for."""

    _fields_ = (
        ("from_port", c_ubyte),
        ("to_port", c_ubyte),
        ("type", c_ubyte),
        ("reserved", c_ubyte * 5),
    )


class CUtensorMap(Structure):
    """An opaque tensor map; the driver wants it at a multiple of 64 bytes."""

    _fields_ = (("opaque", c_uint64 * 16),)
