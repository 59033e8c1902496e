"""The order of the axes of every intermediate: as the step that reads it wants them."""

from __future__ import annotations

from collections.abc import Sequence

from softcuda.contraction.network import RawStep

__all__ = ["ordered_labels"]

Labels = tuple[int, ...]


def ordered_labels(
    operands: Sequence[Labels], steps: Sequence[RawStep], last: Labels
) -> tuple[Labels, ...]:
    """Return the labels of every value in the order of its axes.

    From the last step back: what a pair reads has its batch labels in front, then is [m, k] as
    the first and [k, n] as the second operand, each in the order of the pair's result, k in the
    order of an operand that is given. The step that makes it keeps its own m and n labels apart,
    so that both steps see few axes. What sums one operand keeps that operand's order.

    Args:
        operands: labels of each operand, in the order of its axes.
        steps: the steps, labels without order.
        last: labels of the last result, in order.

    Example:
        >>> i, j, k = frozenset({0, 1}), frozenset({1, 2}), frozenset({2, 3})
        >>> pairs = [RawStep((0, 1), (i, j), frozenset({0, 2}))]
        >>> pairs.append(RawStep((3, 2), (frozenset({0, 2}), k), frozenset({0, 3})))
        >>> ordered_labels([(0, 1), (1, 2), (2, 3)], pairs, (3, 0))[3:]
        ((0, 2), (3, 0))
    """
    count = len(operands)
    orders: dict[int, Labels] = dict(enumerate(operands))
    for number, step in enumerate(steps[:-1]):
        if len(step.inputs) == 1 and step.inputs[0] < count:
            given = operands[step.inputs[0]]
            orders[count + number] = tuple(x for x in given if x in step.output)
    given_values = frozenset(orders)
    orders[count + len(steps) - 1] = last
    for number in range(len(steps) - 1, -1, -1):
        step, out = steps[number], orders[count + number]
        if len(step.inputs) == 1:
            continue
        (one, two), (a, b) = step.inputs, step.labels
        summed = sorted((a & b) - step.output)
        source = next((value for value in (one, two) if value in given_values), None)
        if source is not None:
            summed.sort(key=orders[source].index)
        batch = tuple(x for x in out if x in a and x in b)
        m = tuple(x for x in out if x in a and x not in b)
        n = tuple(x for x in out if x in b and x not in a)
        for value, wanted in ((one, (*batch, *m, *summed)), (two, (*batch, *summed, *n))):
            if value not in orders:
                orders[value] = _in_blocks(steps[value - count], wanted)
    return tuple(orders[value] for value in range(count + len(steps)))


def _in_blocks(maker: RawStep, wanted: Labels) -> Labels:
    """Return labels in a wanted order, but those of the maker's batch, m and n each together."""
    a, b = maker.labels
    blocks: dict[tuple[bool, bool], list[int]] = {}
    for label in wanted:
        blocks.setdefault((label in a, label in b), []).append(label)
    return tuple(label for block in blocks.values() for label in block)
