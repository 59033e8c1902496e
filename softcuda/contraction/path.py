"""The pairwise order of a contraction of any number of operands, as data that prints itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from softcuda.contraction.axes import Axes, contiguous_strides
from softcuda.contraction.classes import StepKind, kind_of_pair, kind_of_single
from softcuda.contraction.equation import Equation
from softcuda.contraction.explicit import Groups, positions_of
from softcuda.contraction.marks import spell
from softcuda.contraction.operands import OperandView
from softcuda.contraction.slicing import SlicedLabel, Storage
from softcuda.contraction.tables import amount, columns
from softcuda.errors import ArgumentError

__all__ = ["ContractionPath", "ContractionStep"]

Labels = tuple[int, ...]
Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContractionStep:
    """One or two values that become one.

    A pair is D[output] = sum A[labels[0]] * B[labels[1]]; a label that is summed is in both. One
    value alone is summed over the labels that the output lacks, and permuted. Labels are distinct
    in each value, and have their full extent there.

    Attributes:
        inputs: the values: operands are 0 to n-1, the result of step s is n + s.
        labels: labels of each input.
        output: labels of the result, in the order of its axes.
        flops: operations of one run: a product counts one and an addition one.
        nbytes: bytes that one run reads and writes.
        numel: elements of the result.
        runs: how often the step runs: once, or once a slice.
    """

    inputs: tuple[int, ...]
    labels: tuple[Labels, ...]
    output: Labels
    flops: int
    nbytes: int
    numel: int
    runs: int


@dataclass(frozen=True, slots=True)
class ContractionPath:
    """A contraction as steps of one or two values each.

    The steps work on the views of the operands. Where labels are sliced, they are those of one
    slice: each operand is first cut to the slice's part of the axes that have the label and not
    extent 1. The steps that run once come before those that run once a slice.

    Attributes:
        equation: labels of the operands and the result.
        shapes: extents of each operand.
        extents: extent of each label.
        storage: bytes an element takes.
        views: how the steps see each operand, or a slice of it.
        steps: in the order in which they run; the last gives the result.
        sliced: sliced labels, those of the output first.
        found_by: the optimiser that proposed the order.
    """

    equation: Equation
    shapes: tuple[Dims, ...]
    extents: Dims
    storage: Storage
    views: tuple[OperandView, ...]
    steps: tuple[ContractionStep, ...]
    sliced: tuple[SlicedLabel, ...]
    found_by: str

    def __str__(self) -> str:
        return self.describe()

    @property
    def output_shape(self) -> Dims:
        """Extents of the result."""
        return tuple(self.extents[label] for label in self.equation.output)

    @property
    def result(self) -> Labels:
        """Labels of what the last step gives: the output's without those that are 1 or new."""
        return self.steps[-1].output

    @property
    def slice_extents(self) -> Dims:
        """Extent of each label within a slice."""
        chunks = {cut.label: cut.chunk for cut in self.sliced}
        return tuple(chunks.get(label, extent) for label, extent in enumerate(self.extents))

    @property
    def slices(self) -> int:
        """How many slices there are; 1 without sliced labels."""
        return math.prod(cut.slices for cut in self.sliced)

    @property
    def positions(self) -> Groups:
        """The pairs as positions in the list of operands, in opt_einsum's convention."""
        return positions_of(self.tree, len(self.views))

    @property
    def tree(self) -> tuple[tuple[int, int], ...]:
        """The pairs by number: operands are 0 to n-1, the result of pair i is n + i."""
        count = len(self.views)
        number = list(range(count))
        pairs: list[tuple[int, int]] = []
        for step in self.steps:
            if len(step.inputs) == 1:
                number.append(number[step.inputs[0]])
            else:
                pairs.append((number[step.inputs[0]], number[step.inputs[1]]))
                number.append(count + len(pairs) - 1)
        return tuple(pairs)

    @property
    def flops(self) -> int:
        """Operations of all steps, all slices."""
        return sum(step.flops * step.runs for step in self.steps)

    @property
    def naive_flops(self) -> int:
        """Operations of one loop over all labels at once."""
        held = {label for labels in self.equation.inputs for label in labels}
        sums = bool(held - set(self.equation.output))
        return math.prod(self.extents[label] for label in held) * (len(self.shapes) - 1 + sums)

    @property
    def nbytes(self) -> int:
        """Bytes that all steps read and write, all slices."""
        return sum(step.nbytes * step.runs for step in self.steps)

    @property
    def largest_bytes(self) -> int:
        """Bytes of the largest intermediate, the sum over slices included."""
        sizes = [step.numel * self.storage.between for step in self.steps[:-1]]
        return max([*sizes, self.accumulator_bytes])

    @property
    def accumulator_bytes(self) -> int:
        """Bytes of the sum over slices, where it is kept apart from the result; else 0.

        It is one slice of the result in the compute type, and walks with the sliced labels of
        the output.
        """
        adds = any(cut.label not in self.equation.output for cut in self.sliced)
        if not adds or self.storage.between == self.storage.output:
            return 0
        return self.steps[-1].numel * self.storage.between

    @property
    def peak_bytes(self) -> int:
        """The most bytes that intermediates take at once, the sum over slices included."""
        count = len(self.views)
        alive: dict[int, int] = {}
        most = 0
        for number, step in enumerate(self.steps[:-1]):
            alive[count + number] = step.numel
            most = max(most, sum(alive.values()))
            for value in step.inputs:
                # What is made once is read again by the next slice.
                if step.runs == self._runs_of(value):
                    alive.pop(value, None)
        return most * self.storage.between + self.accumulator_bytes

    def _runs_of(self, value: int) -> int:
        count = len(self.views)
        return self.steps[value - count].runs if value >= count else 1

    def kinds(self, strides: Sequence[Dims] | None = None) -> tuple[StepKind, ...]:
        """Return what each step is, for operands of these strides; intermediates are row-major.

        Args:
            strides: strides of each operand [elements]; row-major ones where not given.
        """
        if strides is None:
            strides = [contiguous_strides(dims) for dims in self.shapes]
        extents = self.slice_extents
        values = []
        for view, dims, steps in zip(self.views, self.shapes, strides, strict=True):
            axes = view.axes_of(dims, steps)
            values.append(axes._replace(dims=tuple(extents[label] for label in axes.labels)))
        found = []
        for step in self.steps:
            out = Axes.dense(step.output, tuple(extents[label] for label in step.output))
            first, *second = (values[value] for value in step.inputs)
            is_pair = bool(second)
            found.append(
                kind_of_pair(first, second[0], out) if is_pair else kind_of_single(first, out)
            )
            values.append(out)
        return tuple(found)

    def describe(self, backends: Sequence[str] = (), strides: Sequence[Dims] | None = None) -> str:
        """Return the path as text: a row a step, the sliced labels, the totals.

        Args:
            backends: the backend of each step, for a column of its own; nothing leaves it out.
            strides: strides of each operand [elements]; row-major ones where not given.

        Raises:
            ArgumentError: another number of backends than steps.
        """
        if backends and len(backends) != len(self.steps):
            raise ArgumentError(
                f"{len(backends)} backends for {len(self.steps)} steps; allowed is one a step"
            )
        headings = ["step", "operands", "expression", "kind", "flops", "bytes", "elements"]
        headings += ["runs"] * bool(self.sliced) + ["backend"] * bool(backends)
        rows = []
        for number, (step, kind) in enumerate(zip(self.steps, self.kinds(strides), strict=True)):
            row = [str(number), self._operands(step), self._expression(step), str(kind)]
            row += [amount(step.flops), amount(step.nbytes), amount(step.numel)]
            row += [amount(step.runs)] * bool(self.sliced) + list(backends[number : number + 1])
            rows.append(row)
        numbers = {"step", "flops", "bytes", "elements", "runs"}
        return "\n".join([str(self.equation), columns(headings, rows, numbers), *self._totals()])

    def _operands(self, step: ContractionStep) -> str:
        """Return the inputs of a step as text: operands by number, results as s0, s1, ..."""
        count = len(self.views)
        return " ".join(str(v) if v < count else f"s{v - count}" for v in step.inputs)

    def _expression(self, step: ContractionStep) -> str:
        named = [self.equation.named(labels) for labels in step.labels]
        return spell(named, self.equation.named(step.output)).text

    def _totals(self) -> list[str]:
        lines = [
            f"order: {self.found_by}; {amount(self.flops)} flops, one loop over all labels "
            f"{amount(self.naive_flops)}",
            f"{amount(self.nbytes)} bytes read and written; intermediates: the largest "
            f"{amount(self.largest_bytes)} bytes, at once {amount(self.peak_bytes)}",
        ]
        if self.sliced:
            cuts = [
                f"{self.equation.names[cut.label]} ({cut.extent}) in {cut.slices} of {cut.chunk}"
                for cut in self.sliced
            ]
            lines.append(f"sliced: {', '.join(cuts)}; {amount(self.slices)} slices")
        return lines
