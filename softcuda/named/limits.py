"""Where the path of a contraction comes from, and the memory that its intermediates may take.

The searches are loaded when the first path is asked for: they take 35 ms, and a process without
contractions of named axes does not pay for them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

import numpy as np

from softcuda.contraction.equation import Equation
from softcuda.contraction.path import ContractionPath
from softcuda.contraction.slicing import Storage
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    ForkedProcessError,
    NoDeviceError,
)
from softcuda.executor.on_demand import session
from softcuda.graph.params import Dims

__all__ = ["checked_limit", "default_limit", "found_path", "is_large"]

_PLANNING: Final = "softcuda.contraction.planning"

# Intermediates up to this size are made without a look at how much memory is free.
_UNASKED_BYTES: Final = 1 << 26

_UNKNOWN_BYTES: Final = 1 << 34  # that count as free where nothing can be asked

_SHARE: Final = 4  # of the free memory that an intermediate may take: one part of so many


def found_path(
    equation: Equation,
    shapes: tuple[Dims, ...],
    storage: Storage,
    optimize: Any,
    memory_limit: int | None,
    output_shape: Dims | None,
) -> ContractionPath:
    """Return the path of `softcuda.contraction.planning.find_path`, which says what it takes."""
    found: ContractionPath = import_module(_PLANNING).find_path(
        equation,
        shapes,
        storage,
        optimize=optimize,
        memory_limit=memory_limit,
        output_shape=output_shape,
    )
    return found


def checked_limit(what: str, memory_limit: Any) -> int | None:
    """Return a limit that a user gave.

    Raises:
        ArgumentTypeError: it is neither None nor a whole number.
        ArgumentError: it is below 1.
    """
    if memory_limit is None:
        return None
    is_float = isinstance(memory_limit, float) and memory_limit.is_integer()  # such as 1e9
    is_whole = is_float or isinstance(memory_limit, (int, np.integer))
    if isinstance(memory_limit, bool) or not is_whole:
        raise ArgumentTypeError(
            f"{what}: memory_limit is {memory_limit!r}; allowed are None and a number of bytes"
        )
    if memory_limit < 1:
        raise ArgumentError(
            f"{what}: memory_limit is {memory_limit}; allowed are 1 byte and more, and None for a "
            "quarter of the free memory"
        )
    return int(memory_limit)


def is_large(path: ContractionPath) -> bool:
    """Return whether an intermediate of a path is so large that it matters what memory is free."""
    return path.largest_bytes > _UNASKED_BYTES


def default_limit(path: ContractionPath, device: str) -> int | None:
    """Return the limit of a path that was found without one; None where it meets any limit.

    It is a quarter of the memory that is free on the device, or of the host's, rounded down to a
    power of two, so that equal work gets equal limits. A device that cannot be asked, as on a
    machine without one, counts as one with 16 GiB free: contractions are defined anywhere.

    Args:
        path: found without a limit.
        device: "cpu" or "cuda", whose memory counts.
    """
    if not is_large(path):
        return None
    share = max(_free_bytes(device) // _SHARE, _UNASKED_BYTES)
    limit = 1 << (share.bit_length() - 1)
    return None if path.largest_bytes <= limit else limit


def _free_bytes(device: str) -> int:
    try:
        if device == "cuda":
            return int(session().context.memory_info().free_bytes)
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (NoDeviceError, ForkedProcessError, AttributeError, OSError, ValueError):
        return _UNKNOWN_BYTES  # no driver that can be asked, or a system that does not say
