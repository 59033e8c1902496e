"""Sizes and numbers of things in words, below everything that prints them."""

from __future__ import annotations

from typing import Final

__all__ = ["bytes_text", "counted"]

_SCALE: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(nbytes: int) -> str:
    """Return a size as people write it.

    Example:
        >>> bytes_text(3 << 19)
        '1.5 MiB'
    """
    size, unit = float(nbytes), 0
    while size >= 1024 and unit < len(_SCALE) - 1:
        size, unit = size / 1024, unit + 1
    return f"{nbytes} B" if unit == 0 else f"{size:.1f} {_SCALE[unit]}"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number of things in words, the plural of `one` where there is not one of them.

    Example:
        >>> counted(1, "step"), counted(0, "leaf", "leaves")
        ('1 step', '0 leaves')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
