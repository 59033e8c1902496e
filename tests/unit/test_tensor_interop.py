"""NumPy beside tensors: arrays on the left, __array__, and the functions that are refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors
from softcuda.tensor.interop import PUBLIC_NAMES

OPERATORS = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)


@pytest.mark.parametrize("op", OPERATORS)
def test_an_array_on_the_left_gives_a_tensor(op: Any) -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    found = op(a, sc.tensor(b))
    assert isinstance(found, sc.Tensor)
    np.testing.assert_array_equal(found.numpy(), op(a, b), strict=True)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.int32(2), np.int64(2)])
def test_a_numpy_scalar_on_the_left_is_weak(op: Any, scalar: Any) -> None:
    b = np.array([3.0, 2.0, 1.0], np.float32)
    found = op(scalar, sc.tensor(b))
    assert isinstance(found, sc.Tensor)
    assert found.dtype in (sc.f32, sc.bool_)
    np.testing.assert_array_equal(found.numpy(), op(np.float32(2), b), strict=True)


def test_asarray_does_not_copy() -> None:
    x = sc.tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.data)
    assert not np.shares_memory(np.array(x), x.data)
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.asarray(x, np.uint8).tolist() == [1, 2]
    assert np.asarray(x, complex).tolist() == [1, 2]
    assert np.asarray(sc.tensor([np.nan, 1e300]), np.int32).tolist() == [0, 2**31 - 1]
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(x, np.float64, copy=False)
    held = np.asarray(sc.variable([1.0]))
    assert held.tolist() == [1]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (np.exp, r"numpy\.exp .*softcuda\.exp"),
        (np.absolute, r"softcuda\.abs"),
        (lambda x: np.arctan2(x, x), r"softcuda\.atan2"),
        (lambda x: np.add(x, 1), r"softcuda\.add"),
        (lambda x: np.add(np.ones(2), x, out=np.ones(2)), r"with out=.*softcuda\.add"),
        (np.add.reduce, r"by \.reduce.*softcuda\.add"),
        (np.cbrt, "no such softcuda function"),
        (np.sum, r"numpy\.sum .*softcuda\.sum"),
        (lambda x: np.concatenate([x, x]), r"softcuda\.concat"),
        (np.linalg.inv, "no such softcuda function"),
        (lambda x: np.reshape(x, (2, 1)), r"softcuda\.reshape"),
    ],
)
def test_numpys_functions_are_refused_by_name(call: Any, text: str) -> None:
    with pytest.raises(errors.ArgumentTypeError, match=text):
        call(sc.ones((2,)))


def test_in_place_operators_of_arrays_are_refused() -> None:
    a = np.ones(2)
    with pytest.raises(TypeError, match="out"):
        a += sc.ones((2,))
    assert a.tolist() == [1, 1]


def test_names_in_refusals_are_public() -> None:
    missing = {name for name in PUBLIC_NAMES if not hasattr(sc, name)}
    assert not missing
    leaves = {"tensor", "input", "variable", "evaluate"}
    assert set(sc.functions.__all__) - leaves == PUBLIC_NAMES


def test_tensors_of_other_frameworks_come_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = sc.tensor(t.T)
    t[:] = 0
    assert (x.shape, x.dtype) == ((3, 2), sc.f32)
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (sc.ones((3,)) + torch.ones(3, dtype=torch.int32)).dtype is sc.f32
    with pytest.raises(errors.ArgumentTypeError, match="detach"):
        sc.tensor(torch.ones(2, requires_grad=True))


def test_a_tensor_on_another_device_is_refused() -> None:
    class Elsewhere:
        def __dlpack__(self, **options: Any) -> Any:
            raise AssertionError

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 1)

    with pytest.raises(errors.ArgumentTypeError, match=r"type 2, index 1.*CPU"):
        sc.tensor(Elsewhere())
