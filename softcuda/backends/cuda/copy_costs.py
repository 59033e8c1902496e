"""What a copy of an operand in front of a product is expected to take."""

from __future__ import annotations

from typing import Final

__all__ = ["COPY_US", "copy_us"]

COPY_US: Final = 2.0  # of a launch
COPIED: Final = 3.6e6  # bytes a microsecond, read and written


def copy_us(nbytes: int) -> float:
    """Return the microseconds that a copy of so many bytes is expected to take."""
    return COPY_US + 2 * nbytes / COPIED
