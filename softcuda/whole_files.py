"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Return a context with a file to write, which then replaces the one of that name.

    It is written beside it and renamed: what was there stays until all is on the disk, and where
    the context is left by an exception. A new file has the permissions that the umask leaves.

    Args:
        path: the file; a symbolic link is followed.

    Raises:
        OSError: it cannot be written; it names `path`.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
