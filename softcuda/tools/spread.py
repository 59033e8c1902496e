"""What several times of one call say: which are outliers, the middle, the spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

__all__ = ["OUTLIER", "OUTLIER_RULE", "kept_times", "quantile_of"]

OUTLIER: Final = 2.0
OUTLIER_RULE: Final = (
    f"a sample of more than {OUTLIER:g} times the median of its cell is an outlier: it is in the "
    "file of samples, and counts for no median, quartile or spread"
)


def kept_times(samples: Sequence[float]) -> list[float]:
    """Return the times that are no outliers, ascending.

    Example:
        >>> kept_times([1.1, 9.0, 1.0, 1.2])
        [1.0, 1.1, 1.2]
    """
    ordered = sorted(samples)
    if not ordered:
        return []
    bound = OUTLIER * ordered[len(ordered) // 2]
    return [time for time in ordered if time <= bound]


def quantile_of(samples: Sequence[float], share: float) -> float:
    """Return a quantile of the times that are no outliers; there is at least one."""
    return float(np.quantile(kept_times(samples), share))
