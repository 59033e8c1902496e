"""Whether a strided layout reaches one element twice: an exact test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

__all__ = ["overlaps_itself"]


def overlaps_itself(extents: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two different indices of a layout reach the same element.

    Two do exactly if differences d, not all 0, with abs(d[i]) < extents[i] have
    sum_i d[i] * strides[i] = 0. The largest strides are chosen for first: what smaller ones can
    still reach, and their common divisor, leave few choices, and mostly none.

    Args:
        extents: of each axis.
        strides: of each axis [elements]; those of extent 1 do not count.

    Example:
        >>> overlaps_itself((2, 3), (3, 1)), overlaps_itself((2, 3), (3, 2))
        (False, False)
        >>> overlaps_itself((2, 3), (2, 1)), overlaps_itself((2, 3), (0, 1))
        (True, True)
    """
    if 0 in extents:
        return False
    axes = [(abs(s), n - 1) for n, s in zip(extents, strides, strict=True) if n > 1]
    if any(not stride for stride, _ in axes):
        return True
    axes.sort(reverse=True)
    reach = [0] * (len(axes) + 1)
    divisor = [0] * (len(axes) + 1)
    for place in range(len(axes) - 1, -1, -1):
        stride, most = axes[place]
        reach[place] = reach[place + 1] + stride * most
        divisor[place] = math.gcd(divisor[place + 1], stride)
    if all(stride > reach[place + 1] for place, (stride, _) in enumerate(axes)):
        return False
    if math.prod(most + 1 for _, most in axes) > reach[0] + 1:
        return True  # more indices than elements between the first and the last

    def choices(place: int, total: int, is_chosen: bool) -> Iterator[tuple[int, bool]]:
        """Yield what axis `place` can make of the sum so far, so that the rest can reach 0."""
        stride, most = axes[place]
        rest, step = reach[place + 1], divisor[place + 1]
        low = max(-most if is_chosen else 0, -((rest + total) // stride))
        high = min(most, (rest - total) // stride)
        for chosen in _congruent(low, high, stride, total, step):
            yield total + chosen * stride, is_chosen or chosen != 0

    open_choices = [choices(0, 0, False)]
    while open_choices:
        found = next(open_choices[-1], None)
        if found is None:
            open_choices.pop()
        elif len(open_choices) < len(axes):
            open_choices.append(choices(len(open_choices), *found))
        elif found[1]:
            return True
    return False


def _congruent(low: int, high: int, stride: int, total: int, step: int) -> range:
    """Return the d from low to high with total + d * stride divisible by step; by 0 is 0."""
    if not step:
        exact = -total // stride
        is_one = exact * stride == -total and low <= exact <= high
        return range(exact, exact + 1) if is_one else range(0)
    common = math.gcd(stride, step)
    if total % common:
        return range(0)
    period = step // common
    first = -total // common * pow(stride // common, -1, period) % period
    return range(low + (first - low) % period, high + 1, period)
