"""Where libcuda is, found on first use and never at import.

Source: CUDA Installation Guide for Linux; CUDA on WSL User Guide for its folder.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Final, Protocol

from softcuda.errors import DriverNotFound

__all__ = ["Library", "load_library"]

NAME: Final = "libcuda.so.1"

# Where drivers lie that the loader's own path does not name: WSL2, containers, distributions.
FOLDERS: Final = (
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib64/nvidia",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/run/opengl-driver/lib",
)


class Library(Protocol):
    """A loaded library: a name gives a function of its own, or an AttributeError."""

    def __getitem__(self, name: str) -> Any:
        """Return the function of a name."""


def load_library() -> Library:
    """Return libcuda, from the loader's path or the folders that drivers are known to use.

    Raises:
        DriverNotFound: there is none; tells why, and how many places were tried.
    """
    if sys.platform in ("win32", "darwin"):
        name = "nvcuda.dll" if sys.platform == "win32" else "a CUDA driver"
        raise DriverNotFound(
            f"{name} is not used: CUDA work is supported on Linux and WSL2 only, this is "
            f"{sys.platform}, where everything runs on the CPU"
        )
    reasons = []
    for path in (NAME, *(f"{folder}/{NAME}" for folder in FOLDERS)):
        if path != NAME and not os.path.exists(path):
            continue
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise DriverNotFound(
        f"no CUDA driver: {'; '.join(reasons)}, on the loader's path and in {len(FOLDERS)} folders "
        "of drivers; install the NVIDIA driver where there is a GPU"
    )
