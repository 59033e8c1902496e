"""A contraction path as lines: one `matmul` a pair, sums and views around it, slices in a loop."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.contraction.path import ContractionPath, ContractionStep
from softcuda.contraction.slicing import SlicedLabel
from softcuda.dtype import DType, bool_, compute_dtype, promote
from softcuda.errors import ArgumentError, DTypeError
from softcuda.graph.params import Contraction, Reduce
from softcuda.named.arithmetic import Arithmetic
from softcuda.named.sketch import Sketch, Value

__all__ = ["MOST_LINES", "Walked", "walk"]

MOST_LINES: Final = 1 << 16  # of the graph that the slices of one contraction may make


class Walked(NamedTuple):
    """What a path became.

    Attributes:
        value: its result; labels of the output without those that are 1 or new.
        steps: the line of each step of the path; of the first slice that runs it.
    """

    value: Value
    steps: tuple[int, ...]


def walk(
    sketch: Sketch, path: ContractionPath, operands: Sequence[int], arithmetic: Arithmetic
) -> Walked:
    """Append the lines of a path; return its result.

    Args:
        sketch: where they are appended.
        path: the steps.
        operands: the line of each operand.
        arithmetic: dtypes; what lies between the steps is of `between`.

    Raises:
        ArgumentError: there are so many slices that the graph would be too large.
        DTypeError: operands that are all bool and would be summed or multiplied.
    """
    count = path.slices * len(path.steps)
    if count > MOST_LINES:
        raise ArgumentError(
            f"{path.equation}: the memory limit needs {path.slices} slices of {len(path.steps)} "
            f"steps, {count} nodes; allowed are {MOST_LINES}; raise memory_limit, or give a path "
            "with smaller intermediates"
        )
    if arithmetic.between.is_bool:
        _check_bools(path)
    if _sums_nothing(sketch, path, operands):
        operands = [_hidden(sketch, line) for line in operands]
    return _Walk(sketch, path, operands, arithmetic).result()


def _check_bools(path: ContractionPath) -> None:
    """Refuse operands that are all bool and would be multiplied or summed, whatever the extents."""
    [first, *others], output = path.equation.inputs, path.equation.output
    if others:
        raise DTypeError(
            f"{path.equation}: all operands of a product are bool; allowed are numbers; cast one "
            "to an integer, or use any(logical_and(...)) for a boolean product"
        )
    if not set(first) <= set(output):
        raise DTypeError(
            f"{path.equation}: the operand is bool and would be summed; allowed are numbers; cast "
            "it to an integer, or use reduce with ReductionOp.Any"
        )


def _sums_nothing(sketch: Sketch, path: ContractionPath, operands: Sequence[int]) -> bool:
    """Return whether every element of the result is a sum over nothing, which is 0."""
    output = path.equation.output
    return any(
        extent == 0 and label not in output
        for line, labels in zip(operands, path.equation.inputs, strict=True)
        for label, extent in zip(labels, sketch.dims(line), strict=True)
    )


def _hidden(sketch: Sketch, line: int) -> int:
    """Return zeros in place of a factor: NaN and infinity times a sum over nothing are NaN."""
    dtype = sketch.dtype(line)
    if not dtype.is_inexact or 0 in sketch.dims(line):
        return line
    return sketch.add("where", sketch.number(False, bool_), line, sketch.number(0, dtype))


class _Walk:
    """The lines of one path."""

    def __init__(
        self,
        sketch: Sketch,
        path: ContractionPath,
        operands: Sequence[int],
        arithmetic: Arithmetic,
    ) -> None:
        self._sketch = sketch
        self._path = path
        self._operands = operands
        self._arithmetic = arithmetic
        self._kept: dict[int, Value] = {}
        output = path.equation.output
        self._laid = [cut for cut in path.sliced if cut.label in output]
        self._summed = [cut for cut in path.sliced if cut.label not in output]
        laid = {cut.label for cut in self._laid}
        self._labels = tuple(x for x in output if x in path.result or x in laid)
        self._steps: list[int] = []

    def result(self) -> Walked:
        line = self._joined(self._laid, {})
        return Walked(Value(line, self._labels), tuple(self._steps))

    def _joined(self, cuts: Sequence[SlicedLabel], place: dict[int, tuple[int, int]]) -> int:
        """Return the part of the result at a place: slices side by side along its labels."""
        if not cuts:
            part = Value(self._added(place), self._path.result)
            return self._sketch.spread(part, self._labels)
        cut, *rest = cuts
        parts = [
            self._joined(rest, {**place, cut.label: (number * cut.chunk, cut.chunk)})
            for number in range(cut.slices)
        ]
        return self._sketch.concat(parts, self._labels.index(cut.label))

    def _added(self, place: dict[int, tuple[int, int]]) -> int:
        """Return a part of the result: the sum over the slices of summed labels."""
        result = self._arithmetic.result
        if not self._summed:
            return self._slice(place, result)
        total = -1
        for numbers in itertools.product(*(range(cut.slices) for cut in self._summed)):
            here = {
                cut.label: (number * cut.chunk, cut.chunk)
                for cut, number in zip(self._summed, numbers, strict=True)
            }
            part = self._slice({**place, **here}, self._arithmetic.between)
            total = part if total < 0 else self._sketch.add("add", total, part)
        return self._sketch.cast(total, result)

    def _slice(self, place: dict[int, tuple[int, int]], dtype: DType) -> int:
        """Return the last value of one slice, in a dtype."""
        sketch, path = self._sketch, self._path
        is_first = not self._steps
        values = dict(self._kept)
        labels = path.equation.inputs
        for number, (line, names) in enumerate(zip(self._operands, labels, strict=True)):
            cut = sketch.cut(Value(line, names), place)
            values[number] = sketch.squeezed(sketch.distinct(cut))
        count, last = len(self._operands), len(path.steps) - 1
        for number, step in enumerate(path.steps):
            if count + number in values:
                continue
            target = dtype if number == last else self._arithmetic.between
            made = self._step(step, [values[value] for value in step.inputs], target)
            values[count + number] = made
            if is_first:
                self._steps.append(made.line)
            if step.runs == 1:
                self._kept[count + number] = made
        return values[count + last].line

    def _step(self, step: ContractionStep, inputs: Sequence[Value], dtype: DType) -> Value:
        if len(inputs) == 1:
            return self._single(inputs[0], step.output, dtype)
        return self._pair(inputs[0], inputs[1], step.output, dtype)

    def _common(self, line: int) -> int:
        """Return bools and integers in the dtype between the steps, in which they wrap or round.

        A product of them alone would wrap in their own dtype, and be rounded to the result's.
        """
        dtype = self._sketch.dtype(line)
        return line if dtype.is_inexact else self._sketch.cast(line, self._arithmetic.between)

    def _single(self, value: Value, output: tuple[int, ...], dtype: DType) -> Value:
        """Return a value summed over the labels that the output lacks, and permuted."""
        sketch, between = self._sketch, self._arithmetic.between
        line, labels = self._common(value.line), value.labels
        axes = tuple(axis for axis, label in enumerate(labels) if label not in output)
        if axes:
            is_rounded_once = sketch.dtype(line) is dtype and compute_dtype(dtype) is between
            if between.is_inexact and not is_rounded_once:
                line = sketch.cast(line, between)
            line = sketch.add("sum", line, params=Reduce(axes, False))
            labels = tuple(label for label in labels if label in output)
        return sketch.ordered(Value(sketch.cast(line, dtype), labels), output)

    def _pair(self, a: Value, b: Value, output: tuple[int, ...], dtype: DType) -> Value:
        """Return a product of two values, summed over the labels that the output lacks."""
        sketch, between = self._sketch, self._arithmetic.between
        lines = [self._common(a.line), self._common(b.line)]
        target = dtype if between in (dtype, compute_dtype(dtype)) else between
        common = promote(*(sketch.dtype(x) for x in lines))
        stated = None if common is target else target
        params = Contraction(a.labels, b.labels, output, stated, self._arithmetic.compute)
        if not target.is_inexact:
            params = params._replace(dtype=None)
        made = sketch.add("matmul", *lines, params=params)
        return Value(sketch.cast(made, dtype), output)
