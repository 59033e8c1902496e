"""A network of operands as sets of labels, and what an order of its pairs costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

__all__ = ["Network", "RawStep", "Tree", "Values", "depth_first", "labels_below", "raw_steps"]

Labels = frozenset[int]

# Pairs of values, in the order in which they are formed. Values 0 to n-1 are the operands, value
# n + i is what pair i gives.
Tree = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Network:
    """A product of operands, summed over the labels that the output lacks.

    Attributes:
        terms: labels of each operand. Every label has its full extent in every operand.
        output: labels of the result.
        extents: extent of each label, by label.
    """

    terms: tuple[Labels, ...]
    output: Labels
    extents: tuple[int, ...]

    def numel(self, labels: Iterable[int]) -> int:
        """Return the elements of a tensor with these labels."""
        return math.prod(self.extents[label] for label in labels)

    def without_private_labels(self) -> Network:
        """Return the network whose operands were summed over the labels that they alone have."""
        held = Counter(label for term in self.terms for label in term)
        private = frozenset(x for x, terms in held.items() if terms == 1) - self.output
        if not private:
            return self
        return replace(self, terms=tuple(term - private for term in self.terms))


class RawStep(NamedTuple):
    """One or two values that become one; their labels have no order yet.

    Attributes:
        inputs: the values, numbered as in a path: operands first, then results of steps.
        labels: labels of each.
        output: labels of the result.
    """

    inputs: tuple[int, ...]
    labels: tuple[Labels, ...]
    output: Labels

    @property
    def involved(self) -> Labels:
        """Every label that the step loops over."""
        return self.labels[0].union(*self.labels[1:])

    def flops(self, numel: int) -> int:
        """Return the operations of a step that loops over `numel` index values.

        A product counts one and a sum one; a step that only moves counts none.
        """
        sums = self.involved != self.output
        return numel * (len(self.inputs) - 1 + sums)


class Values:
    """The values of a network while its pairs are formed, and their labels.

    Args:
        network: the operands.
    """

    def __init__(self, network: Network) -> None:
        self.labels: list[Labels] = list(network.terms)
        self._output = network.output
        self._holders = dict.fromkeys(frozenset().union(*network.terms), 0)
        for term in network.terms:
            for label in term:
                self._holders[label] += 1

    def kept(self, *values: int) -> Labels:
        """Return those labels of values that the output or any other value has."""
        left: dict[int, int] = {}
        for value in values:
            for label in self.labels[value]:
                left[label] = left.get(label, 0) + 1
        return frozenset(
            [x for x, own in left.items() if self._holders[x] > own or x in self._output]
        )

    def join(self, *values: int) -> int:
        """Return the number of a new value: what these become, summed over labels of theirs."""
        kept = self.kept(*values)
        holders = self._holders
        for value in values:
            for label in self.labels[value]:
                holders[label] -= 1
        for label in kept:
            holders[label] += 1
        self.labels.append(kept)
        return len(self.labels) - 1


def raw_steps(network: Network, tree: Tree) -> tuple[RawStep, ...]:
    """Return the steps of a tree; labels that one operand alone has are summed first.

    Of a pair, the value that holds the earlier operand comes first.

    Example:
        >>> ab, bc = frozenset({0, 1}), frozenset({1, 2})
        >>> network = Network((ab, bc), frozenset({0}), (2, 3, 4))
        >>> [step.inputs for step in raw_steps(network, ((0, 1),))]
        [(1,), (0, 2)]
    """
    values = Values(network)
    steps: list[RawStep] = []
    operands = len(network.terms)
    # For each value of the tree: its number among the values of the steps, its first operand.
    number = list(range(len(network.terms)))
    first = list(number)

    def add(*inputs: int) -> int:
        labels = tuple(values.labels[value] for value in inputs)
        made = values.join(*inputs)
        steps.append(RawStep(inputs, labels, values.labels[made]))
        return made

    if len(network.terms) == 1:
        add(0)
    for pair in tree:
        a, b = sorted(pair, key=lambda value: first[value])
        # Only operands have labels of their own: of a result, another value has every label.
        summed = [
            add(v) if v < operands and values.kept(v) != values.labels[v] else number[v]
            for v in (a, b)
        ]
        number.append(add(*summed))
        first.append(first[a])
    return tuple(steps)


def depth_first(network: Network, tree: Tree) -> Tree:
    """Return the same pairs in the order that keeps the fewest elements alive.

    Of two branches, the one whose evaluation then needs less at its peak is formed first.

    Source:
        R. Sethi and J. D. Ullman, The generation of optimal code for arithmetic expressions,
        J. ACM 17 (1970): with sizes in the place of registers.
    """
    count = len(network.terms)
    values = Values(network)
    sizes = [0] * count
    peaks = [0] * count
    children: list[tuple[int, int]] = []
    for a, b in tree:
        size = network.numel(values.labels[values.join(a, b)])
        a_first = max(peaks[a], sizes[a] + peaks[b])
        b_first = max(peaks[b], sizes[b] + peaks[a])
        children.append((a, b) if a_first <= b_first else (b, a))
        peaks.append(max(min(a_first, b_first), sizes[a] + sizes[b] + size))
        sizes.append(size)
    order: list[int] = []
    waiting = [count + len(tree) - 1] if tree else []
    while waiting:
        value = waiting.pop()
        if value >= count:
            order.append(value)
            waiting.extend(children[value - count])
    order.reverse()  # children, the later one nearer, before their parent
    number = list(range(count)) + [0] * len(tree)
    for place, value in enumerate(order):
        number[value] = count + place
    ordered = [tree[value - count] for value in order]
    return tuple((number[a], number[b]) for a, b in ordered)


def labels_below(network: Network, inputs: Iterable[tuple[int, ...]]) -> tuple[Labels, ...]:
    """Return every label of the operands that each step depends on.

    Args:
        network: the operands.
        inputs: the values that each step reads.
    """
    below = list(network.terms)
    for values in inputs:
        below.append(frozenset().union(*(below[value] for value in values)))
    return tuple(below[len(network.terms) :])
