"""The error of a unit that does not compile: where, the lines around, the options, the source."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

from softcuda.errors import CompileError
from softcuda.nvrtc.digest import digest
from softcuda.nvrtc.source import Source
from softcuda.nvrtc.unit import CompileUnit

__all__ = ["compile_failure", "save_source"]

_ERROR: Final = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error:?(?P<text>[^\n]*)", re.M
)

LOG_CHARACTERS: Final = 4000


def compile_failure(
    unit: CompileUnit,
    source: Source,
    options: tuple[str, ...],
    log: str,
    failed: Path | None,
) -> CompileError:
    """Return the error for a log of NVRTC; saves the source.

    Args:
        unit: what was compiled.
        source: its text and headers.
        options: all that NVRTC was given.
        log: what it said.
        failed: the folder to save below; a temporary one where None or not writable.
    """
    first = _first_error(unit, source, log)
    if len(log) > LOG_CHARACTERS:
        log = f"{log[:LOG_CHARACTERS]}\n... {len(log) - LOG_CHARACTERS} more characters"
    return CompileError(
        f"kernel {unit.id} does not compile: {first}\n"
        f"options: {' '.join(map(repr, options))}\n"
        f"name expression: {unit.expression}\n"
        f"source saved: {save_source(unit, source, log, failed)}\n"
        f"compiler log:\n{log.strip()}"
    )


def _first_error(unit: CompileUnit, source: Source, log: str) -> str:
    """Return place and text of the first error of a log, with the lines around it."""
    found = _ERROR.search(log)
    if found is None:
        return f"{unit.file}: {next((line for line in log.splitlines() if line), 'no log')}"
    name, number = found["file"].strip().strip('"'), int(found["line"])
    lines = _lines_around(_text_of(unit, source, name), number)
    if not lines:
        return f"name expression {unit.expression!r}: {found['text'].strip()}"
    return f"{name}:{number}: {found['text'].strip()}\n{lines}"


def save_source(unit: CompileUnit, source: Source, log: str, failed: Path | None) -> str:
    """Save the text of a unit, its headers and a log, and return the path of the text.

    Args:
        unit: gives the folder its name.
        source: the text and headers.
        log: what NVRTC said, saved beside them.
        failed: the folder to save below; a temporary one where None or not writable.
    """
    name = re.sub(r"[^\w.-]", "_", unit.id)[:100]
    reason = "no folder"
    for parent in (failed, None):
        try:
            if parent is not None:
                folder = parent / f"{name}-{digest([('text', source.text.encode())])[:16]}"
                folder.mkdir(parents=True, exist_ok=True)
            else:
                folder = Path(tempfile.mkdtemp(prefix=f"softcuda-{name}-"))
            path = folder / unit.file
            path.write_text(source.text, encoding="utf-8")
            for header in source.headers:
                (folder / header.name).write_text(header.text, encoding="utf-8")
            (folder / "log.txt").write_text(log, encoding="utf-8")
        except OSError as error:
            reason = str(error)
        else:
            return str(path)
    return f"nowhere ({reason})"


def _text_of(unit: CompileUnit, source: Source, name: str) -> str:
    if name == unit.file:
        return source.text
    return next((header.text for header in source.headers if header.name == name), "")


def _lines_around(text: str, number: int) -> str:
    lines = text.splitlines()
    if number > len(lines):
        return ""
    rows = range(max(number - 1, 1), min(number + 1, len(lines)) + 1)
    return "\n".join(f"{'>' if row == number else ' '} {row:5} | {lines[row - 1]}" for row in rows)
