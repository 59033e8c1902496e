"""What a forked child finds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

from softcuda.errors import SoftCudaError


def in_child(work: Callable[[], object]) -> str:
    """Return what a forked child finds when it calls `work`: its result or its error as text."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except SoftCudaError as error:
            text = f"{type(error).__name__}: {error}"
        except BaseException as error:
            text = f"unexpected {type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text
