"""Which NVRTC this process would use, known without loading it.

Finding and loading NVRTC takes 0.2 s, and all that a warm cache needs of it are its version and
its architectures. They are kept in the cache folder beside the path, size and time of the
library's file; where these changed, the note does not count. When a kernel must be compiled, the
NVRTC that was then loaded is asked again.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path
from typing import Final, NamedTuple

from softcuda.knobs import library_places
from softcuda.nvrtc.digest import digest
from softcuda.nvrtc.library import Nvrtc

__all__ = ["Toolchain", "ask_toolchain", "note_toolchain", "noted_toolchain"]

FILE: Final = "toolchain.json"


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
    try:
        note = json.loads((folder / FILE).read_text(encoding="utf-8"))[_environment()]
        if note["file"] != _state(note["path"]):
            return None
        return Toolchain(str(note["version"]), tuple(int(n) for n in note["architectures"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def note_toolchain(folder: Path, nvrtc: Nvrtc) -> None:
    """Note what NVRTC says of itself for later processes of this installation.

    A library that another package had loaded first is not noted.

    Raises:
        OSError: the cache cannot be written.
    """
    loaded = nvrtc.loaded()
    if not loaded.is_own_find or not loaded.path:
        return
    path = folder / FILE
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        notes = {}
    if not isinstance(notes, dict):
        notes = {}
    note = {"path": loaded.path, "file": _state(loaded.path), **ask_toolchain(nvrtc)._asdict()}
    notes[_environment()] = note
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        temporary.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _state(path: str) -> list[int]:
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def _environment() -> str:
    """Return what stands for this installation: its Python, and the places that are searched."""
    places = {"prefix": sys.prefix, **library_places()}
    return digest([(name, (value or "").encode()) for name, value in places.items()])
