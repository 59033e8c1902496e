"""Shape functions as methods of tensors; most are views and move nothing."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from softcuda.errors import ArgumentTypeError, AxisError, ShapeError
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.params import Diagonal, Dims, Permute, Shape, Slice
from softcuda.graph.shapes import check_dims, normalize_axes, normalize_axis, numel
from softcuda.tensor.values import whole_number

__all__ = ["Shapes", "whole_numbers"]

_RESHAPE: Final = OPS["reshape"]
_PERMUTE: Final = OPS["permute"]
_BROADCAST: Final = OPS["broadcast_to"]
_SLICE: Final = OPS["slice"]
_DIAGONAL: Final = OPS["diagonal"]


def whole_numbers(what: str, name: str, value: Any, more: Sequence[Any] = ()) -> Dims:
    """Return an argument that is an int or a sequence of ints as a tuple.

    Args:
        what: who asks, first word of the error.
        name: the argument.
        value: an int or a sequence; the first of several where `more` is given.
        more: the others, for calls such as reshape(2, 3).

    Raises:
        ArgumentTypeError: something is no integer.
    """
    try:
        if more:
            return tuple(operator.index(v) for v in (value, *more))
        return (operator.index(value),)
    except TypeError:
        pass
    given: Iterable[Any] = value
    try:
        if not more:
            return tuple(operator.index(v) for v in given)
    except TypeError:
        pass
    shown = (value, *more) if more else value
    raise ArgumentTypeError(f"{what}: {name} is {shown!r}; allowed is an int or a sequence of ints")


class Shapes(Node):
    """A node with shape functions as methods: the functions of the same names."""

    __slots__ = ()

    @property
    def T(self) -> Self:
        """The tensor with its axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Self:
        """The tensor with its last two axes swapped.

        Raises:
            ShapeError: it has fewer than two axes.
        """
        if len(self.dims) < 2:
            raise ShapeError(
                f"mT: the tensor has shape {list(self.dims)}; at least two axes are needed"
            )
        return self.swapaxes(-1, -2)

    def reshape(self, shape: int | Sequence[int], *more: int) -> Self:
        """Return softcuda.reshape of this tensor."""
        target = _filled_in(self.dims, whole_numbers("reshape", "shape", shape, more))
        return self.apply(_RESHAPE, (self,), Shape(check_dims("reshape", target)))

    def permute_dims(self, axes: int | Sequence[int], *more: int) -> Self:
        """Return softcuda.permute_dims of this tensor."""
        return self._permuted("permute_dims", whole_numbers("permute_dims", "axes", axes, more))

    def transpose(self, axes: int | Sequence[int] | None = None, *more: int) -> Self:
        """Return softcuda.transpose of this tensor."""
        if axes is None:
            return self._permuted("transpose", tuple(range(len(self.dims)))[::-1])
        return self._permuted("transpose", whole_numbers("transpose", "axes", axes, more))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return softcuda.swapaxes of this tensor."""
        order = list(range(len(self.dims)))
        first = normalize_axis("swapaxes", axis1, len(order))
        second = normalize_axis("swapaxes", axis2, len(order))
        order[first], order[second] = second, first
        return self._permuted("swapaxes", tuple(order))

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return softcuda.moveaxis of this tensor.

        Raises:
            AxisError: there is no such axis, or the two differ in number.
        """
        rank = len(self.dims)
        old = _each_axis("moveaxis", source, rank)
        new = _each_axis("moveaxis", destination, rank)
        if len(old) != len(new):
            raise AxisError(
                f"moveaxis: source {source!r} names {len(old)} axes and destination "
                f"{destination!r} names {len(new)}; both must name as many"
            )
        order = [axis for axis in range(rank) if axis not in old]
        for place, axis in sorted(zip(new, old, strict=True)):
            order.insert(place, axis)
        return self._permuted("moveaxis", tuple(order))

    def _permuted(self, what: str, axes: Dims) -> Self:
        rank = len(self.dims)
        found = tuple(normalize_axis(what, axis, rank) for axis in axes)
        if len(set(found)) != rank or len(found) != rank:
            raise AxisError(
                f"{what}: axes {list(axes)} do not name each of the {rank} axes of shape "
                f"{list(self.dims)} once"
            )
        return self.apply(_PERMUTE, (self,), Permute(found))

    def broadcast_to(self, shape: int | Sequence[int]) -> Self:
        """Return softcuda.broadcast_to of this tensor."""
        return self.apply(_BROADCAST, (self,), Shape(check_dims("broadcast_to", shape)))

    def expand_dims(self, axis: int | Sequence[int]) -> Self:
        """Return softcuda.expand_dims of this tensor."""
        given = whole_numbers("expand_dims", "axis", axis)
        rank = len(self.dims) + len(given)
        places = normalize_axes("expand_dims", given, rank)
        rest = iter(self.dims)
        dims = tuple(1 if place in places else next(rest) for place in range(rank))
        return self.apply(_RESHAPE, (self,), Shape(check_dims("expand_dims", dims)))

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return softcuda.squeeze of this tensor.

        Raises:
            AxisError, ShapeError: there is no such axis, or it has another extent than 1.
        """
        dims = self.dims
        if axis is None:
            return self.apply(_RESHAPE, (self,), Shape(tuple(d for d in dims if d != 1)))
        axes = normalize_axes("squeeze", axis, len(dims))
        for place in axes:
            if dims[place] != 1:
                raise ShapeError(
                    f"squeeze: axis {place} of shape {list(dims)} has extent {dims[place]}; "
                    "only axes of extent 1 can go"
                )
        rest = tuple(d for place, d in enumerate(dims) if place not in axes)
        return self.apply(_RESHAPE, (self,), Shape(rest))

    def flip(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return softcuda.flip of this tensor."""
        axes = normalize_axes("flip", axis, len(self.dims))
        extents = list(enumerate(self.dims))
        starts = tuple(max(d - 1, 0) if place in axes else 0 for place, d in extents)
        steps = tuple(-1 if place in axes else 1 for place, _ in extents)
        return self.apply(_SLICE, (self,), Slice(starts, steps, self.dims))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Return softcuda.diagonal of this tensor.

        Raises:
            AxisError, ShapeError: there are no two such axes.
        """
        rank = len(self.dims)
        if rank < 2:
            raise ShapeError(
                f"diagonal: the tensor has shape {list(self.dims)}; at least two axes are needed"
            )
        first = normalize_axis("diagonal", axis1, rank)
        second = normalize_axis("diagonal", axis2, rank)
        if first == second:
            raise AxisError(
                f"diagonal: axis1 {axis1} and axis2 {axis2} are the same axis of shape "
                f"{list(self.dims)}; two different ones are allowed"
            )
        above = whole_number("diagonal", "offset", offset)
        return self.apply(_DIAGONAL, (self,), Diagonal(first, second, above))


def _each_axis(what: str, axes: int | Sequence[int], rank: int) -> Dims:
    given = whole_numbers(what, "axis", axes)
    normalize_axes(what, given, rank)  # refuses an axis named twice
    return tuple(normalize_axis(what, axis, rank) for axis in given)


def _filled_in(dims: Dims, target: Dims) -> Dims:
    """Return the target of a reshape with its -1, if any, replaced."""
    if -1 not in target:
        return target
    count, known = numel(dims), numel(tuple(d for d in target if d != -1))
    if target.count(-1) > 1 or known <= 0 or count % known:
        raise ShapeError(
            f"reshape: shape {list(dims)} with {count} elements does not determine the -1 in "
            f"{list(target)}; one extent may be -1, and the others must divide the elements"
        )
    return tuple(count // known if d == -1 else d for d in target)
