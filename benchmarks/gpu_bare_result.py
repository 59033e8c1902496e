"""The least that a process needs: CUDA by ctypes alone, one cubin loaded, bytes copied back.

    python benchmarks/gpu_bare_result.py kernel.cubin

prints {"at": seconds since the epoch}.
"""

import ctypes
import sys
import time

__all__ = ["main"]


def main(path: str) -> int:
    """Initialise, load the cubin, copy 256 bytes back, say when they were there."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def check(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            sys.exit(f"{name}: error {code}")

    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    pointer = ctypes.c_uint64()
    back = ctypes.create_string_buffer(256)
    check("cuInit", 0)
    check("cuDeviceGet", ctypes.byref(device), 0)
    check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    check("cuCtxSetCurrent", context)
    with open(path, "rb") as file:
        image = file.read()
    check("cuModuleLoadData", ctypes.byref(module), image)
    check("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(256))
    check("cuMemsetD8_v2", pointer, ctypes.c_ubyte(7), ctypes.c_size_t(256))
    check("cuMemcpyDtoH_v2", back, pointer, ctypes.c_size_t(256))
    at = time.time()
    if back.raw != bytes([7]) * 256:
        sys.exit("the bytes that came back are not those that were set")
    print(f'{{"at": {at!r}}}')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
