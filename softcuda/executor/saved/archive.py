"""The container of a saved executable: a zip of members as they are, sealed as a whole.

No member is compressed, so a file never holds less than what it says. `meta.json`, the first one,
lists the others with their lengths and SHA-256; the comment of the zip is the seal, a SHA-256 over
every byte before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from softcuda.errors import SavedFileError
from softcuda.whole_files import whole_file

__all__ = [
    "FORMAT",
    "META",
    "Archive",
    "json_bytes",
    "json_value",
    "open_archive",
    "refused",
    "write_archive",
]

FORMAT: Final = 1
META: Final = "meta.json"

_SEAL: Final = b"softcuda executable, sha256 "
_DIGITS: Final = 64
_END: Final = b"PK\x05\x06"  # the record that ends a zip, before its comment
_END_BYTES: Final = 22
_STAMP: Final = (1980, 1, 1, 0, 0, 0)  # no times: the same executable gives the same bytes
_PIECE: Final = 1 << 20
_AGAIN: Final = "save the executable again"

# What zipfile and JSON raise where the bytes are none of theirs.
_UNREADABLE: Final = (
    *(zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, OSError),
    *(RuntimeError, ValueError, KeyError, TypeError, OverflowError, RecursionError),
)


class Archive:
    """A whole, undamaged file.

    Attributes:
        path: as the user named it.
        meta: what meta.json says.
    """

    def __init__(self, path: str, meta: Mapping[str, Any], members: Mapping[str, memoryview]):
        self.path = path
        self.meta = meta
        self._members = members
        self._unread = set(members)

    def read(self, name: str) -> memoryview:
        """Return the bytes of a member.

        Raises:
            SavedFileError: there is none of this name.
        """
        found = self._members.get(name)
        if found is None:
            raise refused(self.path, name, "the member is missing", f"allowed is one; {_AGAIN}")
        self._unread.discard(name)
        return found

    def check_all_read(self) -> None:
        """Check that no member is left that nothing has read.

        Raises:
            SavedFileError: one is.
        """
        for name in sorted(self._unread):
            raise refused(self.path, name, "nothing in the file names this member", _AGAIN)


def refused(path: str, member: str, found: str, allowed: str) -> SavedFileError:
    """Return the error of a file that cannot be read: what stands where, and what may."""
    where = f"{path}, {member}" if member else path
    return SavedFileError(f"load: {where}: {found}; {allowed}")


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return an object as JSON, an element of its lists a line."""
    rows = []
    for key, part in value.items():
        if isinstance(part, list) and part:
            elements = ",\n  ".join(_json(element) for element in part)
            rows.append(f"{_json(key)}: [\n  {elements}\n ]")
        else:
            rows.append(f"{_json(key)}: {_json(part)}")
    return ("{\n " + ",\n ".join(rows) + "\n}\n").encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))


