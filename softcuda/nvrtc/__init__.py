"""NVRTC through ctypes, and the disk cache of what it compiles."""
