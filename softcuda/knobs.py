"""Every environment variable that softcuda reads: one table, read nowhere else."""

from __future__ import annotations

import os
from typing import Final

from softcuda.errors import ArgumentError

__all__ = [
    "KNOBS",
    "config_home",
    "config_path",
    "synchronous_launches",
    "thread_count",
    "visible_devices",
]

KNOBS: Final[dict[str, str]] = {
    "SOFTCUDA_CONFIG": "path of the profile, or 'default' for the shipped DEFAULT.soft",
    "SOFTCUDA_THREADS": "threads of CPU work; default: the CPUs this process may run on",
    "SOFTCUDA_SYNC": "1: wait for the device after every launch, to find the one that fails",
    "CUDA_VISIBLE_DEVICES": "the devices that the CUDA driver shows; softcuda only quotes it",
    "XDG_CONFIG_HOME": "the folder of users' settings on Linux; default: ~/.config",
    "APPDATA": "the folder of users' settings on Windows",
}


def config_path() -> str | None:
    """Return SOFTCUDA_CONFIG, or None where it is unset or empty."""
    return os.environ.get("SOFTCUDA_CONFIG") or None


def config_home(variable: str) -> str | None:
    """Return XDG_CONFIG_HOME or APPDATA, or None where it is unset or empty."""
    return os.environ.get(variable) or None


def visible_devices() -> str | None:
    """Return CUDA_VISIBLE_DEVICES as it stands, "" included, or None where it is unset."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def synchronous_launches() -> bool:
    """Return whether SOFTCUDA_SYNC asks to wait for the device after every launch.

    Raises:
        ArgumentError: SOFTCUDA_SYNC is neither 0 nor 1 nor empty.
    """
    text = os.environ.get("SOFTCUDA_SYNC", "").strip()
    if text not in ("", "0", "1"):
        raise ArgumentError(
            f"SOFTCUDA_SYNC is {text!r}; allowed are 0 and 1; unset it to launch without waiting"
        )
    return text == "1"


def thread_count() -> int:
    """Return how many threads CPU work may use.

    Raises:
        ArgumentError: SOFTCUDA_THREADS is no whole number of at least 1.
    """
    text = os.environ.get("SOFTCUDA_THREADS", "").strip()
    if not text:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(
            f"SOFTCUDA_THREADS is {text!r}; allowed is a whole number of at least 1; "
            "unset it to use every CPU of this process"
        )
    return int(text)
