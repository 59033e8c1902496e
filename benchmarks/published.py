"""What a library took on the same kind of device, where it is not there to be measured.

    note_published(row, "NVIDIA H200", "tccg_01")

The figures lie in benchmarks/peers/, with the device, the library and the method of measuring,
which is that of the GPU suites.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.results import Check, Row, at_least

__all__ = ["beside_published", "mean_check", "note_published"]

FILE = Path(__file__).parent / "peers" / "cutensor_h200.json"
TIME = "cuTENSOR, published [us]"
RATIO = "times cuTENSOR"


@lru_cache(maxsize=1)
def _figures() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return made


def note_published(row: Row, device: str, key: str) -> None:
    """Add to a row what cuTENSOR took and how many times faster softcuda is.

    Args:
        row: a measured case.
        device: that of the run; figures of another one are not comparable, and nothing is added.
        key: the figure's name.
    """
    figures = _figures()
    us = figures["us"].get(key) if device == figures["device"] else None
    if us is None:
        return
    row.facts[TIME] = us
    if row.timings[0].us:
        row.facts[RATIO] = us / row.timings[0].us


def beside_published(name: str, row: Row) -> Check:
    """Return the check that a case is no slower than cuTENSOR was."""
    return at_least(f"{name}: {RATIO}", row.facts.get(RATIO), 1.0)


def mean_check(rows: Sequence[Row], what: str, bound: float) -> list[Check]:
    """Return the check of the geometric mean of the ratios to cuTENSOR; none without figures."""
    ratios = [row.facts[RATIO] for row in rows if RATIO in row.facts]
    if not ratios:
        return []
    mean = statistics.geometric_mean(ratios)
    return [at_least(f"{what}: times cuTENSOR, geometric mean", mean, bound)]
