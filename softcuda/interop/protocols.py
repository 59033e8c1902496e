"""Which protocol an object speaks, and where it says that its elements are."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.errors import ArgumentTypeError
from softcuda.interop.blocks import FOREIGN_ERRORS, host_array
from softcuda.interop.capsules import asked_for, place_of, taken
from softcuda.interop.structs import DeviceType

__all__ = ["array_of_host", "lives_on_cuda", "refuse_place"]

Array = np.ndarray[Any, Any]

_HOST: Final = (DeviceType.CPU, DeviceType.CUDA_HOST)
_CUDA: Final = (DeviceType.CUDA, DeviceType.CUDA_MANAGED)


def lives_on_cuda(value: object) -> bool:
    """Return whether an object of another library is an array in CUDA memory."""
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    place = place_of(value)
    if place is not None:
        return place.kind in _CUDA
    try:
        return hasattr(value, "__cuda_array_interface__")
    except FOREIGN_ERRORS:
        return True  # it has one; who reads it says what is wrong with it


def array_of_host(what: str, value: object) -> Array:
    """Return an object with DLPack in host memory as an array that shares its memory.

    Raises:
        ArgumentTypeError: it lives elsewhere, or does not give its array.
        ExchangeError, DTypeError, ShapeError: as `softcuda.interop.capsules.taken`.
    """
    place = place_of(value)
    if place is None or place.kind not in _HOST:
        raise refuse_place(what, value)
    return host_array(taken(what, asked_for(what, value)))


def refuse_place(what: str, value: object) -> ArgumentTypeError:
    """Return the error for an array that lives where nothing here reads."""
    place = place_of(value)
    where = "nowhere" if place is None else f"on device (type {place.kind}, index {place.ordinal})"
    return ArgumentTypeError(
        f"{what}: the {type(value).__name__} lives {where} of DLPack; allowed are host memory and "
        "memory of CUDA device 0; move it to the CPU first"
    )
