"""The axes of an operand by label, and which of them can be walked as one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Axes", "FusedAxes", "contiguous_strides", "fuse_axes"]

Labels = tuple[int, ...]
Dims = tuple[int, ...]


def contiguous_strides(dims: Dims) -> Dims:
    """Return the row-major strides [elements] of these extents.

    Example:
        >>> contiguous_strides((2, 3, 4))
        (12, 4, 1)
    """
    strides = [1] * len(dims)
    step = 1
    for axis in range(len(dims) - 1, -1, -1):
        strides[axis] = step
        step *= max(dims[axis], 1)
    return tuple(strides)


class Axes(NamedTuple):
    """The axes of an operand that count: one label, extent and stride [elements] each."""

    labels: Labels
    dims: Dims
    strides: Dims

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.dims)

    @staticmethod
    def dense(labels: Labels, dims: Dims) -> Axes:
        """Return row-major axes."""
        return Axes(labels, dims, contiguous_strides(dims))

    @staticmethod
    def counting(labels: Labels, dims: Dims, strides: Dims) -> Axes:
        """Return the axes of an operand without those of extent 1, whose strides say nothing.

        A repeated label is one axis, the diagonal.
        """
        found: dict[int, tuple[int, int]] = {}
        for label, extent, stride in zip(labels, dims, strides, strict=True):
            if extent != 1:
                found[label] = extent, stride + found.get(label, (1, 0))[1]
        kept = found.values()
        return Axes(tuple(found), tuple(e for e, _ in kept), tuple(s for _, s in kept))

    def over(self, order: Sequence[int]) -> Axes:
        """Return the axes of these labels in this order; an absent label has stride 0, extent 1."""
        place = {label: axis for axis, label in enumerate(self.labels)}
        return Axes(
            tuple(order),
            tuple(self.dims[place[x]] if x in place else 1 for x in order),
            tuple(self.strides[place[x]] if x in place else 0 for x in order),
        )

    def without(self, labels: Sequence[int]) -> Axes:
        """Return dense row-major axes without some labels: those of a sum over them."""
        kept = [axis for axis, label in enumerate(self.labels) if label not in labels]
        return Axes.dense(
            tuple(self.labels[axis] for axis in kept), tuple(self.dims[axis] for axis in kept)
        )


class FusedAxes(NamedTuple):
    """Operands whose jointly contiguous labels are one axis each.

    Attributes:
        operands: axes of each operand; the label of a fused axis is the innermost of its labels.
        groups: (outermost, ..., innermost) labels of each axis.
    """

    operands: tuple[Axes, ...]
    groups: tuple[Labels, ...]


def fuse_axes(operands: Sequence[Axes]) -> FusedAxes:
    """Return the operands with as few axes as their strides allow.

    Labels i (outer) and j (inner) are one axis when the same operands have them and in each of
    these stride(i) = extent(j) * stride(j). Axes of extent 1 are dropped. An axis keeps the place
    of its innermost label.

    Args:
        operands: axes of the inputs and the result, a label at most once each; its extents are
            equal or 1.

    Example:
        >>> a = Axes((0, 1, 2), (2, 3, 4), (12, 4, 1))
        >>> b = Axes((1, 2, 3), (3, 4, 5), (1, 3, 12))
        >>> fuse_axes([a, Axes((0, 1, 2), (2, 3, 4), (24, 8, 2))]).groups
        ((0, 1, 2),)
        >>> fuse_axes([a, b]).groups
        ((0,), (1,), (2,), (3,))
    """
    given = [Axes.counting(axes.labels, axes.dims, axes.strides) for axes in operands]
    extents: dict[int, int] = {}
    steps: dict[int, tuple[tuple[int, int], ...]] = defaultdict(tuple)
    for number, axes in enumerate(given):
        for label, extent, stride in zip(axes.labels, axes.dims, axes.strides, strict=True):
            extents[label] = extent
            steps[label] += ((number, stride),)
    groups = _groups(extents, steps)
    extent_of = {group[-1]: math.prod(extents[label] for label in group) for group in groups}
    fused = []
    for axes in given:
        kept = [axis for axis, label in enumerate(axes.labels) if label in extent_of]
        labels = tuple(axes.labels[axis] for axis in kept)
        dims = tuple(extent_of[label] for label in labels)
        fused.append(Axes(labels, dims, tuple(axes.strides[axis] for axis in kept)))
    return FusedAxes(tuple(fused), groups)


def _groups(
    extents: dict[int, int], steps: dict[int, tuple[tuple[int, int], ...]]
) -> tuple[Labels, ...]:
    """Return the labels that are one axis, in the order in which their innermost ones occur.

    A label is known by its (operand, stride) pairs: those of the label outside it are the same
    with the strides times its extent.
    """
    waiting: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
    for label, step in steps.items():
        waiting[step].append(label)
    outer: dict[int, int] = {}
    inner: dict[int, int] = {}
    for label, step in steps.items():
        wanted = tuple((number, stride * extents[label]) for number, stride in step)
        fitting = waiting.get(wanted, [])
        found = next((x for x in fitting if x != label and not _is_below(x, label, inner)), None)
        if found is not None:
            fitting.remove(found)
            outer[label], inner[found] = found, label
    groups = []
    for innermost in (label for label in steps if label not in inner):
        chain = [innermost]
        while chain[-1] in outer:
            chain.append(outer[chain[-1]])
        groups.append(tuple(reversed(chain)))
    return tuple(groups)


def _is_below(label: int, other: int, inner: dict[int, int]) -> bool:
    """Return whether `label` already lies inside `other`'s axis, where a cycle would close."""
    while other in inner:
        other = inner[other]
        if other == label:
            return True
    return False
