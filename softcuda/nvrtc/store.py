"""Entries of the disk cache: folders that appear whole, and are checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from softcuda.nvrtc.regular import read_json, read_regular
from softcuda.nvrtc.unit import Cubin, Image, Resources

__all__ = ["FoundEntry", "discard", "entry_files", "read_entry", "write_entry"]

SOURCE: Final = "kernel.cu"
META: Final = "meta.json"
SEAL: Final = "meta_sha256"
_MISSING: Final = " is missing"
_IMAGES: Final = {Image.CUBIN: "kernel.cubin", Image.PTX: "kernel.ptx"}


class FoundEntry(NamedTuple):
    """What stands where an entry is looked for.

    Attributes:
        cubin: the kernel; None where there is no entry or a damaged one.
        damage: what is wrong with the entry; "" where nothing is.
        is_refused: whether this user may not read it, which is no damage.
    """

    cubin: Cubin | None
    damage: str
    is_refused: bool = False


def entry_files(cubin: Cubin, source: str, key: str, readable: list[list[str]]) -> dict[str, bytes]:
    """Return the files of an entry by name, `meta.json` among them.

    Args:
        cubin: what was compiled.
        source: the exact text of the unit's file.
        key: the full key.
        readable: the key's parts, for people.
    """
    meta = {
        "key": key,
        "parts": readable,
        "name": cubin.name,
        "arch": cubin.arch,
        "kind": cubin.kind.value,
        "resources": cubin.resources._asdict() if cubin.resources else None,
        "sha256": hashlib.sha256(cubin.image).hexdigest(),
        "log": cubin.log,
    }
    sealed = {**meta, SEAL: _seal(meta)}
    return {
        SOURCE: source.encode(),
        _IMAGES[cubin.kind]: cubin.image,
        META: (json.dumps(sealed, indent=1) + "\n").encode(),
    }


def _seal(meta: dict[str, Any]) -> str:
    """Return the SHA-256 of what `meta.json` says beside it."""
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def read_entry(folder: Path, key: str) -> FoundEntry:
    """Return the kernel of an entry, after checking its bytes.

    An entry of which a file is missing is looked at once more: another process may have put the
    whole folder there between the look for the file and the look for the folder.

    Args:
        folder: of the entry.
        key: the full key, which the entry must have.
    """
    found = _read_once(folder, key)
    return _read_once(folder, key) if found.damage.endswith(_MISSING) else found


def _read_once(folder: Path, key: str) -> FoundEntry:
    try:
        meta = read_json(folder / META)
        stored, sealed = meta["key"], meta.pop(SEAL)
        if sealed != _seal(meta):
            return FoundEntry(None, f"{META} has SHA-256 {_seal(meta)}, its {SEAL} is {sealed}")
        kind = Image(meta["kind"])
        image = read_regular(folder / _IMAGES[kind])
        resources = Resources(**meta["resources"]) if meta["resources"] else None
        cubin = Cubin(image, kind, meta["name"], meta["arch"], meta["log"], resources, str(folder))
        wanted = meta["sha256"]
    except (FileNotFoundError, NotADirectoryError) as error:
        if not os.path.lexists(folder):  # nor is there one where the cache itself is a file
            return FoundEntry(None, "")
        missing = isinstance(error, FileNotFoundError)
        what = f"{Path(str(error.filename)).name}{_MISSING}" if missing else "it is no folder"
        return FoundEntry(None, what)
    except OSError as error:
        what = f"it cannot be read: {error.strerror or error}"
        return FoundEntry(None, what, isinstance(error, PermissionError))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return FoundEntry(None, f"{META} is damaged: {error!r}")
    found = hashlib.sha256(image).hexdigest()
    if stored != key:
        return FoundEntry(None, f"its key is {stored}, not {key}")
    if found != wanted:
        return FoundEntry(None, f"{_IMAGES[kind]} has SHA-256 {found}, {META} says {wanted}")
    return FoundEntry(cubin, "")


def write_entry(folder: Path, files: dict[str, bytes]) -> None:
    """Write an entry: a temporary folder beside it, synchronised, then renamed.

    Where another process wrote the same entry first, that one stays.

    Args:
        folder: of the entry.
        files: their bytes by name.

    Raises:
        OSError: the cache cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        for name, content in files.items():
            with (temporary / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        _synchronise(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        _synchronise(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def discard(folder: Path) -> None:
    """Take a damaged entry, folder or file, out of the way.

    Raises:
        OSError: the cache cannot be written.
    """
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return  # another process was faster
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink()


def _synchronise(folder: Path) -> None:
    """Make the names in a folder outlive a crash of the machine, where folders can be opened."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
