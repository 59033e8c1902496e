"""Plans: descriptors, runs, outputs of the caller, sharing, pickling, what is said of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import (
    BinaryOp,
    ComputeType,
    EinsumPlan,
    OperandDescriptor,
    OperationDescriptor,
    Plan,
    ReductionOp,
    TensorDescriptor,
    UnaryOp,
)
from softcuda.dtype import f16, f32, f64
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DriverNotFound,
    DTypeError,
    FeedError,
    ForkedProcessError,
    NoDeviceError,
    ShapeError,
)
from softcuda.named import limits

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)
C = np.ones((2, 4))


def described(array: np.ndarray, modes: str) -> OperandDescriptor:
    return OperandDescriptor.from_tensor(array, modes)


def product(c: np.ndarray | None = None) -> OperationDescriptor:
    return OperationDescriptor.contraction(
        described(A, "ik"),
        described(B, "kj"),
        None if c is None else described(c, "ij"),
        TensorDescriptor.contiguous((2, 4), f64),
        "ij",
    )


def test_descriptors_say_where_elements_lie() -> None:
    view = A[::-1, ::2]
    made = TensorDescriptor.from_tensor(view)
    assert (made.extents, made.strides, made.dtype) == ((2, 2), (-3, 2), f64)
    turned = sc.tensor(A).T
    assert TensorDescriptor.from_tensor(turned).strides == (2, 1)  # of its value, once it is there
    assert turned.data is None
    assert TensorDescriptor.contiguous((2, 3), "f16") == TensorDescriptor((2, 3), (3, 1), f16)
    assert TensorDescriptor((1, 3), (77, 1), f32).canonical_strides == (3, 1)
    assert str(made) == "[2, 2] f64 strides [-3, 2]"
    operand = described(A, "ij").with_unary(UnaryOp.Exp)
    assert (operand.modes, operand.unary) == (("i", "j"), UnaryOp.Exp)


def test_descriptors_are_checked() -> None:
    with pytest.raises(ShapeError, match="one stride an extent"):
        TensorDescriptor((2, 3), (1,), f32)
    with pytest.raises(ShapeError, match="negative extent"):
        TensorDescriptor.contiguous((-1,), f32)
    with pytest.raises(ShapeError, match="2 labels"):
        described(B[0], "ij")
    with pytest.raises(ArgumentTypeError, match="no TensorDescriptor"):
        OperandDescriptor(A, "ij")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="members of UnaryOp"):
        described(A, "ij").with_unary("exp")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="an ellipsis"):
        OperandDescriptor.from_tensor(A, [..., 0])
    with pytest.raises(ArgumentError, match="no operands"):
        OperationDescriptor.sum_product([], None, TensorDescriptor.contiguous((), f32), "")
    with pytest.raises(ArgumentTypeError, match="members of ReductionOp"):
        OperationDescriptor.reduction(
            described(A, "ij"),
            None,
            TensorDescriptor.contiguous((), f64),
            "",
            "sum",  # type: ignore[arg-type]
        )


def test_a_plan_runs_again_with_other_tensors() -> None:
    plan = EinsumPlan("ik,kj->ij", [TensorDescriptor.from_tensor(x) for x in (A, B)])
    results = [plan.execute([A + k, sc.tensor(B)]) for k in range(4)]
    for k, found in enumerate(results):
        assert found.evaluated
        assert np.array_equal(found.numpy(), (A + k) @ B)


def test_lazy_tensors_are_evaluated_and_inputs_refused() -> None:
    plan = EinsumPlan("i->", [TensorDescriptor.contiguous((3,), f64)])
    assert plan.execute([sc.tensor(B).sum(1)]).item() == B.sum()
    with pytest.raises(FeedError, match="input 0 is an input leaf"):
        plan.execute([sc.input((3,), f64)])
    with pytest.raises(ArgumentTypeError, match="allowed is a list or a tuple"):
        plan.execute(A[0])  # type: ignore[arg-type]


def test_strides_of_extent_one_do_not_count() -> None:
    row = np.lib.stride_tricks.as_strided(A, (1, 3), (8, 8))
    plan = EinsumPlan("ij,kj->ik", [TensorDescriptor.contiguous((1, 3), f64)] * 2)
    assert plan.execute([row, row]).item() == 5


@pytest.mark.parametrize("beta", [0.0, 1e-60])
def test_beta_counts_in_the_compute_type(beta: float) -> None:
    a, c = np.ones((2, 2), np.float32), np.full((2, 2), np.nan, np.float32)
    operation = OperationDescriptor.contraction(
        described(a, "ik"),
        described(a, "kj"),
        described(c, "ij"),
        TensorDescriptor.contiguous((2, 2), f32),
        "ij",
    )
    assert (Plan(operation).execute([a, a, c], [1, beta]).numpy() == 2).all()


def test_execute_into_writes_where_the_caller_says() -> None:
    plan = Plan(product(C))
    c = C.copy()
    plan.execute_into([A, B, c], c, [2, 3])
    assert np.array_equal(c, 2 * A @ B + 3)
    out = sc.variable(np.zeros((2, 4)))
    plan.execute_into([A, B, C], out, [1, 0])
    assert np.array_equal(out.numpy(), A @ B)
    for wrong, error, words in (
        (np.zeros((4, 2)), ShapeError, "the output has shape"),
        (np.zeros((2, 4), np.float32), DTypeError, "the output has dtype float32"),
        (np.zeros((4, 2)).T, ArgumentError, "the output has strides"),
        (sc.tensor(C), ArgumentTypeError, "tensors never change"),
        ([[0.0]], ArgumentTypeError, "the output is of type list"),
    ):
        with pytest.raises(error, match=words):
            plan.execute_into([A, B, C], wrong, [1, 1])
    frozen = np.zeros((2, 4))
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        plan.execute_into([A, B, C], frozen, [1, 1])


def test_an_einsum_writes_into_any_layout() -> None:
    a, b = A.astype("f4"), B.astype("f4")
    plan = EinsumPlan("ik,kj->ij", [TensorDescriptor.from_tensor(x) for x in (a, b)])
    block = np.zeros((4, 2, 2))
    plan.execute_into([a, b], block[:, :, 0].T)
    assert np.array_equal(block[:, :, 0].T, A @ B)
    assert not block[:, :, 1].any()
    with pytest.raises(DTypeError, match="the output has dtype i64"):
        plan.execute_into([a, b], np.zeros((2, 4), np.int64))


def test_equal_plans_share_what_was_compiled() -> None:
    one, other = Plan(product()), Plan(product())
    assert one._engine.runtime is other._engine.runtime
    assert Plan(product(C))._engine.runtime is not one._engine.runtime
    renamed = OperationDescriptor.contraction(
        described(A, "ab"),
        described(B, "bc"),
        None,
        TensorDescriptor((2, 4), (4, 1), f64),
        "ac",
    )
    assert Plan(renamed)._engine.runtime is one._engine.runtime


def test_a_plan_can_be_pickled() -> None:
    for plan in (Plan(product(C)), Plan(product())):
        again = pickle.loads(pickle.dumps(plan))
        scalars = [2, 1][: plan.operation.scalar_count]
        inputs = [A, B, C][: len(plan.operation.operands)]
        assert np.array_equal(
            again.execute(inputs, scalars).numpy(), plan.execute(inputs, scalars).numpy()
        )
        assert again.describe() == plan.describe()
    einsum = pickle.loads(pickle.dumps(EinsumPlan("i->", [TensorDescriptor((3,), (1,), f64)])))
    assert einsum.execute([B[:, 0].copy()]).item() == 12


def test_what_a_plan_says() -> None:
    plan = EinsumPlan.with_options(
        "ij,jk,kl->il",
        [TensorDescriptor.contiguous(shape, f32) for shape in ((2, 3), (3, 4), (4, 5))],
        compute=ComputeType.F64,
        output_dtype="f32",
        config="default",
    )
    text = plan.describe()
    assert text.startswith("D = sum A0 A1 ..: ij,jk,kl->il, compute f64")
    assert "device cpu, workspace" in text
    assert "cpu_blas" in text
    assert plan.workspace_bytes > 0
    assert plan.path is not None
    assert repr(plan) == "<softcuda.EinsumPlan ij,jk,kl->il on cpu>"
    reduction = OperationDescriptor.reduction(
        described(A, "ij"), None, TensorDescriptor.contiguous((2,), f64), "i", ReductionOp.Max
    )
    assert Plan(reduction).path is None
    assert "reduce(op(A))" in str(Plan(reduction))


def test_devices() -> None:
    assert Plan(product(), config="default").device == "cpu"
    with pytest.raises(ArgumentError, match="there is no device 'tpu'"):
        Plan(product(), device="tpu")
    with pytest.raises(ArgumentTypeError, match="no OperationDescriptor"):
        Plan("ij,jk")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="a descriptor is"):
        EinsumPlan("ij", [A])  # type: ignore[list-item]


def test_no_device_for_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcuda.running.cuda_target", lambda **_: "there is none")
    with pytest.raises(NoDeviceError, match="device='cuda' and no CUDA device"):
        Plan(product(), device="cuda")


@pytest.mark.parametrize("error", [DriverNotFound, ForkedProcessError])
def test_large_einsums_of_a_device_are_defined_without_one(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free memory bounds intermediates where it can be asked for; else 16 GiB count as free."""

    def refuses() -> Any:
        raise error("no driver here")

    monkeypatch.setattr(limits, "session", refuses)
    x = sc.input((16384, 16384), f32, "x", device="cuda")
    assert sc.einsum("ij,jk,kl->il", x, x, x).shape == (16384, 16384)
    assert (x @ x @ x).shape == (16384, 16384)
    y = sc.input((1024, 4), f32, "y", device="cuda")
    path = sc.einsum("ab,cb,dc->adc", y, y, sc.input((1024, 1024), f32, "z", device="cuda"))
    assert path.shape == (1024, 1024, 1024)


