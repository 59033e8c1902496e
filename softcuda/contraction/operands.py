"""How an operand is seen by a path: one axis a label, none of extent 1."""

from __future__ import annotations

from dataclasses import dataclass

from softcuda.contraction.axes import Axes

__all__ = ["OperandView", "view_of"]

Labels = tuple[int, ...]
Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperandView:
    """An operand without repeated labels and without axes of extent 1; a view, no copy.

    A repeated label walks the diagonal: its axes step together. An axis of extent 1 is left out:
    where its label has a larger extent elsewhere, it broadcasts. So every label of a view has the
    label's full extent.

    Attributes:
        labels: distinct labels, in the order in which the operand has them.
        axes: for each label the axes of the operand that step together.
    """

    labels: Labels
    axes: tuple[tuple[int, ...], ...]

    def axes_of(self, dims: Dims, strides: Dims) -> Axes:
        """Return the view's axes.

        Args:
            dims: extents of the operand.
            strides: strides of the operand [elements].

        Example:
            >>> view_of((0, 0, 1, 2), (2, 2, 1, 3)).axes_of((2, 2, 1, 3), (6, 3, 3, 1))
            Axes(labels=(0, 2), dims=(2, 3), strides=(9, 1))
        """
        return Axes(
            self.labels,
            tuple(dims[group[0]] for group in self.axes),
            tuple(sum(strides[axis] for axis in group) for group in self.axes),
        )


def view_of(labels: Labels, dims: Dims) -> OperandView:
    """Return how an operand with these labels and extents is seen.

    Example:
        >>> view_of((3, 5, 3), (2, 1, 2))
        OperandView(labels=(3,), axes=((0, 2),))
    """
    groups: dict[int, tuple[int, ...]] = {}
    for axis, (label, extent) in enumerate(zip(labels, dims, strict=True)):
        if extent != 1:
            groups[label] = (*groups.get(label, ()), axis)
    return OperandView(tuple(groups), tuple(groups.values()))
