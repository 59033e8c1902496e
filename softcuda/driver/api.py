"""The prototypes of every driver function that softcuda calls, by exported name.

A row holds the argument types; the comment behind or below it is the C signature. All of them
return a CUresult. Source: CUDA Driver API, chapter "Modules".
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ushort,
    c_void_p,
)
from typing import Any, Final

from softcuda.driver.types import (
    CUDA_MEMCPY2D,
    CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v2,
    CUgraphEdgeData,
    CUlaunchAttributeValue,
    CUlaunchConfig,
    CUtensorMap,
    CUuuid,
)

__all__ = ["BEFORE_INIT", "MINIMUM_VERSION", "PROTOTYPES", "RETURNS_NOT_READY"]

# The oldest CUDA version of a driver that has every function below but those marked "since".
MINIMUM_VERSION: Final = 12000

# Functions that may be called before cuInit.
BEFORE_INIT: Final = frozenset(("cuInit", "cuDriverGetVersion"))

# Functions for which CUDA_ERROR_NOT_READY is an answer, not an error.
RETURNS_NOT_READY: Final = frozenset(("cuEventQuery", "cuStreamQuery"))

_I, _U, _U8, _U16, _F = c_int, c_uint, c_ubyte, c_ushort, c_float
_N = c_size_t
_D = c_uint64  # CUdeviceptr, cuuint64_t
_H = c_void_p  # a handle
_P = c_void_p  # an address in the host's memory
_S = c_char_p
_IR, _UR, _NR, _DR = POINTER(_I), POINTER(_U), POINTER(_N), POINTER(_D)
_FR, _HR = POINTER(_F), POINTER(_H)
_COPY2D, _COPY3D = POINTER(CUDA_MEMCPY2D), POINTER(CUDA_MEMCPY3D)
_FILL, _KERNEL = POINTER(CUDA_MEMSET_NODE_PARAMS), POINTER(CUDA_KERNEL_NODE_PARAMS_v2)
_CONFIG, _ATTRIBUTE = POINTER(CUlaunchConfig), POINTER(CUlaunchAttributeValue)
_EDGE, _MAP, _UUID = POINTER(CUgraphEdgeData), POINTER(CUtensorMap), POINTER(CUuuid)

# fmt: off
PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    # --- Initialization, version, devices ---
    "cuInit": (_U,),  # unsigned int Flags
    "cuDriverGetVersion": (_IR,),  # int *driverVersion
    "cuDeviceGetCount": (_IR,),  # int *count
    "cuDeviceGet": (_IR, _I),  # CUdevice *device, int ordinal
    "cuDeviceGetName": (_S, _I, _I),  # char *name, int len, CUdevice dev
    "cuDeviceGetUuid_v2": (_UUID, _I),  # CUuuid *uuid, CUdevice dev
    "cuDeviceTotalMem_v2": (_NR, _I),  # size_t *bytes, CUdevice dev
    "cuDeviceGetAttribute": (_IR, _I, _I),  # int *pi, CUdevice_attribute attrib, CUdevice dev
    "cuDeviceCanAccessPeer": (_IR, _I, _I),  # int *canAccessPeer, CUdevice dev, CUdevice peerDev
    # --- Primary context, current context ---
    "cuDevicePrimaryCtxRetain": (_HR, _I),  # CUcontext *pctx, CUdevice dev
    "cuDevicePrimaryCtxRelease_v2": (_I,),  # CUdevice dev
    "cuCtxGetCurrent": (_P,),  # CUcontext *pctx; an address, since it is asked at every entry
    "cuCtxPushCurrent_v2": (_H,),  # CUcontext ctx
    "cuCtxPopCurrent_v2": (_HR,),  # CUcontext *pctx
    "cuCtxSynchronize": (),  # void
    "cuCtxGetStreamPriorityRange": (_IR, _IR),  # int *leastPriority, int *greatestPriority
    "cuCtxEnablePeerAccess": (_H, _U),  # CUcontext peerContext, unsigned int Flags
    "cuCtxDisablePeerAccess": (_H,),  # CUcontext peerContext
    # --- Memory ---
    "cuMemGetInfo_v2": (_NR, _NR),  # size_t *free, size_t *total
    "cuMemAlloc_v2": (_DR, _N),  # CUdeviceptr *dptr, size_t bytesize
    "cuMemFree_v2": (_D,),  # CUdeviceptr dptr
    "cuMemHostAlloc": (_HR, _N, _U),  # void **pp, size_t bytesize, unsigned int Flags
    "cuMemFreeHost": (_P,),  # void *p
    "cuMemAllocAsync": (_DR, _N, _H),  # CUdeviceptr *dptr, size_t bytesize, CUstream hStream
    "cuMemFreeAsync": (_D, _H),  # CUdeviceptr dptr, CUstream hStream
    "cuPointerGetAttribute": (_P, _I, _D),
    # void *data, CUpointer_attribute attribute, CUdeviceptr ptr
    # --- Copies ---
    "cuMemcpyHtoD_v2": (_D, _P, _N),  # CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount
    "cuMemcpyHtoDAsync_v2": (_D, _P, _N, _H),
    # CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream
    "cuMemcpyDtoH_v2": (_P, _D, _N),  # void *dstHost, CUdeviceptr srcDevice, size_t ByteCount
    "cuMemcpyDtoHAsync_v2": (_P, _D, _N, _H),
    # void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream
    "cuMemcpyDtoD_v2": (_D, _D, _N),
    # CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount
    "cuMemcpyDtoDAsync_v2": (_D, _D, _N, _H),
    # CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream
    "cuMemcpyPeerAsync": (_D, _H, _D, _H, _N, _H),
    # CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
    # size_t ByteCount, CUstream hStream
    "cuMemcpy2DUnaligned_v2": (_COPY2D,),  # const CUDA_MEMCPY2D *pCopy
    "cuMemcpy2DAsync_v2": (_COPY2D, _H),  # const CUDA_MEMCPY2D *pCopy, CUstream hStream
    # --- Fills ---
    "cuMemsetD8_v2": (_D, _U8, _N),  # CUdeviceptr dstDevice, unsigned char uc, size_t N
    "cuMemsetD16_v2": (_D, _U16, _N),  # CUdeviceptr dstDevice, unsigned short us, size_t N
    "cuMemsetD32_v2": (_D, _U, _N),  # CUdeviceptr dstDevice, unsigned int ui, size_t N
    "cuMemsetD8Async": (_D, _U8, _N, _H),
    # CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream
    "cuMemsetD16Async": (_D, _U16, _N, _H),
    # CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream
    "cuMemsetD32Async": (_D, _U, _N, _H),
    # CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream
    # --- Streams and events ---
    "cuStreamCreateWithPriority": (_HR, _U, _I),
    # CUstream *phStream, unsigned int flags, int priority
    "cuStreamDestroy_v2": (_H,),  # CUstream hStream
    "cuStreamGetPriority": (_H, _IR),  # CUstream hStream, int *priority
    "cuStreamSynchronize": (_H,),  # CUstream hStream
    "cuStreamQuery": (_H,),  # CUstream hStream
    "cuStreamWaitEvent": (_H, _H, _U),  # CUstream hStream, CUevent hEvent, unsigned int Flags
    "cuStreamBeginCapture_v2": (_H, _I),  # CUstream hStream, CUstreamCaptureMode mode
    "cuStreamEndCapture": (_H, _HR),  # CUstream hStream, CUgraph *phGraph
    "cuStreamIsCapturing": (_H, _IR),  # CUstream hStream, CUstreamCaptureStatus *captureStatus
    "cuEventCreate": (_HR, _U),  # CUevent *phEvent, unsigned int Flags
    "cuEventDestroy_v2": (_H,),  # CUevent hEvent
    "cuEventRecord": (_H, _H),  # CUevent hEvent, CUstream hStream
    "cuEventQuery": (_H,),  # CUevent hEvent
    "cuEventSynchronize": (_H,),  # CUevent hEvent
    "cuEventElapsedTime": (_FR, _H, _H),  # float *pMilliseconds, CUevent hStart, CUevent hEnd
    # --- Modules, functions, occupancy, launch ---
    "cuModuleLoadDataEx": (_HR, _P, _U, _IR, _HR),
    # CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void
    # **optionValues
    "cuModuleUnload": (_H,),  # CUmodule hmod
    "cuModuleGetFunction": (_HR, _H, _S),  # CUfunction *hfunc, CUmodule hmod, const char *name
    "cuModuleGetFunctionCount": (_UR, _H),  # unsigned int *count, CUmodule mod
    "cuFuncGetAttribute": (_IR, _I, _H),  # int *pi, CUfunction_attribute attrib, CUfunction hfunc
    "cuFuncSetAttribute": (_H, _I, _I),  # CUfunction hfunc, CUfunction_attribute attrib, int value
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_IR, _H, _I, _N),
    # int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize
    "cuOccupancyMaxPotentialBlockSize": (_IR, _IR, _H, _P, _N, _I),
    # int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize
    # blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit
    "cuOccupancyMaxActiveClusters": (_IR, _H, _CONFIG),
    # int *numClusters, CUfunction func, const CUlaunchConfig *config
    "cuLaunchKernelEx": (_CONFIG, _H, _P, _P),
    # const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra
    # --- Driver graphs ---
    "cuGraphCreate": (_HR, _U),  # CUgraph *phGraph, unsigned int flags
    "cuGraphDestroy": (_H,),  # CUgraph hGraph
    "cuGraphAddKernelNode_v2": (_HR, _H, _HR, _N, _KERNEL),
    # CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t
    # numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams
    "cuGraphAddMemcpyNode": (_HR, _H, _HR, _N, _COPY3D, _H),
    # CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t
    # numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx
    "cuGraphAddMemsetNode": (_HR, _H, _HR, _N, _FILL, _H),
    # CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t
    # numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx
    "cuGraphAddChildGraphNode": (_HR, _H, _HR, _N, _H),
    # CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t
    # numDependencies, CUgraph childGraph
    "cuGraphAddEmptyNode": (_HR, _H, _HR, _N),
    # CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t
    # numDependencies
    "cuGraphAddDependencies_v2": (_H, _HR, _HR, _EDGE, _N),
    # since 12.3: CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const
    # CUgraphEdgeData *edgeData, size_t numDependencies
    "cuGraphKernelNodeSetAttribute": (_H, _I, _ATTRIBUTE),
    # CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value
    "cuGraphGetNodes": (_H, _HR, _NR),  # CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes
    "cuGraphInstantiateWithFlags": (_HR, _H, _D),
    # CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags
    "cuGraphExecDestroy": (_H,),  # CUgraphExec hGraphExec
    "cuGraphExecKernelNodeSetParams_v2": (_H, _H, _KERNEL),
    # CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams
    "cuGraphExecMemcpyNodeSetParams": (_H, _H, _COPY3D, _H),
    # CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx
    "cuGraphExecMemsetNodeSetParams": (_H, _H, _FILL, _H),
    # CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
    # CUcontext ctx
    "cuGraphUpload": (_H, _H),  # CUgraphExec hGraphExec, CUstream hStream
    "cuGraphLaunch": (_H, _H),  # CUgraphExec hGraphExec, CUstream hStream
    # --- Tensor maps ---
    "cuTensorMapEncodeTiled": (_MAP, _I, _U, _D, _DR, _DR, _UR, _UR, _I, _I, _I, _I),
    # CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void
    # *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t
    # *boxDim, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    # CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill
    # oobFill
}
# fmt: on
