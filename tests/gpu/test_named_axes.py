"""Named axes on a device: the conformance suite on every CUDA backend, and plans there."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from device_leaves import device_array

import softcuda as sc
from softcuda import (
    EinsumPlan,
    OperandDescriptor,
    OperationDescriptor,
    Plan,
    TensorDescriptor,
)
from softcuda.backends import backends
from softcuda.dtype import f32
from softcuda.errors import ArgumentError
from softcuda.tools.conformance import all_checks, failures
from softcuda.tools.conformance_bench import Bench, dense, operand

CUDA = [name for name in backends() if name.startswith("cuda")]
RANDOM = 60

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def bench() -> Bench:
    return Bench("cuda_naive", "cuda")


@pytest.mark.parametrize("backend_id", CUDA)
def test_every_check_holds(backend_id: str) -> None:
    assert not list(failures(Bench(backend_id, "cuda"), list(all_checks(RANDOM))))


def test_a_plan_leaves_its_result_on_the_device(bench: Bench) -> None:
    plan = bench.einsum_plan("ik,kj->ij", [A, B])
    inputs = [bench.place(A), bench.place(B)]
    results = [plan.execute(inputs) for _ in range(4)]
    assert all(str(found.device) == "cuda:0" for found in results)
    for found in results:
        assert np.array_equal(found.numpy(), A @ B)


def test_the_row_decides_the_device(bench: Bench) -> None:
    described = [TensorDescriptor.from_tensor(x) for x in (A, B)]
    assert EinsumPlan("ik,kj->ij", described, config=bench.profile).device == "cuda"
    assert EinsumPlan("ik,kj->ij", described, config="default").device == "cpu"


def test_a_plan_on_the_host_may_compute_on_the_device(bench: Bench) -> None:
    described = [TensorDescriptor.from_tensor(x) for x in (A, B)]
    plan = EinsumPlan("ik,kj->ij", described, config=bench.profile, device="cpu")
    found = plan.execute([A, B])
    assert str(found.device) == "cpu:0"
    assert np.array_equal(found.numpy(), A @ B)


def test_inputs_elsewhere_are_refused(bench: Bench) -> None:
    plan = bench.einsum_plan("ik,kj->ij", [A, B])
    with pytest.raises(ArgumentError, match=r"input 1 is on cpu .* tensor.to\('cuda'\)"):
        plan.execute([bench.place(A), B])
    host = EinsumPlan("i->", [TensorDescriptor.contiguous((2,), f32)], config="default")
    with pytest.raises(ArgumentError, match=r"input 0 is on cuda .* tensor.to\('cpu'\)"):
        host.execute([bench.place(np.ones(2, np.float32))])


def test_scalars_of_each_run_count(bench: Bench) -> None:
    c = np.ones((2, 4), np.float32)
    operation = OperationDescriptor.contraction(
        operand(A, "ik"), operand(B, "kj"), operand(c, "ij"), dense((2, 4), f32), "ij"
    )
    plan = bench.plan(operation)
    inputs = [bench.place(x) for x in (A, B, c)]
    for alpha, beta in ((1, 0), (2, 3), (0.5, -1), (2, 3), (-0.0, 1)):
        found = plan.execute(inputs, [alpha, beta]).numpy()
        assert np.array_equal(found, alpha * (A @ B) + beta * c)


def test_results_go_into_memory_of_the_caller(bench: Bench) -> None:
    plan = bench.einsum_plan("ik,kj->ij", [A, B])
    out = sc.variable(np.zeros((2, 4), np.float32), device="cuda")
    plan.execute_into([bench.place(A), bench.place(B)], out)
    assert np.array_equal(out.numpy(), A @ B)
    square = bench.place(np.eye(3, dtype=np.float32))
    shared = sc.variable(np.zeros((3, 3), np.float32), device="cuda")
    squared = bench.einsum_plan("ik,kj->ij", [square.numpy()] * 2)
    with pytest.raises(ArgumentError, match="overlaps input 0"):
        squared.execute_into([sc.Tensor.leaf(shared.data), square], shared)


def test_strided_operands_are_read_where_they_lie(bench: Bench) -> None:
    turned = device_array(np.asfortranarray(B))
    described = OperandDescriptor(TensorDescriptor((3, 4), (1, 3), f32), "kj")
    operation = OperationDescriptor.contraction(
        operand(A, "ik"), described, None, dense((2, 4), f32), "ij"
    )
    plan = Plan(operation, config=bench.profile, device="cuda")
    found = plan.execute([bench.place(A), sc.Tensor.leaf(turned)], [1])
    assert np.array_equal(found.numpy(), A @ B)


def test_a_pickled_plan_runs(bench: Bench) -> None:
    plan = pickle.loads(pickle.dumps(bench.einsum_plan("ik,kj->ij", [A, B])))
    found = plan.execute([bench.place(A), bench.place(B)])
    assert np.array_equal(found.numpy(), A @ B)
