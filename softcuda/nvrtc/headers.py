"""NVIDIA's cuda_fp16.h and cuda_bf16.h: their folder, and a digest of what they include.

Both are noted for later processes, which then neither search for the headers nor read them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from softcuda.errors import NvrtcNotFound
from softcuda.knobs import library_places
from softcuda.nvrtc.digest import digest
from softcuda.nvrtc.library import EXTRAS_HINT
from softcuda.nvrtc.notes import read_note, write_note

__all__ = [
    "SystemHeaders",
    "find_system_headers",
    "note_headers",
    "noted_headers",
    "read_system_headers",
    "system_headers",
]

_INCLUDE: Final = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)


class SystemHeaders(NamedTuple):
    """The folder to search for NVIDIA's headers, and what they hold.

    Attributes:
        folder: given to NVRTC as an include path; no part of a cache key.
        digest: SHA-256 of the names and bytes of all headers that may be included.
        names: of those headers, and of those that are looked for and not there.
    """

    folder: str
    digest: str
    names: tuple[str, ...]


def system_headers(names: tuple[str, ...]) -> SystemHeaders:
    """Return the headers of the CUDA runtime, found and read.

    Args:
        names: of the headers included, such as ("cuda_fp16.h",).

    Raises:
        NvrtcNotFound: one of them is missing or cannot be read.
    """
    return read_system_headers(names, find_system_headers())


def find_system_headers() -> str:
    """Return the folder of the CUDA runtime's headers, of a wheel or a toolkit.

    Raises:
        NvrtcNotFound: there is none; names what was searched and the extras that bring it.
    """
    try:
        from cuda import pathfinder  # noqa: PLC0415

        folder = pathfinder.find_nvidia_header_directory("cudart")
    except (ImportError, RuntimeError) as error:  # pathfinder's errors derive from RuntimeError
        raise _missing(str(error)) from error
    if folder is None:
        raise _missing("no package and no toolkit has it")
    return str(folder)


def _missing(why: str) -> NvrtcNotFound:
    places = ", ".join(
        f"{name} is {'unset' if value is None else repr(value)}"
        for name, value in library_places().items()
    )
    return NvrtcNotFound(
        f"cuda_fp16.h, a header of the CUDA runtime, was not found: {why}; searched were the "
        f"packages of this Python and the CUDA toolkit ({places}); install the extra that fits "
        f"the NVIDIA driver: {EXTRAS_HINT}"
    )


def read_system_headers(names: tuple[str, ...], folder: str) -> SystemHeaders:
    """Return folder and digest of headers with all that they may include, whatever conditions say.

    Args:
        names: of the headers included, such as ("cuda_fp16.h",).
        folder: where they lie. An include that is not there is NVRTC's own.

    Raises:
        NvrtcNotFound: one of `names` is missing or cannot be read.
    """
    found: dict[str, bytes] = {}
    absent: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name in absent:
            continue
        path = Path(folder, name)
        if name not in names and not path.is_file():
            absent.add(name)
            continue
        try:
            found[name] = path.read_bytes()
        except OSError as error:
            raise _missing(f"{path}: {error}") from error
        waiting.extend(match.decode(errors="replace") for match in _INCLUDE.findall(found[name]))
    parts = [(name, found[name]) for name in sorted(found)]
    return SystemHeaders(folder, digest(parts), tuple(sorted(absent.union(found))))


def noted_headers(folder: Path, names: tuple[str, ...]) -> SystemHeaders | None:
    """Return what an earlier process of this installation noted of headers; None: nothing holds.

    Args:
        folder: of the cache.
        names: of the headers included.
    """
    facts = read_note(folder, _topic(names))
    try:
        where, content, held = facts["folder"], facts["digest"], facts["names"]
    except (KeyError, TypeError):
        return None
    if not isinstance(held, list) or not all(isinstance(x, str) for x in (where, content, *held)):
        return None
    return SystemHeaders(where, content, tuple(held))


def note_headers(folder: Path, names: tuple[str, ...], headers: SystemHeaders) -> None:
    """Note headers for later processes of this installation.

    Raises:
        OSError: the cache cannot be written.
    """
    files = [str(Path(headers.folder, name)) for name in headers.names]
    write_note(folder, _topic(names), headers._asdict(), files)


def _topic(names: tuple[str, ...]) -> str:
    return " ".join(names)
