"""Files that are written whole or not at all, and the paths that users name them by."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from softcuda.errors import ArgumentError, ArgumentTypeError

__all__ = ["path_text", "whole_file"]


def path_text(what: str, path: Any) -> str:
    """Return a path that a user gave as text.

    Args:
        what: who asks, first word of the errors.
        path: text, bytes, or a path of pathlib.

    Raises:
        ArgumentTypeError: it is something else.
        ArgumentError: it holds a null character, which no name of a file does.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise ArgumentTypeError(
            f"{what}: the path is {path!r} of type {type(path).__name__}; allowed are text and "
            "paths"
        )
    text = os.fsdecode(path)
    if "\0" in text:
        raise ArgumentError(
            f"{what}: the path {text!r} holds a null character; allowed is any other"
        )
    return text


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
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
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
