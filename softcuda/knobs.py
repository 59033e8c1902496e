"""Every environment variable that softcuda reads: one table, read nowhere else."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from softcuda.errors import ArgumentError

__all__ = [
    "KNOBS",
    "cache_folder",
    "compiles_with_debug",
    "compiles_with_lines",
    "config_path",
    "library_places",
    "may_compile",
    "synchronous_launches",
    "thread_count",
    "user_home",
    "visible_devices",
]

KNOBS: Final[dict[str, str]] = {
    "SOFTCUDA_CONFIG": "path of the profile, or the name of a shipped one: default, nvidia-h200",
    "SOFTCUDA_THREADS": "threads of CPU work; default: the CPUs this process may run on",
    "SOFTCUDA_CACHE_DIR": "folder of compiled kernels; default: in the user's cache folder",
    "SOFTCUDA_JIT": "off: compile no kernel, take them from the cache or fail; default: on",
    "SOFTCUDA_LINEINFO": "1: compile kernels with line numbers, for profilers and sanitizers",
    "SOFTCUDA_DEBUG": "1: compile kernels for a debugger, without optimisation",
    "SOFTCUDA_SYNC": "1: wait for the device after every launch, to find the one that fails",
    "CUDA_VISIBLE_DEVICES": "the devices that the CUDA driver shows; softcuda only quotes it",
    "CUDA_PATH": "the CUDA toolkit; cuda.pathfinder searches it for NVRTC and its headers",
    "CUDA_HOME": "the same, where CUDA_PATH is unset",
    "LD_LIBRARY_PATH": "where the loader of Linux searches; softcuda only quotes it",
    "XDG_CACHE_HOME": "the folder of users' caches on Linux; default: ~/.cache",
    "LOCALAPPDATA": "the folder of users' caches on Windows",
    "XDG_CONFIG_HOME": "the folder of users' settings on Linux; default: ~/.config",
    "APPDATA": "the folder of users' settings on Windows",
}


# The dict of bytes that os.environ reads and writes in CPython, but for Windows. Where a profile is
# looked for is asked at each evaluation, and os.environ takes five times as long: it decodes anew.
_HELD: Final = getattr(os.environ, "_data", None)
_BYTES: Final[dict[bytes, bytes] | None] = (
    _HELD if type(_HELD) is dict and os.supports_bytes_environ else None
)
_decoded: Final = lru_cache(maxsize=8)(os.fsdecode)


def config_path() -> str | None:
    """Return SOFTCUDA_CONFIG, or None where it is unset or empty."""
    if _BYTES is None:
        return os.environ.get("SOFTCUDA_CONFIG") or None
    value = _BYTES.get(b"SOFTCUDA_CONFIG")
    return _decoded(value) if value else None


def user_home(variable: str) -> str | None:
    """Return a variable that names a folder of the user, or None where it is unset or empty."""
    if _BYTES is None:
        return os.environ.get(variable) or None
    value = _BYTES.get(variable.encode())
    return _decoded(value) if value else None


def cache_folder() -> str | None:
    """Return SOFTCUDA_CACHE_DIR, or None where it is unset or empty."""
    return os.environ.get("SOFTCUDA_CACHE_DIR") or None


def may_compile() -> bool:
    """Return False where SOFTCUDA_JIT is off, else True.

    Raises:
        ArgumentError: SOFTCUDA_JIT is neither on nor off nor empty.
    """
    text = os.environ.get("SOFTCUDA_JIT", "").strip().lower()
    if text not in ("", "on", "off"):
        raise ArgumentError(
            f"SOFTCUDA_JIT is {text!r}; allowed are on and off; unset it to compile what the cache "
            "lacks"
        )
    return text != "off"


def compiles_with_lines() -> bool:
    """Return whether SOFTCUDA_LINEINFO asks for line numbers in compiled kernels.

    Raises:
        ArgumentError: SOFTCUDA_LINEINFO is neither 0 nor 1 nor empty.
    """
    return _flag("SOFTCUDA_LINEINFO", "compile without line numbers")


def compiles_with_debug() -> bool:
    """Return whether SOFTCUDA_DEBUG asks for kernels that a debugger can step through.

    Raises:
        ArgumentError: SOFTCUDA_DEBUG is neither 0 nor 1 nor empty.
    """
    return _flag("SOFTCUDA_DEBUG", "compile optimised kernels")


def library_places() -> dict[str, str | None]:
    """Return the variables that decide where NVRTC is found, None where one is unset."""
    return {name: os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH")}


def visible_devices() -> str | None:
    """Return CUDA_VISIBLE_DEVICES as it stands, "" included, or None where it is unset."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def synchronous_launches() -> bool:
    """Return whether SOFTCUDA_SYNC asks to wait for the device after every launch.

    Raises:
        ArgumentError: SOFTCUDA_SYNC is neither 0 nor 1 nor empty.
    """
    return _flag("SOFTCUDA_SYNC", "launch without waiting")


def thread_count() -> int:
    """Return how many threads CPU work may use.

    Raises:
        ArgumentError: SOFTCUDA_THREADS is no whole number of at least 1.
    """
    text = os.environ.get("SOFTCUDA_THREADS", "").strip()
    if not text:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise ArgumentError(
            f"SOFTCUDA_THREADS is {text!r}; allowed is a whole number of at least 1; "
            "unset it to use every CPU of this process"
        )
    return int(text)


def _flag(variable: str, otherwise: str) -> bool:
    text = os.environ.get(variable, "").strip()
    if text not in ("", "0", "1"):
        raise ArgumentError(f"{variable} is {text!r}; allowed are 0 and 1; unset it to {otherwise}")
    return text == "1"
