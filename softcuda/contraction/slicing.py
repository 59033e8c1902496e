"""Labels that are cut into slices, so that every intermediate stays within a memory limit.

A sliced label is walked in slices of one extent. The steps that depend on it run once a slice,
and the results are written side by side (a label of the output) or added (a summed label).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from softcuda.contraction.network import Network, RawStep, labels_below
from softcuda.errors import ArgumentError

__all__ = ["SlicedLabel", "Storage", "Work", "largest_divisor", "next_cut", "total_work"]

Labels = frozenset[int]
Chunks = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes an element takes.

    Attributes:
        inputs: of each operand.
        between: of what lies between the steps, which is in the compute type.
        output: of the result.
    """

    inputs: tuple[int, ...]
    between: int
    output: int


class SlicedLabel(NamedTuple):
    """A label cut into slices of equal extent.

    Attributes:
        label: the label.
        extent: its whole extent.
        chunk: the extent of a slice; divides `extent`.
    """

    label: int
    extent: int
    chunk: int

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return self.extent // self.chunk


class Work(NamedTuple):
    """What a path costs: less work is fewer operations, then fewer elements touched.

    Attributes:
        flops: operations.
        elements: elements read and written.
    """

    flops: int
    elements: int


@lru_cache(maxsize=256)
def largest_divisor(extent: int, most: int) -> int:
    """Return the largest divisor of an extent that is at most `most`, which is 1 or more.

    Example:
        >>> largest_divisor(96, 20), largest_divisor(97, 96)
        (16, 1)
    """
    small = [d for d in range(1, math.isqrt(extent) + 1) if extent % d == 0]
    return max(d for pair in ((d, extent // d) for d in small) for d in pair if d <= most)


def next_cut(
    network: Network, steps: Sequence[RawStep], storage: Storage, limit_bytes: int, chunks: Chunks
) -> dict[int, int] | None:
    """Return the slices with one label more, or one cut finer; None where the limit is met.

    Of the labels of the largest intermediate that one is cut which leaves the least work.

    Args:
        network: the operands.
        steps: the steps of a path.
        storage: bytes an element takes.
        limit_bytes: bytes that each intermediate may take; so may the sum over slices, where
            it is kept in another type than the result's.
        chunks: the extent of a slice for each label that is sliced already.

    Raises:
        ArgumentError: the limit is less than one element.
    """
    sizes = _intermediates(network, steps, storage, chunks)
    size, labels = max(sizes, key=lambda pair: pair[0], default=(0, frozenset()))
    if size <= limit_bytes:
        return None
    tried = []
    for label in sorted(labels):
        extent = chunks.get(label, network.extents[label])
        if extent == 1:
            continue
        fitting = max(extent * limit_bytes // size, 1)
        cut = {**chunks, label: largest_divisor(network.extents[label], fitting)}
        tried.append((total_work(network, steps, cut), label, cut))
    if not tried:
        raise ArgumentError(
            f"memory_limit is {limit_bytes} bytes and one element takes {storage.between}; "
            "allowed are limits of one element or more"
        )
    return min(tried, key=lambda found: found[:2])[2]


def _numel(network: Network, chunks: Chunks, labels: Labels) -> int:
    return math.prod(chunks.get(label, network.extents[label]) for label in labels)


def _intermediates(
    network: Network, steps: Sequence[RawStep], storage: Storage, chunks: Chunks
) -> list[tuple[int, Labels]]:
    """Return (bytes, labels) of what a slice keeps beside its operands and its result."""
    kept = [step.output for step in steps[:-1]]
    if storage.output != storage.between and set(chunks) - network.output:
        kept.append(steps[-1].output)
    return [(_numel(network, chunks, labels) * storage.between, labels) for labels in kept]


def total_work(network: Network, steps: Sequence[RawStep], chunks: Chunks) -> Work:
    """Return the work of all slices; a step that no sliced label reaches runs once.

    Args:
        network: the operands.
        steps: the steps of a path.
        chunks: the extent of a slice for each sliced label.
    """
    extents = [chunks.get(label, extent) for label, extent in enumerate(network.extents)]
    inside = replace(network, extents=tuple(extents))
    slices = math.prod(network.extents[label] // chunk for label, chunk in chunks.items())
    varies = [True] * len(steps)
    if chunks:
        below = labels_below(network, [step.inputs for step in steps])
        varies = [not chunks.keys().isdisjoint(labels) for labels in below]
    numel = [inside.numel(term) for term in network.terms]
    flops = elements = 0
    for step, is_varying in zip(steps, varies, strict=True):
        numel.append(inside.numel(step.output))
        runs = slices if is_varying else 1
        flops += runs * step.flops(inside.numel(step.involved))
        elements += runs * (numel[-1] + sum(numel[value] for value in step.inputs))
    if not chunks.keys() <= network.output:
        elements += slices * numel[-1]  # slices of a summed label are added to what is there
    return Work(flops, elements)
