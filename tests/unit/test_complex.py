"""complex64 and complex128: dtypes, numbers, what is refused, exchange with other libraries."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors
from softcuda.dtype import DTYPES, as_dtype, promote, real_dtype, weak_promote
from softcuda.graph.params import literal, value_of

Z = np.array([[1 + 2j, -3.5j], [0, -0.25 + 1j]])
BOTH = (sc.complex64, sc.complex128)


def z(dtype: Any = sc.complex64) -> sc.Tensor:
    return sc.tensor(Z, dtype)


@pytest.mark.parametrize("other", DTYPES.values(), ids=str)
def test_promotion(other: sc.DType) -> None:
    wide = other in (sc.f64, sc.complex128)
    assert promote(sc.complex64, other) is (sc.complex128 if wide else sc.complex64)
    assert promote(other, sc.complex128) is sc.complex128
    assert weak_promote(other, 3) is promote(other, sc.complex64)
    assert (sc.zeros((2,), other) + 1j).dtype is promote(other, sc.complex64)


def test_dtypes() -> None:
    for dtype in BOTH:
        assert as_dtype(dtype.name) is as_dtype(dtype.numpy) is dtype
        assert dtype.is_complex
        assert dtype.is_inexact
        assert not dtype.is_float
        assert real_dtype(dtype).itemsize * 2 == dtype.itemsize
        assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert as_dtype(complex) is sc.complex64
    assert sc.f16.is_inexact
    assert not sc.i64.is_inexact


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1j, sc.complex64),
        (np.complex128(1j), sc.complex64),
        ([1, 2j], sc.complex64),
        ([[True], [0.5 - 1j]], sc.complex64),
        (Z, sc.complex128),
        (Z.astype(np.complex64)[:, ::-1], sc.complex64),
    ],
)
def test_values_of_new_tensors(value: Any, dtype: sc.DType) -> None:
    for made in (sc.tensor(value), sc.asarray(value), sc.variable(value)):
        assert made.dtype is dtype
        np.testing.assert_array_equal(made.numpy(), np.asarray(value, dtype.numpy))


@pytest.mark.parametrize("number", [1 - 2j, 0j, complex(-0.0, -0.0), complex("nan+infj"), -1e-300j])
def test_numbers_of_the_graph_are_read_back(number: complex) -> None:
    assert repr(value_of(literal(number))) == repr(number)
    assert repr(sc.full((), number, "complex128").item()) == repr(number)


def test_constants_that_are_equal_and_have_other_signs_differ() -> None:
    x = sc.tensor(np.array([complex(1, -0.0)]))
    signs = [(x * value).numpy()[0].imag for value in (0j + 1, complex(1, -0.0))]
    assert [bool(np.signbit(sign)) for sign in signs] == [False, True]


def test_creation() -> None:
    assert sc.full((2,), 1j).tolist() == [1j, 1j]
    assert sc.full((2,), 1j).dtype is sc.complex64
    assert sc.eye(2, dtype="complex128").tolist() == [[1, 0], [0, 1]]
    assert sc.ones_like(z()).dtype is sc.complex64
    assert sc.pad(z()[0], 1, constant_values=2j).tolist() == [2j, 1 + 2j, -3.5j, 2j]


def test_casts() -> None:
    assert z("complex128").cast("complex64").dtype is sc.complex64
    assert sc.tensor([1.5]).cast("complex128").tolist() == [1.5]
    assert z().cast("bool").tolist() == [[True, True], [False, True]]
    for target in ("f32", "i64", "bf16"):
        with pytest.raises(errors.DTypeError, match=r"complex64 to .* real, imag or abs"):
            z().cast(target)
        with pytest.raises(errors.DTypeError, match="imaginary parts"):
            sc.tensor(Z, target)
    with pytest.raises(errors.DTypeError, match="without losing its kind"):
        sc.full((2,), 1j, "f32")


ORDERED: dict[str, Callable[[Any], Any]] = {
    **{f.__name__: lambda x, f=f: f(x, x) for f in (operator.lt, operator.ge, operator.mod)},
    "floor_divide": lambda x: x // 2,
    "maximum": lambda x: sc.maximum(x, 1),
    "clip": lambda x: sc.clip(x, 0, 1),
    "atan2": lambda x: sc.atan2(x, x),
    **{
        name: (lambda x, name=name: getattr(sc, name)(x))
        for name in (
            *("min", "max", "argmin", "argmax", "var", "std", "logsumexp", "softmax"),
            *("floor", "ceil", "round", "relu", "gelu", "sigmoid", "erf", "exp2", "asin"),
        )
    },
}


@pytest.mark.parametrize("name", ORDERED)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    with pytest.raises(errors.DTypeError, match=r"complex64, and there is no \w+ of complex") as e:
        ORDERED[name](z())
    assert isinstance(e.value, TypeError)
    assert "use abs, real or imag" in str(e.value)


def test_other_refusals() -> None:
    with pytest.raises(errors.DTypeError, match="arange: dtype complex64"):
        sc.arange(3, dtype="complex64")
    for convert in (float, int):
        with pytest.raises(errors.DTypeError, match="would drop the imaginary parts"):
            convert(z()[0, 0])
    with pytest.raises(errors.DTypeError, match="imaginary parts"):
        np.asarray(z(), np.float64)
    with pytest.raises(errors.ArgumentTypeError, match="stop is 1j"):
        sc.arange(1j)  # type: ignore[arg-type]
    with pytest.raises(errors.DTypeError, match="both must be equal"):
        sc.variable([1.0, 2.0]).assign([1j, 2])
    with pytest.raises(errors.FeedError, match="without losing its kind"):
        sc.compile(sc.input((1,), "f32", "x") + 1).run(x=[1j])


def test_files_of_tensors_refuse_complex_numbers(tmp_path: Path) -> None:
    with pytest.raises(errors.DTypeError, match="w is complex64; allowed are bool"):
        sc.nn.save_tensors(tmp_path / "w.safetensors", {"w": 1j})


def test_python_reads_complex_tensors() -> None:
    one = z()[0, 0]
    assert complex(one) == one.item() == 1 + 2j
    assert f"{one:.1f}" == "1.0+2.0j"
    assert repr(sc.tensor(1j)).startswith("Tensor(0.+1.j, shape=(), dtype=complex64")
    assert -0.25 + 1j in z()
    assert (z() == 1 + 2j).tolist() == [[True, False], [False, False]]
    assert (np.complex64(1j) + z()).dtype is sc.complex64


def test_graphs_and_variables_are_copied_and_pickled() -> None:
    graph = z() * (1 - 2j)
    for made in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        np.testing.assert_array_equal(made.numpy(), graph.numpy())
    state = sc.variable(Z, "state")
    step = sc.compile(state * 1j, updates={state: state * 1j})
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(step)).run().numpy(), Z * 1j)
    step.run()
    np.testing.assert_array_equal(state.numpy(), Z * 1j)
    leaf = sc.input((2,), "complex128", "leaf")
    assert sc.compile(leaf * 2).run(leaf=[1j, 1]).tolist() == [2j, 2]


@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_exchange(dtype: sc.DType) -> None:
    array = Z.astype(dtype.numpy).T
    for given in (np.from_dlpack(sc.tensor(array)), sc.from_dlpack(array).numpy()):
        assert given.dtype == dtype.numpy
        np.testing.assert_array_equal(given, array)
    shared = sc.asarray(array)
    array[0, 0] = 7j
    assert shared.numpy()[0, 0] == 7j


def profile(folder: Path, *rows: str) -> str:
    path = folder / "rows.soft"
    path.write_text("\n".join(("[meta]", "soft_version = 0.1.0", "[ops]", *rows)))
    return str(path)


def test_profiles_have_rows_of_complex_dtypes(tmp_path: Path) -> None:
    rows = profile(tmp_path, "matmul[complex64] | any = cpu_fallback", "matmul | any = cpu_blas")
    narrow, wide = (str(sc.compile(x @ x, rows)) for x in (z(), z("complex128")))
    assert "cpu_fallback" in narrow
    assert "rows.soft:4" in narrow
    assert "cpu_blas" in wide


def test_what_a_backend_of_a_device_refuses_its_reference_computes(tmp_path: Path) -> None:
    x = sc.input((4, 4), "complex64", "x")
    rows = profile(tmp_path, "matmul | any = cuda_tiled")
    assert "cuda_naive stands in" in str(sc.compile(x @ x, rows, target="sm_90a"))
    with pytest.raises(errors.BackendRefused, match=r"cuda_tiled, which refuses .* complex64"):
        sc.compile(x @ x, rows, target="sm_90a", strict=True)
