"""Outputs of the caller's: one after another, of every layout, told apart each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcuda import (
    BinaryOp,
    EinsumPlan,
    OperandDescriptor,
    OperationDescriptor,
    Plan,
    TensorDescriptor,
    UnaryOp,
    contract,
    f32,
    i32,
)
from softcuda.backends.host.chain import Blocks
from softcuda.errors import ArgumentError, IntegerPowerError, ShapeError

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


@pytest.mark.parametrize("count", [4, 1000, 300_000])
def test_an_error_leaves_the_output_as_it_was(count: int) -> None:
    base, exponent = np.full(count, 3, np.int32), np.full(count, 2, np.int32)
    out = TensorDescriptor.contiguous((count,), i32)
    operands = [OperandDescriptor.from_tensor(x, "i") for x in (base, exponent)]
    plan = Plan(OperationDescriptor.elementwise_binary(*operands, out, "i", BinaryOp.Pow))
    for _ in range(2):
        target = np.full(count, 77, np.int32)
        plan.execute_into([base, exponent], target, [1, 1])
        assert (target == 9).all()
    exponent[-1] = -1
    target = np.full(count, 77, np.int32)
    with pytest.raises(IntegerPowerError):
        plan.execute_into([base, exponent], target, [1, 1])
    assert (target == 77).all()


def test_an_interrupt_leaves_the_output_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((300, 400, 3), np.float32)
    operand = OperandDescriptor.from_tensor(x, "abc").with_unary(UnaryOp.Exp)
    out = TensorDescriptor.contiguous(x.shape, f32)
    product = OperationDescriptor.elementwise_binary(operand, operand, out, "abc", BinaryOp.Mul)
    plan = Plan(product)
    target = np.zeros(x.shape, np.float32)
    for _ in range(2):
        plan.execute_into([x, x.copy()], target, [1, 1])
    assert np.allclose(target, np.e**2)
    compute, done = Blocks.compute, []

    def interrupted(self: Any, *given: Any) -> None:
        compute(self, *given)
        done.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Blocks, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan.execute_into([x * 2, x], target, [1, 1])
    assert done
    assert np.allclose(target, np.e**2)
