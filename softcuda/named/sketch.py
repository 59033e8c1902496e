"""Lines of a graph over labelled values: the steps that every named-axis operation is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.dtype import DType
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS
from softcuda.graph.params import (
    Cast,
    Concat,
    Constant,
    Diagonal,
    Dims,
    Params,
    Permute,
    Shape,
    Slice,
    literal,
)

__all__ = ["Sketch", "Value"]

Labels = tuple[int, ...]

_INPUT: Final = OPS["input"]
_CONSTANT: Final = OPS["constant"]


class Value(NamedTuple):
    """A line, and the label of each of its axes."""

    line: int
    labels: Labels


class Sketch:
    """Lines that are being written; the first ones stand for the operands.

    Attributes:
        lines: all lines so far.
    """

    def __init__(self, operands: Sequence[tuple[Dims, DType]]) -> None:
        """Begin with one line an operand: its extents and dtype."""
        self._builder = GraphBuilder()
        self.lines = self._builder.lines
        for dims, dtype in operands:
            self.operand(dims, dtype)

    def operand(self, dims: Dims, dtype: DType) -> int:
        """Append a line that stands for an operand; return its line."""
        return self._builder.append(Line(_INPUT, (), dims, dtype, ()))

    def dims(self, line: int) -> Dims:
        """Return the extents of a line."""
        return self.lines[line].dims

    def dtype(self, line: int) -> DType:
        """Return the dtype of a line."""
        return self.lines[line].dtype

    def add(self, token: str, *inputs: int, params: Params = ()) -> int:
        """Append an op over lines, by the rules of the op table; return its line."""
        return self._builder.add(OPS[token], inputs, params)

    def number(self, value: bool | int | float, dtype: DType) -> int:
        """Append a number; return its line."""
        return self._builder.append(Line(_CONSTANT, (), (), dtype, Constant(literal(value), dtype)))

    def cast(self, line: int, dtype: DType) -> int:
        """Return a line in a dtype: itself where it has it."""
        if self.dtype(line) is dtype:
            return line
        return self.add("cast", line, params=Cast(dtype))

    def reshaped(self, line: int, dims: Dims) -> int:
        """Return a line with other extents of as many elements."""
        return line if self.dims(line) == dims else self.add("reshape", line, params=Shape(dims))

    def filled(self, line: int, dims: Dims) -> int:
        """Return a line whose extents of 1 are stretched to `dims`."""
        if self.dims(line) == dims:
            return line
        return self.add("broadcast_to", line, params=Shape(dims))

    def concat(self, parts: Sequence[int], axis: int) -> int:
        """Return lines joined along an axis."""
        return parts[0] if len(parts) == 1 else self.add("concat", *parts, params=Concat(axis))

    def distinct(self, value: Value) -> Value:
        """Return a value whose labels are distinct: a repeated one walks the diagonal."""
        line, labels = value
        while len(set(labels)) < len(labels):
            label = next(x for x in labels if labels.count(x) > 1)
            first = labels.index(label)
            second = labels.index(label, first + 1)
            line = self.add("diagonal", line, params=Diagonal(first, second, 0))
            rest = tuple(x for axis, x in enumerate(labels) if axis not in (first, second))
            labels = (*rest, label)
        return Value(line, labels)

    def squeezed(self, value: Value) -> Value:
        """Return a value without its axes of extent 1."""
        dims = self.dims(value.line)
        kept = [axis for axis, extent in enumerate(dims) if extent != 1]
        line = self.reshaped(value.line, tuple(dims[axis] for axis in kept))
        return Value(line, tuple(value.labels[axis] for axis in kept))

    def ordered(self, value: Value, labels: Labels) -> Value:
        """Return a value with its axes in another order."""
        axes = tuple(value.labels.index(label) for label in labels)
        if axes == tuple(range(len(axes))):
            return value
        return Value(self.add("permute", value.line, params=Permute(axes)), labels)

    def spread(self, value: Value, labels: Labels) -> int:
        """Return the line of a value that has these labels, extent 1 where it lacks one."""
        held = self.ordered(value, tuple(x for x in labels if x in value.labels))
        extents = dict(zip(held.labels, self.dims(held.line), strict=True))
        return self.reshaped(held.line, tuple(extents.get(label, 1) for label in labels))

    def cut(self, value: Value, parts: dict[int, tuple[int, int]]) -> Value:
        """Return the part of a value where labels run from `start` for `size`.

        An axis of extent 1 belongs to every part.

        Args:
            value: its labels may repeat.
            parts: label -> (start, size).
        """
        dims = self.dims(value.line)
        ranges = [
            parts[label] if label in parts and extent != 1 else (0, extent)
            for label, extent in zip(value.labels, dims, strict=True)
        ]
        sizes = tuple(size for _, size in ranges)
        if sizes == dims:
            return value
        params = Slice(tuple(start for start, _ in ranges), (1,) * len(dims), sizes)
        return Value(self.add("slice", value.line, params=params), value.labels)
