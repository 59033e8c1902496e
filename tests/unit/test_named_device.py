"""Plans on a device, over the fake driver: where operands and results are, scalars, refusals."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import Described, Theirs, on_device

import softcuda as sc
from softcuda import BinaryOp, EinsumPlan, OperationDescriptor, Plan, TensorDescriptor
from softcuda.dtype import f32
from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.named.engine import forget_plans
from softcuda.tools.conformance_bench import dense, operand

Array = np.ndarray[Any, Any]

A = np.arange(5, dtype=np.float32)
B = A[::-1].copy()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    for made in fake_kernels(monkeypatch):
        yield made
        forget_plans()


def addition(**options: Any) -> Plan:
    operation = OperationDescriptor.elementwise_binary(
        operand(A, "i"), operand(B, "i"), dense((5,), f32), "i", BinaryOp.Add
    )
    return Plan(operation, config=kernel_profile(), **options)


def test_the_row_decides_the_device(fake: FakeDriver) -> None:
    assert addition().device == "cuda"
    assert addition(device="cpu").device == "cpu"
    assert EinsumPlan("i->", [TensorDescriptor((5,), (1,), f32)], config="default").device == "cpu"


def test_operands_and_result_are_on_the_device(fake: FakeDriver) -> None:
    plan = addition()
    a, b = on_device(A), on_device(B)
    results = [plan.execute([a, b], [1, k]) for k in (1, 2, 1, -3)]
    for k, found in zip((1, 2, 1, -3), results, strict=True):
        assert str(found.device) == "cuda:0"
        assert np.array_equal(found.numpy(), A + np.float32(k) * B)


def test_a_plan_on_the_host_may_compute_on_the_device(fake: FakeDriver) -> None:
    found = addition(device="cpu").execute([A, B], [1, 1])
    assert str(found.device) == "cpu:0"
    assert np.array_equal(found.numpy(), A + B)


def test_operands_elsewhere_are_refused(fake: FakeDriver) -> None:
    plan, a = addition(), on_device(A)
    with pytest.raises(ArgumentError, match=r"input 1 is on cpu .* tensor.to\('cuda'\)"):
        plan.execute([a, B], [1, 1])
    with pytest.raises(ArgumentError, match=r"input 0 is on cuda .* tensor.to\('cpu'\)"):
        addition(device="cpu").execute([a, B], [1, 1])


def test_results_go_into_memory_of_the_caller(fake: FakeDriver) -> None:
    plan, a, b = addition(), on_device(A), on_device(B)
    out = sc.variable(np.zeros(5, np.float32), device="cuda")
    plan.execute_into([a, b], out, [1, 1])
    assert np.array_equal(out.numpy(), A + B)
    theirs = Theirs(fake, np.zeros(5, np.float32))
    plan.execute_into([a, b], theirs, [1, 2])
    assert np.array_equal(sc.asarray(Described(theirs)).numpy(), A + 2 * B)
    with pytest.raises(ArgumentError, match="the output overlaps input 0"):
        plan.execute_into([sc.Tensor.leaf(out.data), b], out, [1, 1])
    with pytest.raises(ArgumentError, match="the output is on cpu"):
        plan.execute_into([a, b], np.zeros(5, np.float32), [1, 1])
    with pytest.raises(ArgumentTypeError, match="tensors never change"):
        plan.execute_into([a, b], a, [1, 1])


def test_a_pickled_plan_runs(fake: FakeDriver) -> None:
    plan = pickle.loads(pickle.dumps(addition()))
    assert np.array_equal(plan.execute([on_device(A), on_device(B)], [2, 1]).numpy(), 2 * A + B)
