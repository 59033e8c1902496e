"""Leaves that share memory with variables which a program changes while it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from softcuda.compiler.program import Program
from softcuda.errors import FeedError
from softcuda.executor.feeds import restrided
from softcuda.executor.on_demand import duplicate
from softcuda.pool.buffers import dense_copy

if TYPE_CHECKING:
    from softcuda.pool.device import DeviceArray

__all__ = ["InPlaceBuffers"]

Array = np.ndarray[Any, Any]
Span = tuple[int, int]


class InPlaceBuffers:
    """The buffers of variables that steps write in place.

    A leaf that lies in one of them, a variable that was fed to another leaf say, would be read
    after it was written: it is copied before the run.
    """

    def __init__(self, program: Program) -> None:
        lines = program.graph.lines
        places = [program.places[value] for value in range(len(lines)) if value in program.places]
        self._positions = [place.at for place in places if place.space == "variable"]
        self._lines = [lines[number] for number in program.leaf_lines]
        self._spans: list[Span] = []
        self._starts: list[int] = []
        self._own: dict[int, Any] = {}
        self._apart: dict[int, int] = {}  # leaf -> the device address that was found apart

    def note(self, variables: Mapping[int, Any]) -> None:
        """Note where the variables are now, by their position among the leaves."""
        self._own = {position: variables[position] for position in self._positions}
        self._spans = sorted(map(_span, self._own.values()))
        self._starts = [start for start, _ in self._spans]
        self._apart.clear()

    def apart(self, position: int, array: Array | DeviceArray) -> Array | DeviceArray:
        """Return an array that no step writes: itself, or a copy of its strides.

        The buffer that updates of the very leaf write is returned as it is: a step may read it
        where it writes it.

        Args:
            position: of the leaf.
            array: what it is bound to, of the leaf's extents and strides.

        Raises:
            FeedError: it lies in a buffer on the device with gaps between its elements.
        """
        if not self._spans or array is self._own.get(position) or self._is_apart(position, array):
            return array
        if isinstance(array, np.ndarray):
            return restrided(dense_copy(array), self._lines[position])
        made = duplicate(array)
        if made.strides != array.strides:
            raise FeedError(
                f"run: leaf {position} of shape {list(array.shape)} and strides "
                f"{list(array.strides)} [bytes] lies with gaps in the buffer of a variable that "
                "this run updates; feed a dense copy of it"
            )
        return made

    def _is_apart(self, position: int, array: Array | DeviceArray) -> bool:
        """Return whether an array shares no memory with the buffers."""
        if not isinstance(array, np.ndarray):
            if self._apart.get(position) == array.ptr:
                return True
        elif array.base is None:  # it has memory of its own: it is a buffer, or apart from all
            return not any(map(partial(is_, array), self._own.values()))
        start, stop = _span(array)
        near = bisect_right(self._starts, stop - 1) - 1
        is_apart = near < 0 or self._spans[near][1] <= start
        if is_apart and not isinstance(array, np.ndarray):
            self._apart[position] = array.ptr
        return is_apart


def _span(array: Array | DeviceArray) -> Span:
    """Return the addresses of the first byte of an array and of the one behind its last."""
    if isinstance(array, np.ndarray):
        start, is_dense = int(array.__array_interface__["data"][0]), array.flags.c_contiguous
    else:
        start, is_dense = array.ptr, array.is_contiguous
    if not array.size or is_dense:
        return start, start + array.nbytes
    reach = [s * (d - 1) for d, s in zip(array.shape, array.strides, strict=True)]
    low = start + sum(r for r in reach if r < 0)
    return low, low + sum(map(abs, reach)) + array.itemsize
