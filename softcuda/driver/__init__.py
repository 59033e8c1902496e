"""The CUDA driver API through ctypes: the only code, beside NVRTC's, that calls a CUDA library."""
