"""Warnings of softcuda, placed at the line of the caller's that led to them."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from softcuda.errors import SoftCudaWarning

__all__ = ["warn"]


def warn(message: str) -> None:
    """Give a SoftCudaWarning at the nearest calling line outside softcuda.

    Args:
        message: what happened, and what to do.
    """
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_own(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, SoftCudaWarning, stacklevel=level)


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "softcuda"
