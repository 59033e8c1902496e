"""Named axes that were broken on purpose: what was wrong once has its right value here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import OperandDescriptor, OperationDescriptor, Plan, ReductionOp, TensorDescriptor
from softcuda.errors import ArgumentTypeError

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)
C = np.arange(4.0).reshape(2, 2)

Array = np.ndarray[Any, Any]


def test_a_c_with_a_repeated_label_is_its_diagonal() -> None:
    right = A @ B + np.diag(C)[:, None]
    found = sc.contract(A, "ij", B, "jk", "ik", c=C, c_modes="ii").numpy()
    np.testing.assert_array_equal(found, right)
    found = sc.reduce(A, "ij", "i", ReductionOp.Sum, c=C, c_modes="ii").numpy()
    np.testing.assert_array_equal(found, A.sum(1) + np.diag(C))
    described = [
        OperandDescriptor.from_tensor(x, modes)
        for x, modes in ((A, [0, 1]), (B, [1, 2]), (C, [0, 0]))
    ]
    out = TensorDescriptor.contiguous((2, 4), sc.f64)
    operation = OperationDescriptor.contraction(*described, out, [0, 2])
    found = Plan(operation, config="default").execute([A, B, C], [2.0, 3.0]).numpy()
    np.testing.assert_array_equal(found, 2 * A @ B + 3 * np.diag(C)[:, None])


class Hostile(np.ndarray[Any, Any]):
    """An array that lets no function of NumPy see it."""

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("asked")


def test_an_output_of_a_subclass_is_memory() -> None:
    plan = sc.EinsumPlan("ij,jk->ik", list(map(TensorDescriptor.from_tensor, (A, B))))
    out = np.zeros((2, 4)).view(Hostile)
    plan.execute_into([A, B], out)
    np.testing.assert_array_equal(out.view(np.ndarray), A @ B)


def test_a_masked_output_is_refused() -> None:
    plan = sc.EinsumPlan("ij,jk->ik", list(map(TensorDescriptor.from_tensor, (A, B))))
    out = np.ma.MaskedArray(np.zeros((2, 4)), mask=True)
    with pytest.raises(ArgumentTypeError, match="would be written under its mask"):
        plan.execute_into([A, B], out)


@pytest.mark.parametrize("limit", [np.int64(1000), 1e3, np.float64(1000)])
def test_a_memory_limit_of_numpy_or_a_whole_float(limit: Any) -> None:
    path = sc.einsum_path("ij,jk->ik", A, B, memory_limit=limit, config="default")
    assert repr(path) == "<EinsumPath ij,jk->ik, 1 step; print it>"
    assert len(str(path).splitlines()) > 2
    with pytest.raises(ArgumentTypeError, match=r"memory_limit is 2\.5"):
        sc.einsum_path("ij,jk->ik", A, B, memory_limit=2.5, config="default")


def test_paths_and_explanations_of_a_device_that_is_not_here() -> None:
    x = sc.zeros((1024, 1024))
    path = sc.einsum_path("ij,jk->ik", x, x, config="nvidia-h200", target="sm_90a")
    assert path.backends[0].startswith("cuda_") and path.backends[0] in str(path)
    told = sc.explain(sc.einsum("ij,jk->ik", x, x), "nvidia-h200", target="sm_90a")
    assert path.backends[0] in told and "rule:" in told
