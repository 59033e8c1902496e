"""What other processes do while soft_init measures: the processors that they keep busy."""

from __future__ import annotations

import os
import time
from typing import Final

__all__ = ["Busy", "busy_text", "worse_load"]

_COUNTED: Final = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal
_MUCH: Final = 0.2  # of all processors
_SHORTEST_S: Final = 1.0  # ticks of 10 ms say nothing of less


class Busy:
    """How busy others are, from when it is made; unknown where /proc does not say it.

    Args:
        table: the kernel's table of processor times.
    """

    def __init__(self, table: str = "/proc/stat") -> None:
        self._table = table
        self._begin_s = time.monotonic()
        self._others_s = self._others()

    def load(self) -> dict[str, float]:
        """Return how many "processors" there are, and how many of them "others" kept busy.

        Empty where it is not known, or too little time has passed.
        """
        now_s, took_s = self._others(), time.monotonic() - self._begin_s
        if self._others_s is None or now_s is None or took_s < _SHORTEST_S:
            return {}
        processors = float(os.cpu_count() or 1)
        others = min(max(now_s - self._others_s, 0.0) / took_s, processors)
        return {"others": round(others, 2), "processors": processors}

    def _others(self) -> float | None:
        """Return the processor time of all others since the machine started [seconds]."""
        try:
            with open(self._table, encoding="ascii") as file:
                ticks = [int(word) for word in file.readline().split()[1:]]
            whole_s = sum(ticks[place] for place in _COUNTED) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError, AttributeError):
            return None
        own = os.times()
        return whole_s - (own.user + own.system + own.children_user + own.children_system)


def worse_load(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Return the load of two in which others kept more processors busy."""
    return one if one.get("others", -1.0) > other.get("others", -1.0) else other


def busy_text(load: dict[str, float]) -> str:
    """Return what to say of a load, "" of one that disturbs little.

    Example:
        >>> busy_text({"others": 0.1, "processors": 2.0})
        ''
    """
    if not load or load["others"] < _MUCH * load["processors"]:
        return ""
    return (
        f"other processes kept {load['others']:.1f} of {load['processors']:.0f} processors busy "
        "meanwhile: what was measured may not be the fastest when they rest; --force measures again"
    )
