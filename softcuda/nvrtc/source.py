"""The text of a unit and of every header it includes; two forms of include are allowed.

#include "x.cuh"          a header given as text, of the unit's folder, or of kernels/
#include <cuda_fp16.h>    or <cuda_bf16.h>: NVIDIA's own, found by `softcuda.nvrtc.headers`
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from softcuda.errors import CompileError
from softcuda.nvrtc.unit import CompileUnit, Cubin, Header
from softcuda.paths import packaged_folder

__all__ = ["SYSTEM_HEADERS", "Built", "Source", "read_source"]

SYSTEM_HEADERS: Final = ("cuda_bf16.h", "cuda_fp16.h")

_INCLUDE: Final = re.compile(r"\s*(?:#|%:)\s*(?:include\w*|import)\b")
_OWN: Final = re.compile(r'\s*#\s*include\s*"(\w+\.cuh)"\s*(?://.*)?')
_SYSTEM: Final = re.compile(r"\s*#\s*include\s*<(\w+\.h)>\s*(?://.*)?")


class Source(NamedTuple):
    """Everything that is compiled for a unit, NVIDIA's headers excepted.

    Attributes:
        text: of the unit's file.
        headers: the closure of its own includes, by name, in order of name.
        system: the allow-listed headers that any of them includes, in order of name.
    """

    text: str
    headers: tuple[Header, ...]
    system: tuple[str, ...]


class Built(NamedTuple):
    """A compiled kernel, and what it was compiled from."""

    cubin: Cubin
    source: Source


def read_source(unit: CompileUnit) -> Source:
    """Return the text of a unit with the closure of its includes.

    Raises:
        CompileError: a file is missing or not UTF-8, or an include has another form than the two
            that are allowed; names file and line.
    """
    packaged = Path(packaged_folder("kernels"))
    folders = (Path(unit.folder), packaged) if unit.folder else (packaged,)
    given = {header.name: header.text for header in unit.headers}
    text = _read(folders[0] / unit.file, f"the file of kernel {unit.id}")
    closure: dict[str, str] = {}
    system: set[str] = set()
    waiting = [(unit.file, text)]
    while waiting:
        name, content = waiting.pop()
        for number, line in enumerate(content.splitlines(), 1):
            # Nearly every line is ruled out by the two words, at a tenth of a match's cost.
            if not ("include" in line or "import" in line) or not _INCLUDE.match(line):
                continue
            where = f"{name}:{number}"
            included = _included(line, where, system)
            if included is not None and included not in closure:
                closure[included] = _header_text(included, where, given, folders)
                waiting.append((included, closure[included]))
    headers = tuple(Header(name, closure[name]) for name in sorted(closure))
    return Source(text, headers, tuple(sorted(system)))


def _included(line: str, where: str, system: set[str]) -> str | None:
    """Return the own header that a line includes; note a system header instead."""
    own = _OWN.fullmatch(line)
    if own is not None:
        return own[1]
    match = _SYSTEM.fullmatch(line)
    if match is None or match[1] not in SYSTEM_HEADERS:
        raise CompileError(
            f'{where}: {line.strip()!r} is not allowed; allowed are #include "name.cuh" of the '
            f"kernels folder and {', '.join(f'#include <{name}>' for name in SYSTEM_HEADERS)}"
        )
    system.add(match[1])
    return None


def _header_text(name: str, where: str, given: dict[str, str], folders: tuple[Path, ...]) -> str:
    if name in given:
        return given[name]
    for folder in folders:
        if (folder / name).is_file():
            return _read(folder / name, f"the header that {where} includes")
    raise CompileError(
        f'{where}: there is no header "{name}"; looked among the headers given as text '
        f"({', '.join(sorted(given)) or 'none'}) and in {', '.join(map(str, folders))}"
    )


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"{what} cannot be read: {path}: {error}") from error
