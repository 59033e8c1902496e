"""Reading files of the cache folder, where anything may lie: nothing there hangs or overflows."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

__all__ = ["read_json", "read_regular"]


def read_regular(path: Path) -> bytes:
    """Return the bytes of a file, which must be a regular one: a pipe would never end.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read()


def read_json(path: Path) -> Any:
    """Return what the JSON of a file says.

    Raises:
        OSError: as `read_regular`.
        ValueError: it is no JSON, or nested deeper than Python reads.
    """
    try:
        return json.loads(read_regular(path).decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
