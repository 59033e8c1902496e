"""A profile's place on the disk: checked before any work, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from softcuda.errors import ConfigError

__all__ = ["check_place", "place_file"]


def place_file(named: str, data: bytes, force: bool, what: str = "the profile") -> None:
    """Write a file, whole or not at all; a failure anywhere leaves what was there.

    Args:
        named: the file; a symbolic link is followed.
        data: its content.
        force: replace a file that is there.
        what: how an error names it.

    Raises:
        ConfigError: the file is there and `force` is not given, or it cannot be written.
    """
    target = _target(named)
    if not force and target.exists():
        _refuse(named)
    try:
        _replace(target, data, force)
    except FileExistsError:
        _refuse(named)
    except OSError as error:
        raise _unwritable(named, error, what) from error


def check_place(named: str) -> None:
    """Check that `place_file` can write a file: its temporary file is made, and removed again.

    Args:
        named: the file; what is there is left alone.

    Raises:
        ConfigError: the folder is missing or takes no file, or there is something at the place
            that is no regular file.
    """
    target = _target(named)
    if not os.path.isdir(target.parent):
        raise ConfigError(
            named, None, f"the folder {target.parent} is missing; make it, or choose another"
        )
    temporary = _temporary(target)
    try:
        with open(temporary, "wb") as file:
            file.write(b"#")
    except OSError as error:
        raise _unwritable(named, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _target(named: str) -> Path:
    """Return the file behind a name, whether it is there or not."""
    target = os.path.realpath(named)
    if os.path.isdir(target):
        raise ConfigError(named, None, "this is a folder; allowed is the name of a file in it")
    if os.path.lexists(target) and not os.path.isfile(target):
        raise ConfigError(named, None, "this is no regular file; allowed is a file, or a new name")
    return Path(target)


def _unwritable(named: str, error: OSError, what: str = "the profile") -> ConfigError:
    return ConfigError(
        named,
        None,
        f"{what} cannot be written: {error.strerror or error}; what was there is unchanged; "
        "choose a file in a folder that exists and that you may write to",
    )


def _refuse(named: str) -> None:
    raise ConfigError(
        named, None, "the file exists and is kept; allowed is a new name, or --force to replace it"
    )


def _replace(target: Path, data: bytes, force: bool) -> None:
    temporary = _temporary(target)
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if force or not _linked(temporary, target):
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")


def _linked(temporary: Path, target: Path) -> bool:
    """Give the file its name unless the name is taken; False where links are not known."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except (OSError, AttributeError):
        if target.exists():
            raise FileExistsError(target) from None
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename last, where the system lets a folder be synchronised."""
    if os.name != "posix":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # a folder may be writable and not readable
    try:
        os.fsync(handle)
    except OSError:
        return  # some file systems refuse this for folders; the file itself is on the disk
    finally:
        os.close(handle)
