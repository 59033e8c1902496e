"""Scalars of plans on the host: 0 and 1 run other programs, and give the same bits."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import (
    BinaryOp,
    EinsumPlan,
    OperandDescriptor,
    OperationDescriptor,
    Plan,
    ReductionOp,
    TensorDescriptor,
    UnaryOp,
)
from softcuda.dtype import DType, bf16, f16, f32, f64

ALPHAS = (0.0, -0.0, 1, 1.0, 2, -1.5, 1e-60, np.float32(1), float("nan"))
BETAS = (0.0, -0.0, 0, 1, 0.5, 1e-60, float("inf"))


def values(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)


def operation(form: str, dtype: DType) -> tuple[OperationDescriptor, list[np.ndarray]]:
    """Return an operation that takes scalars, and inputs for it."""
    a, b, c = values(dtype, (5, 7), 1), values(dtype, (7, 3), 2), values(dtype, (5, 3), 3)
    out = TensorDescriptor.contiguous((5, 3), dtype)
    first = OperandDescriptor.from_tensor(a, "ik").with_unary(UnaryOp.Tanh)
    second, last = (OperandDescriptor.from_tensor(x, y) for x, y in ((b, "kj"), (c, "ij")))
    if form == "product":
        return OperationDescriptor.contraction(first, second, None, out, "ij"), [a, b]
    if form == "addend":
        return OperationDescriptor.contraction(first, second, last, out, "ij"), [a, b, c]
    if form == "reduction":
        row = TensorDescriptor.contiguous((5,), dtype)
        added = OperandDescriptor.from_tensor(c[:, 0], "i")
        made = OperationDescriptor.reduction(first, added, row, "i", ReductionOp.Sum)
        return made, [a, c[:, 0]]
    if form == "permutation":
        turned = TensorDescriptor.contiguous((7, 5), dtype)
        return OperationDescriptor.permutation(first, turned, "ki"), [a]
    whole = TensorDescriptor.contiguous((5, 7), dtype)
    other = OperandDescriptor.from_tensor(a[::-1], "ik")
    made = OperationDescriptor.elementwise_binary(first, other, whole, "ik", BinaryOp.Sub)
    return made, [a, a[::-1]]


FORMS = ("product", "addend", "reduction", "permutation", "binary")


def own(plan: Plan, inputs: list[np.ndarray], scalars: tuple[Any, ...]) -> np.ndarray:
    """Return what the plan's own program gives, which takes any scalars as operands."""
    arrays = [*inputs, *plan._scalar_arrays(scalars)]
    found: np.ndarray = plan._ready.runtime.run(arrays, (), plan._ready.passing)[0].copy()
    return found


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_every_program_gives_the_same_bits(form: str, dtype: DType) -> None:
    described, inputs = operation(form, dtype)
    plan = Plan(described)
    betas = BETAS if described.scalar_count > 1 else (None,)
    for alpha, beta in itertools.product(ALPHAS, betas):
        scalars = (alpha,) if beta is None else (alpha, beta)
        found = plan.execute(inputs, scalars).numpy()
        expected = own(plan, inputs, scalars)
        bits = f"u{found.itemsize}"
        is_nan = np.isnan(expected.astype(np.float64))
        np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), is_nan)
        np.testing.assert_array_equal(found.view(bits)[~is_nan], expected.view(bits)[~is_nan])


def test_what_is_not_read_may_be_anything() -> None:
    described, [a, b, c] = operation("addend", f32)
    plan = Plan(described)
    expected = plan.execute([a, b, c], (2.0, 0.0)).numpy().copy()
    unread = np.full_like(c, np.nan)
    for beta in (0, 0.0, -0.0, 1e-60):
        np.testing.assert_array_equal(plan.execute([a, b, unread], (2.0, beta)).numpy(), expected)
    assert np.isnan(plan.execute([a, b, unread], (2.0, 1.0)).numpy()).all()


def test_a_product_alone_is_made_by_blas() -> None:
    described, inputs = operation("addend", f32)
    plan = Plan(described)
    alone = plan.execute(inputs, (1, 0))
    added = plan.execute(inputs, (1, 1))
    assert (alone.op.name, alone.backend_id) == ("matmul", "cpu_blas")
    assert (added.op.name, added.backend_id) == ("add", "cpu_fused")
    whole = Plan(described, device="cpu").describe()
    assert whole == plan.describe()


def test_a_plan_that_was_pickled_has_them_too() -> None:
    described, inputs = operation("addend", f32)
    plan = Plan(described, optimize="greedy")
    copied = pickle.loads(pickle.dumps(plan))
    for scalars in ((1, 0), (1, 1), (2.5, 0.5)):
        expected = plan.execute(inputs, scalars)
        found = copied.execute(inputs, scalars)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        assert found.backend_id == expected.backend_id


def test_into_memory_of_the_caller() -> None:
    described, [a, b, c] = operation("addend", f32)
    plan = Plan(described)
    for scalars in ((1, 0), (1, 1), (2.5, 0.5)):
        out = c.copy()
        expected = plan.execute([a, b, out], scalars).numpy().copy()
        plan.execute_into([a, b, out], out, scalars)
        np.testing.assert_array_equal(out, expected)


def test_integers_keep_their_own_program() -> None:
    a = np.array([[True, False]])
    described = OperandDescriptor.from_tensor(a, "ij")
    out = TensorDescriptor.contiguous((1, 2), sc.i32)
    both = OperationDescriptor.elementwise_binary(described, described, out, "ij", BinaryOp.Add)
    np.testing.assert_array_equal(Plan(both).execute([a, a], (1, 1)).numpy(), [[2, 0]])


@pytest.mark.parametrize(
    "array",
    [
        np.broadcast_to(np.float32(3), (64, 64)),
        np.arange(64, dtype=np.float32)[::-1].reshape(8, 8),
        np.arange(128, dtype=np.float32).reshape(8, 16)[:, ::2],
        np.empty((0, 4), np.float32),
        np.broadcast_to(np.float32(2), (300, 300)),
    ],
    ids=["one element", "backwards", "gaps", "nothing", "too many"],
)
def test_operands_of_any_layout_are_copied_or_read_in_place(array: np.ndarray) -> None:
    """What is copied before a run, and what is too large for that, is what the caller has now."""
    plan = EinsumPlan("ij->j", [TensorDescriptor.from_tensor(array)])
    for _ in range(3):
        np.testing.assert_array_equal(plan.execute([array]).numpy(), array.sum(0))
    if array.flags.writeable and array.size:
        array[...] = 1
        np.testing.assert_array_equal(plan.execute([array]).numpy(), array.sum(0))
