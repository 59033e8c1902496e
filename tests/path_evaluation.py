"""The value of a ContractionPath, step by step with the oracle, and what lay between the steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from softcuda.contraction.path import ContractionPath
from softcuda.tools.conformance_oracle import contract

Array = np.ndarray[Any, Any]


def evaluate(path: ContractionPath, operands: Sequence[Array]) -> Array:
    """Return the result of a path on f64 arrays, any strides.

    Checks on the way that every label has its full extent in every value, that the stated
    elements are right, and that intermediates take no more at once than the path says.
    """
    output = path.equation.output
    result = np.zeros(path.output_shape)
    kept: dict[int, Array] = {}
    most = 0
    parts = [
        [(cut.label, slice(part * cut.chunk, (part + 1) * cut.chunk)) for part in range(cut.slices)]
        for cut in path.sliced
    ]
    for number, chosen in enumerate(itertools.product(*parts)):
        here = dict(chosen)
        cut = [_cut(a, ls, here) for a, ls in zip(operands, path.equation.inputs, strict=True)]
        values, peak = _run(path, cut, kept, is_first=number == 0)
        most = max(most, peak)
        place = tuple(here.get(label, slice(None)) for label in output)
        shape = [path.slice_extents[label] for label in output]
        held = [slice(None) if label in path.result else np.newaxis for label in output]
        result[place] += np.broadcast_to(values[tuple(held)], shape)
    assert most * path.storage.between + path.accumulator_bytes == path.peak_bytes
    return result


def _cut(operand: Array, labels: Sequence[int], part: dict[int, slice]) -> Array:
    """Return an operand's part of a slice; an axis of extent 1 belongs to every slice."""
    return operand[
        tuple(
            part.get(label, slice(None)) if extent != 1 else slice(None)
            for label, extent in zip(labels, operand.shape, strict=True)
        )
    ]


def _run(
    path: ContractionPath, operands: Sequence[Array], kept: dict[int, Array], *, is_first: bool
) -> tuple[Array, int]:
    """Return the last value of a slice, and the most elements alive in intermediates."""
    extents = path.slice_extents
    values: dict[int, Array] = dict(kept)
    for number, (view, operand) in enumerate(zip(path.views, operands, strict=True)):
        size = operand.itemsize
        axes = view.axes_of(operand.shape, tuple(s // size for s in operand.strides))
        values[number] = as_strided(operand, axes.dims, tuple(s * size for s in axes.strides))
    count = len(operands)
    alive = {value: array.size for value, array in kept.items()}
    most = sum(alive.values())
    for number, step in enumerate(path.steps):
        made = count + number
        if step.runs == 1 and not is_first:
            continue
        read = [values[value] for value in step.inputs]
        for labels, array in zip(step.labels, read, strict=True):
            assert array.shape == tuple(extents[label] for label in labels)
        values[made] = contract(step.labels, step.output, read)
        assert values[made].size == step.numel
        if made == count + len(path.steps) - 1:
            break
        alive[made] = step.numel
        most = max(most, sum(alive.values()))
        for value in step.inputs:
            if value >= count and path.steps[value - count].runs == step.runs:
                del alive[value], values[value]
        if step.runs == 1 and path.slices > 1:
            kept[made] = values[made]
    for value in list(kept):
        if value not in values:
            del kept[value]
    return values[count + len(path.steps) - 1], most
