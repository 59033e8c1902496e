"""What several times of one call say: which are outliers, the middle, the spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["OUTLIER", "OUTLIER_RULE", "kept_times", "median_of", "quantile_of", "short_text"]

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
    """Return a quantile of the times that are no outliers; there is at least one.

    Between two times it is on the line between them.

    Example:
        >>> quantile_of([4.0, 2.0], 0.25), quantile_of([4.0, 2.0, 3.0], 0.5)
        (2.5, 3.0)
    """
    times = kept_times(samples)
    place = share * (len(times) - 1)
    before = int(place)
    after = min(before + 1, len(times) - 1)
    return float(times[before] + (place - before) * (times[after] - times[before]))


def median_of(samples: Sequence[float]) -> float:
    """Return the median of the times that are no outliers, with the digits of a file of samples.

    Example:
        >>> median_of([1.0, 1.23456789, 2.0])
        1.2346
    """
    return float(f"{quantile_of(samples, 0.5):.5g}")


def short_text(value: float) -> str:
    """Return a time or a rate with three digits, from 100 on as a whole number.

    Example:
        >>> short_text(0.123456), short_text(99.94), short_text(12345.6)
        ('0.123', '99.9', '12346')
    """
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