def json_value(data: bytes | memoryview) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: it is no JSON, names a key twice, or holds NaN or Infinity.
        RecursionError: it is nested too deeply.
    """
    text = bytes(data).decode("utf-8")
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key stands twice among {[key for key, _ in pairs]}")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def write_archive(path: str, facts: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Write a file, whole or not at all; what was there stays until it is whole.

    Args:
        path: the file; a symbolic link is followed.
        facts: what meta.json says beside the format and the list of members.
        members: their bytes by name.

    Raises:
        SavedFileError: it cannot be written.
    """
    listed = {
        name: {"nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    meta = json_bytes({"format": FORMAT, **facts, "members": listed})
    try:
        with whole_file(path) as file:
            _write_zip(file, {META: meta, **members})
    except OSError as error:
        raise SavedFileError(
            f"save: {path} cannot be written: {error.strerror or error}; what was there is "
            "unchanged; choose a file in a folder that exists and that you may write to"
        ) from error


def _write_zip(file: BinaryIO, members: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as made:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _STAMP)
            info.create_system = 3
            info.external_attr = 0o600 << 16
            made.writestr(info, data)
        made.comment = _SEAL + b"0" * _DIGITS
    total = hashlib.sha256()
    left = file.seek(0, os.SEEK_END) - _DIGITS
    file.seek(0)
    while left:
        piece = file.read(min(left, _PIECE))
        total.update(piece)
        left -= len(piece)
    file.write(total.hexdigest().encode())


def open_archive(path: str) -> Archive:
    """Return a file once its seal, the list of its members, their lengths and hashes agree.

    Raises:
        SavedFileError: it cannot be read, is something else, was cut off or changed, or has
            another format than this version reads.
    """
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise refused(
            path, "", f"the file cannot be read: {reason}", "allowed is what Executable.save wrote"
        ) from error
    end = len(content) - _END_BYTES - len(_SEAL) - _DIGITS
    ends_well = content[max(end, 0) :][:4] == _END and content[:-_DIGITS].endswith(_SEAL)
    if end < 0 or not ends_well:
        raise refused(
            path,
            "",
            f"{len(content)} bytes without the seal of a saved executable at their end: it was "
            "cut off, or is something else",
            "allowed is what Executable.save wrote, untouched",
        )
    stated = content[-_DIGITS:].decode("ascii", "replace")
    found = hashlib.sha256(memoryview(content)[:-_DIGITS]).hexdigest()
    if stated != found:
        member = _damaged(content)
        raise refused(
            path, member, f"its SHA-256 is {found}, its seal says {stated}: it was changed", _AGAIN
        )
    try:
        return _opened(path, content)
    except _UNREADABLE as error:
        if isinstance(error, SavedFileError):
            raise
        raise refused(path, "", f"its members cannot be read ({error!r})", _AGAIN) from error


def _damaged(content: bytes) -> str:
    """Return the first member that is not what meta.json says; "" where that cannot be told."""
    with suppress(*_UNREADABLE), zipfile.ZipFile(io.BytesIO(content)) as file:
        listed = json_value(file.read(META))["members"]
        for name, entry in listed.items():
            try:
                data = file.read(name)
            except _UNREADABLE:
                return str(name)
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                return str(name)
    return ""


def _opened(path: str, content: bytes) -> Archive:
    members = _members(path, content)
    meta = json_value(members.pop(META, memoryview(b"")))
    if not isinstance(meta, dict) or type(meta.get("format")) is not int:
        raise refused(path, META, "it names no format", f"allowed is {FORMAT}; {_AGAIN}")
    if meta["format"] != FORMAT:
        raise refused(
            path,
            META,
            f"it has format {meta['format']}, written by softcuda {meta.get('softcuda')!r}",
            f"this version reads format {FORMAT}; install a softcuda that reads it, or {_AGAIN}",
        )
    listed = meta.get("members")
    if not isinstance(listed, dict) or listed.keys() != members.keys():
        raise refused(
            path,
            META,
            f"it lists {sorted(listed or ())} and the zip holds {sorted(members)}",
            f"both must agree; {_AGAIN}",
        )
    for name, entry in listed.items():
        held = {"nbytes": len(members[name]), "sha256": hashlib.sha256(members[name]).hexdigest()}
        if entry != held:
            raise refused(path, name, f"it is {held}, {META} says {entry}", _AGAIN)
    return Archive(path, meta, members)


def _members(path: str, content: bytes) -> dict[str, memoryview]:
    """Return the bytes of every member; together they are no more than the file."""
    found: dict[str, memoryview] = {}
    left = len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        for info in file.infolist():
            left -= info.file_size
            is_plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
            if not is_plain or info.file_size != info.compress_size or info.filename in found:
                raise refused(
                    path,
                    info.filename,
                    f"it is compressed, encrypted, or there twice ({info.compress_size} bytes for "
                    f"{info.file_size})",
                    f"members are stored as they are, each once; {_AGAIN}",
                )
            if left < 0:
                raise refused(path, info.filename, "members share their bytes", _AGAIN)
            found[info.filename] = memoryview(file.read(info))
    return found
