"""Indexing of tensors: views by ints, slices, ... and None; rows by one integer tensor."""

from __future__ import annotations

import operator
from typing import Any, Final, NoReturn, Self, TypeVar

import numpy as np

from softcuda.errors import ArgumentError, ArgumentTypeError, AxisError, IndexOutOfRange
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.params import Dims, Gather, Permute, Shape, Slice
from softcuda.graph.shapes import check_dims, normalize_axis, numel
from softcuda.tensor.values import array_of

__all__ = ["Indexing", "integer_node"]

N = TypeVar("N", bound=Node)

_SLICE: Final = OPS["slice"]
_RESHAPE: Final = OPS["reshape"]
_PERMUTE: Final = OPS["permute"]
_TAKE: Final = OPS["take"]

_ALLOWED: Final = "allowed are ints, slices, ..., None, and one integer array or tensor on one axis"


class _Entries:
    """A key resolved against the extents: windows of each axis and what becomes of it."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.steps: list[int] = []
        self.sizes: list[int] = []
        self.kept: list[int] = []  # extents of the basic result
        self.rows: Any = None  # the integer array or tensor
        self.rows_axis = 0  # its axis in the basic result
        self.advanced: list[int] = []  # places in the key of ints and of the array

    def window(self, start: int, step: int, size: int) -> None:
        self.starts.append(start)
        self.steps.append(step)
        self.sizes.append(size)


class Indexing(Node):
    """A node with `x[...]` and take."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Self:
        found = _resolved(self.dims, key if isinstance(key, tuple) else (key,))
        sizes = tuple(found.sizes)
        kept = check_dims("getitem", found.kept)
        node = self
        if sizes != self.dims or min(found.steps, default=1) < 0 or kept == sizes:
            window = Slice(tuple(found.starts), tuple(found.steps), sizes)
            node = self.apply(_SLICE, (self,), window)
        if kept != sizes:
            node = node.apply(_RESHAPE, (node,), Shape(kept))
        if found.rows is None:
            return node
        rows = integer_node(type(self), "getitem", found.rows)
        node = node.apply(_TAKE, (node, rows), Gather(found.rows_axis))
        if found.rows_axis == 0 or _adjacent(found.advanced):
            return node
        first = tuple(range(found.rows_axis, found.rows_axis + len(rows.dims)))
        rest = tuple(axis for axis in range(len(node.dims)) if axis not in first)
        return node.apply(_PERMUTE, (node,), Permute(first + rest))

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise ArgumentTypeError(
            f"a Tensor is immutable: {key!r} cannot be assigned; use where, concat or pad to make "
            "a new tensor, or assign on a variable"
        )

    def take(self, indices: Any, axis: int | None = None) -> Self:
        """Return softcuda.take of this tensor."""
        rows = integer_node(type(self), "take", indices)
        if axis is None:
            flat = self.apply(_RESHAPE, (self,), Shape((numel(self.dims),)))
            return self.apply(_TAKE, (flat, rows), Gather(0))
        place = normalize_axis("take", axis, len(self.dims))
        check_dims("take", self.dims[:place] + rows.dims + self.dims[place + 1 :])
        return self.apply(_TAKE, (self, rows), Gather(place))


def integer_node(cls: type[N], what: str, indices: Any) -> N:
    """Return indices as a node; an empty list holds integers."""
    if isinstance(indices, cls):
        return indices
    array = array_of(what, indices)
    if not array.size and isinstance(indices, (list, tuple)):
        array = array.astype(np.int64)
    return cls.leaf(array)


def _adjacent(places: list[int]) -> bool:
    return places[-1] - places[0] == len(places) - 1


def _is_rows(item: Any) -> bool:
    if isinstance(item, Node):
        return True
    return isinstance(item, (list, range)) or (isinstance(item, np.ndarray) and item.ndim > 0)


def _is_mask(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    if isinstance(item, Node):
        return item.dtype.is_bool
    if isinstance(item, np.ndarray):
        return bool(item.dtype == np.bool_)
    return isinstance(item, list) and any(isinstance(x, (bool, np.bool_)) for x in item)


def _resolved(dims: Dims, key: tuple[Any, ...]) -> _Entries:
    """Return the windows that a key means.

    Raises:
        AxisError: more indices than axes.
        ArgumentError: two ...; and what `_one_axis` refuses.
    """
    given = len(key)
    ellipses = 0
    for item in key:
        if item is None or item is Ellipsis:
            given -= 1
            ellipses += item is Ellipsis
    if ellipses > 1:
        raise ArgumentError(f"getitem: the index holds two ...; one is allowed; {_ALLOWED}")
    if given > len(dims):
        raise AxisError(
            f"getitem: {given} indices for a tensor of shape {list(dims)}; allowed are up to "
            f"{len(dims)}"
        )
    found = _Entries()
    for place, item in enumerate(key if ellipses else (*key, Ellipsis)):
        if item is None:
            found.kept.append(1)
        elif item is Ellipsis:
            first = len(found.sizes)
            for extent in dims[first : first + len(dims) - given]:
                found.window(0, 1, extent)
                found.kept.append(extent)
        else:
            _one_axis(found, dims, place, item)
    return found


def _one_axis(found: _Entries, dims: Dims, place: int, item: Any) -> None:
    """Add what one index does to its axis.

    Raises:
        IndexOutOfRange: an int outside the axis.
        ArgumentError: a boolean mask, a slice step of 0, a second array.
        ArgumentTypeError: an index of another type.
    """
    axis = len(found.sizes)
    extent = dims[axis]
    if isinstance(item, slice):
        start, step, size = _window_of(item, extent)
        found.window(start, step, size)
        found.kept.append(size)
        return
    if _is_mask(item):
        raise ArgumentError(
            "getitem: a boolean mask gives a shape that depends on values, and shapes must be "
            "known before anything runs; use where(mask, x, other), or take with the positions"
        )
    if _is_rows(item):
        if found.rows is not None:
            raise ArgumentError(
                "getitem: two integer arrays index two axes; allowed is one; use "
                "take_along_axis, or take one axis after the other"
            )
        found.rows, found.rows_axis = item, len(found.kept)
        found.advanced.append(place)
        found.window(0, 1, extent)
        found.kept.append(extent)
        return
    try:
        index = operator.index(item)
    except TypeError:
        raise ArgumentTypeError(
            f"getitem: {item!r} of type {type(item).__name__} is no index; {_ALLOWED}"
        ) from None
    if not -extent <= index < extent:
        raise IndexOutOfRange(
            f"getitem: index {index} is outside axis {axis} of shape {list(dims)}; allowed are "
            f"{-extent} to {extent - 1}"
        )
    found.advanced.append(place)
    found.window(index % extent, 1, 1)


def _window_of(item: slice, extent: int) -> tuple[int, int, int]:
    try:
        start, stop, step = item.indices(extent)
    except ValueError:
        raise ArgumentError(
            f"getitem: the slice {item} has step 0; allowed are all other steps"
        ) from None
    except TypeError:
        raise ArgumentTypeError(
            f"getitem: the slice {item} is not made of integers; allowed are ints and None"
        ) from None
    size = len(range(start, stop, step))
    return (start, step, size) if size else (0, step, 0)
