"""Enumerations of the CUDA driver API, with their C names: the members that softcuda uses.

Source: CUDA Driver API, "Data types used by CUDA driver"; every value is tested against
`cuda.bindings`. A member is named as in C without the prefix that all members share.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "CUdevice_attribute",
    "CUevent_flags",
    "CUfunction_attribute",
    "CUgraphDependencyType",
    "CUgraphKernelNodePort",
    "CUjit_option",
    "CUlaunchAttributeID",
    "CUmemorytype",
    "CUpointer_attribute",
    "CUstreamCaptureMode",
    "CUstream_flags",
    "CUtensorMapDataType",
    "CUtensorMapFloatOOBfill",
    "CUtensorMapInterleave",
    "CUtensorMapL2promotion",
    "CUtensorMapSwizzle",
]


class CUdevice_attribute(IntEnum):
    """CU_DEVICE_ATTRIBUTE_*: what cuDeviceGetAttribute tells."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    TOTAL_CONSTANT_MEMORY = 9
    WARP_SIZE = 10
    MAX_PITCH = 11
    MAX_REGISTERS_PER_BLOCK = 12
    CLOCK_RATE = 13
    MULTIPROCESSOR_COUNT = 16
    KERNEL_EXEC_TIMEOUT = 17
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    COMPUTE_MODE = 20
    CONCURRENT_KERNELS = 31
    ECC_ENABLED = 32
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    ASYNC_ENGINE_COUNT = 40
    UNIFIED_ADDRESSING = 41
    PCI_DOMAIN_ID = 50
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    STREAM_PRIORITIES_SUPPORTED = 78
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    PAGEABLE_MEMORY_ACCESS = 88
    COOPERATIVE_LAUNCH = 95
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    MAX_PERSISTING_L2_CACHE_SIZE = 108
    RESERVED_SHARED_MEMORY_PER_BLOCK = 111
    MEMORY_POOLS_SUPPORTED = 115
    CLUSTER_LAUNCH = 120
    TENSOR_MAP_ACCESS_SUPPORTED = 127


class CUfunction_attribute(IntEnum):
    """CU_FUNC_ATTRIBUTE_*: what cuFuncGetAttribute tells and cuFuncSetAttribute sets."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    CONST_SIZE_BYTES = 2
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    PTX_VERSION = 5
    BINARY_VERSION = 6
    CACHE_MODE_CA = 7
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    PREFERRED_SHARED_MEMORY_CARVEOUT = 9
    CLUSTER_SIZE_MUST_BE_SET = 10
    REQUIRED_CLUSTER_WIDTH = 11
    REQUIRED_CLUSTER_HEIGHT = 12
    REQUIRED_CLUSTER_DEPTH = 13
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15


class CUmemorytype(IntEnum):
    """CU_MEMORYTYPE_*: where an end of a copy lies."""

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


class CUpointer_attribute(IntEnum):
    """CU_POINTER_ATTRIBUTE_*: what cuPointerGetAttribute tells of an address."""

    CONTEXT = 1
    MEMORY_TYPE = 2
    DEVICE_ORDINAL = 9
    IS_LEGACY_CUDA_IPC_CAPABLE = 10
    RANGE_START_ADDR = 11
    RANGE_SIZE = 12


class CUstream_flags(IntFlag):
    """CU_STREAM_*: how a stream behaves beside the legacy default stream."""

    DEFAULT = 0
    NON_BLOCKING = 1


class CUevent_flags(IntFlag):
    """CU_EVENT_*: what an event is for."""

    DEFAULT = 0
    BLOCKING_SYNC = 1
    DISABLE_TIMING = 2


class CUstreamCaptureMode(IntEnum):
    """CU_STREAM_CAPTURE_MODE_*: which calls are refused while a stream is captured."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class CUjit_option(IntEnum):
    """CU_JIT_*: options of cuModuleLoadDataEx."""

    ERROR_LOG_BUFFER = 5
    ERROR_LOG_BUFFER_SIZE_BYTES = 6


class CUlaunchAttributeID(IntEnum):
    """CU_LAUNCH_ATTRIBUTE_*: attributes of launches and of kernel nodes."""

    IGNORE = 0
    COOPERATIVE = 2
    CLUSTER_DIMENSION = 4
    PROGRAMMATIC_STREAM_SERIALIZATION = 6
    PRIORITY = 8


class CUgraphDependencyType(IntEnum):
    """CU_GRAPH_DEPENDENCY_TYPE_*: kinds of edges of a driver graph."""

    DEFAULT = 0
    PROGRAMMATIC = 1


class CUgraphKernelNodePort(IntEnum):
    """CU_GRAPH_KERNEL_NODE_PORT_*: when an edge that leaves a kernel node is open."""

    DEFAULT = 0
    PROGRAMMATIC = 1
    LAUNCH_ORDER = 2


class CUtensorMapDataType(IntEnum):
    """CU_TENSOR_MAP_DATA_TYPE_*: element types of a tensor map."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    INT32 = 3
    UINT64 = 4
    INT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT32_FTZ = 10
    TFLOAT32 = 11
    TFLOAT32_FTZ = 12


class CUtensorMapInterleave(IntEnum):
    """CU_TENSOR_MAP_INTERLEAVE_*: channel-interleaved layouts."""

    NONE = 0
    B16 = 1
    B32 = 2


class CUtensorMapSwizzle(IntEnum):
    """CU_TENSOR_MAP_SWIZZLE_*: how 16-byte chunks are permuted in shared memory."""

    NONE = 0
    B32 = 1
    B64 = 2
    B128 = 3


class CUtensorMapL2promotion(IntEnum):
    """CU_TENSOR_MAP_L2_PROMOTION_*: the least that a fetch brings into L2."""

    NONE = 0
    L2_64B = 1
    L2_128B = 2
    L2_256B = 3


class CUtensorMapFloatOOBfill(IntEnum):
    """CU_TENSOR_MAP_FLOAT_OOB_FILL_*: what elements outside the tensor read as."""

    NONE = 0
    NAN_REQUEST_ZERO_FMA = 1
