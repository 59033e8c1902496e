"""Which NVRTC this process would use, known without loading it.

All that a warm cache needs of NVRTC are its version and its architectures, and an earlier process
noted them. When a kernel must be compiled, the NVRTC that was then loaded is asked again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from softcuda.nvrtc.library import Nvrtc
from softcuda.nvrtc.notes import read_note, write_note

__all__ = ["Toolchain", "ask_toolchain", "note_toolchain", "noted_toolchain"]

_TOPIC: Final = "nvrtc"


class Toolchain(NamedTuple):
    """What decides how a unit is compiled: NVRTC's version and its architectures."""

    version: str
    architectures: tuple[int, ...]


def ask_toolchain(nvrtc: Nvrtc) -> Toolchain:
    """Return what NVRTC says of itself, loading it where it is not loaded.

    Raises:
        NvrtcNotFound: there is none.
    """
    return Toolchain(nvrtc.version(), nvrtc.architectures())


def noted_toolchain(folder: Path) -> Toolchain | None:
    """Return what an earlier process of this installation noted; None where nothing holds."""
    facts = read_note(folder, _TOPIC)
    try:
        version, numbers = facts["version"], facts["architectures"]
    except (KeyError, TypeError):
        return None
    if not isinstance(version, str) or not isinstance(numbers, list) or not numbers:
        return None
    return Toolchain(version, tuple(numbers)) if all(type(n) is int for n in numbers) else None


def note_toolchain(folder: Path, nvrtc: Nvrtc) -> None:
    """Note what NVRTC says of itself for later processes of this installation.

    A library that another package had loaded first is not noted.

    Raises:
        OSError: the cache cannot be written.
    """
    loaded = nvrtc.loaded()
    if loaded.is_own_find and loaded.path:
        write_note(folder, _TOPIC, ask_toolchain(nvrtc)._asdict(), [loaded.path])
