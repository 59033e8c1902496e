"""Notes of earlier processes: what they found out of this installation, so that none asks again.

Finding and loading NVRTC takes 0.2 s, finding and reading NVIDIA's headers 0.1 s, and a warm cache
needs three facts of them. Those stand in a file of the cache folder, beside the sizes and times of
the files that they were found in; where one of these files changed, a note does not count.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from softcuda.knobs import library_places
from softcuda.nvrtc.digest import digest
from softcuda.nvrtc.regular import read_json

__all__ = ["read_note", "write_note"]

FILE: Final = "toolchain.json"


def read_note(folder: Path, topic: str) -> Any:
    """Return the facts that were noted of a topic; None where nothing holds.

    Args:
        folder: of the cache.
        topic: what the facts are about.
    """
    try:
        note = read_json(folder / FILE)[_installation()][topic]
        holds = all(_state(path) == state for path, state in note["files"].items())
        return note["facts"] if holds else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_note(folder: Path, topic: str, facts: Any, files: Iterable[str]) -> None:
    """Note facts for later processes of this installation.

    Args:
        folder: of the cache.
        topic: what the facts are about; they take the place of what was noted of it.
        facts: what JSON can hold.
        files: the paths on which the facts depend, those where nothing is included.

    Raises:
        OSError: the cache cannot be written, or a file not be looked at.
    """
    path = folder / FILE
    try:
        notes = read_json(path)
    except (OSError, ValueError):
        notes = {}
    notes = notes if isinstance(notes, dict) else {}
    ours = notes.get(_installation())
    ours = ours if isinstance(ours, dict) else {}
    note = {"facts": facts, "files": {file: _state(file) for file in files}}
    notes[_installation()] = {**ours, topic: note}
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        temporary.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _state(path: str) -> list[int] | None:
    """Return the size and the time of a file; None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [found.st_size, found.st_mtime_ns]


def _installation() -> str:
    """Return what stands for this installation: its Python, and the places that are searched."""
    places = {"prefix": sys.prefix, **library_places()}
    return digest([(name, (value or "").encode()) for name, value in places.items()])
