"""Where values are: devices and their names."""

from __future__ import annotations

from typing import Final, NamedTuple

from softcuda.errors import ArgumentError

__all__ = ["HOST", "Device", "named_device"]


class Device(NamedTuple):
    """A device is (type, index) everywhere."""

    type: str
    index: int  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


HOST: Final = Device("cpu", 0)
_PLACES: Final = {"cpu": "cpu", "cpu:0": "cpu", "cuda": "cuda", "cuda:0": "cuda"}


def named_device(what: str, device: object) -> str:
    """Return the type of the device that a name, or a Device, means.

    Args:
        what: who asks, first word of the error.
        device: "cpu" or "cuda", with or without the index 0; programs run on no other.

    Raises:
        ArgumentError: there is no device of this name.
    """
    place = _PLACES.get(str(device)) if isinstance(device, (str, Device)) else None
    if place is None:
        raise ArgumentError(
            f"{what}: there is no device {str(device)!r}; allowed are 'cpu' and 'cuda', which are "
            "also 'cpu:0' and 'cuda:0'"
        )
    return place
