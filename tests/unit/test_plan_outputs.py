"""Outputs of the caller's: one after another, of every layout, told apart each time."""

from __future__ import annotations

import numpy as np
import pytest

from softcuda import EinsumPlan, OperandDescriptor, TensorDescriptor, contract
from softcuda.errors import ArgumentError, ShapeError

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("expression", ["ik,kj->ij", "ik,kj->ji", "ik,kj->i"])
def test_runs_write_into_one_output_after_another(expression: str) -> None:
    """What fits once is known to fit; what lies in memory is looked at each time."""
    plan = EinsumPlan(expression, [TensorDescriptor.from_tensor(x) for x in (A, B)])
    shape = plan.operation.out.extents
    held = []
    for turn in range(4):
        a, b = A + turn, B - turn
        outs = [
            np.full(shape, np.nan),
            np.full(shape, np.nan, order="F"),
            np.full(shape, np.nan, np.complex128),
            np.full((*shape, 2), np.nan)[..., 1],
            np.full(shape, np.nan)[::-1],
        ]
        for out in outs:
            plan.execute_into([a, b], out)
            held.append((out, np.einsum(expression, a, b)))
    for out, expected in held:
        assert np.array_equal(out, expected)
    frozen = np.zeros(shape)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        plan.execute_into([A, B], frozen)
    room = np.zeros(100)
    inside, first = room[: np.prod(shape)].reshape(shape), room[1:7].reshape(2, 3)
    with pytest.raises(ArgumentError, match="overlaps input 0"):
        plan.execute_into([first, B], inside)
    with pytest.raises(ShapeError, match="the output has shape"):
        plan.execute_into([A, B], np.zeros((7, 7)))


def test_white_space_between_labels_is_ignored() -> None:
    assert np.array_equal(contract(A, "i k", B, " kj", "i\tj").numpy(), A @ B)
    assert OperandDescriptor.from_tensor(A, "i j").modes == ("i", "j")