def test_results_keep_their_values() -> None:
    plan = Plan(product())
    first = plan.execute([A, B], [1])
    plan.execute([A + 1, B], [5])
    assert np.array_equal(first.numpy(), A @ B)


def test_a_trinary_operation_is_written_into_its_c() -> None:
    x, joins = np.array([[1.0, 2], [3, 4]]), (BinaryOp.Mul, BinaryOp.Add)
    out = TensorDescriptor.contiguous((2, 2), f64)
    for labels in ("ij", "ji"):  # of C; as it lies, it is the output in both
        a, b, c = x.copy(), x + 10, x * 100
        operands = [described(y, z) for y, z in ((a, "ij"), (b, "ij"), (c, labels))]
        plan = Plan(OperationDescriptor.elementwise_trinary(*operands, out, "ij", *joins))
        expected = a * b + 2 * (c if labels == "ij" else c.T)
        for number, other in enumerate((a, b)):
            with pytest.raises(ArgumentError, match=f"overlaps input {number} .*is C itself"):
                plan.execute_into([a, b, c], other, [1, 1, 2])
        plan.execute_into([a, b, c], c, [1, 1, 2])
        assert np.array_equal(c, expected)


def test_an_operation_without_c_has_an_output_of_its_own() -> None:
    x = np.ones((2, 2))
    a, out = described(x, "ij"), TensorDescriptor.contiguous((2, 2), f64)
    binary = OperationDescriptor.elementwise_binary(a, a, out, "ij", BinaryOp.Add)
    with pytest.raises(ArgumentError, match=r"allowed is an output of its own$"):
        Plan(binary).execute_into([x, x + 0], x, [1, 1])


def test_the_formula_has_no_c_where_there_is_none() -> None:
    assert str(product()).startswith("D = alpha * sum op(A0) op(A1) ..: ik,kj->ij")
    assert "+ beta * op(C): " in str(product(C))
    out = TensorDescriptor.contiguous((2,), f64)
    total = OperationDescriptor.reduction(described(A, "ij"), None, out, "i", ReductionOp.Sum)
    assert Plan(total).describe().startswith("D = alpha * reduce(op(A)): ij->i, Sum")
