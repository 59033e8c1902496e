"""The cheapest order of the pairs of a few operands, found exactly."""

from __future__ import annotations

from softcuda.contraction.network import Network, Tree

__all__ = ["optimal"]


def optimal(network: Network, largest: int | None = None) -> Tree | None:
    """Return the order of pairs with the fewest operations.

    Every way of splitting every subset of the operands is tried, outer products included: the
    work grows as 3^n. Of equal ones that with the fewest elements in intermediates is taken.

    Args:
        network: at least one operand.
        largest: elements that an intermediate may have; None for any number.

    Returns:
        The tree; None where every order has a larger intermediate.

    Example:
        >>> i, j, k = frozenset({0, 1}), frozenset({1, 2}), frozenset({2})
        >>> optimal(Network((i, j, k), frozenset({0}), (10, 10, 10)))
        ((1, 2), (0, 3))
    """
    count = len(network.terms)
    full = (1 << count) - 1
    masks = [sum(1 << label for label in term) for term in network.terms]
    output = sum(1 << label for label in network.output)
    union = [0] * (full + 1)
    for subset in range(1, full + 1):
        low = subset & -subset
        union[subset] = union[subset ^ low] | masks[low.bit_length() - 1]
    legs = [union[subset] & (union[full ^ subset] | output) for subset in range(full + 1)]
    numel = _Numel(network.extents)
    costs: list[tuple[int, int] | None] = [None] * (full + 1)
    splits = [0] * (full + 1)
    for subset in range(1, full + 1):
        if not subset & (subset - 1):
            costs[subset] = (0, 0)
            continue
        made = legs[subset]
        if largest is not None and subset != full and numel[made] > largest:
            continue
        best: tuple[int, int] | None = None
        part = (subset - 1) & subset
        while part > subset ^ part:  # the parts that hold the last operand: each split once
            one, two = costs[part], costs[subset ^ part]
            if one is not None and two is not None:
                involved = legs[part] | legs[subset ^ part]
                flops = numel[involved] * (1 if involved == made else 2)
                cost = (one[0] + two[0] + flops, one[1] + two[1])
                if best is None or cost < best:
                    best, splits[subset] = cost, part
            part = (part - 1) & subset
        if best is not None:
            costs[subset] = (best[0], best[1] + numel[made])
    return None if costs[full] is None else _tree(splits, count)


class _Numel(dict[int, int]):
    """Elements of a tensor by the bit mask of its labels, computed when first asked for."""

    def __init__(self, extents: tuple[int, ...]) -> None:
        super().__init__()
        self._extents = extents

    def __missing__(self, mask: int) -> int:
        value, left = 1, mask
        while left:
            low = left & -left
            value *= self._extents[low.bit_length() - 1]
            left ^= low
        self[mask] = value
        return value


def _tree(splits: list[int], count: int) -> Tree:
    """Return the pairs that the chosen splits stand for."""
    order: list[int] = []
    waiting = [(1 << count) - 1]
    while waiting:
        subset = waiting.pop()
        if subset & (subset - 1):
            order.append(subset)
            waiting += [splits[subset], subset ^ splits[subset]]
    order.reverse()
    number = {1 << operand: operand for operand in range(count)}
    number |= {subset: count + place for place, subset in enumerate(order)}
    pairs = [(number[splits[s]], number[s ^ splits[s]]) for s in order]
    return tuple((min(pair), max(pair)) for pair in pairs)
