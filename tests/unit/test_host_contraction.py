"""Contractions on cpu_blas and cpu_fallback, every equation x dtype x layout against einsum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from host_equations import operands, params_of
from host_harness import FLOATS, line_of, run, sample

from softcuda.backends import cpu_blas, cpu_fallback
from softcuda.dtype import DType, bf16, f16, f32, f64, i32, i64, promote
from softcuda.target import CPU
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]

NAN, INF = math.nan, math.inf
BACKENDS = (cpu_blas, cpu_fallback)
each_backend = pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.BACKEND_ID)
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)

# subscripts, extents by label
EQUATIONS = [
    ("mk,kn->mn", "m5 k7 n3"),
    ("mk,kn->nm", "m5 k7 n3"),
    ("km,nk->mn", "m5 k7 n3"),
    ("mk,k->m", "m6 k5"),
    ("k,kn->n", "k5 n6"),
    ("k,k->", "k13"),
    ("m,n->mn", "m4 n5"),
    ("m,n->nm", "m4 n5"),
    ("i,i->i", "i7"),
    ("ij,->ij", "i3 j4"),
    ("bmk,bkn->bmn", "b3 m4 k5 n2"),
    ("bmk,kn->bmn", "b3 m4 k5 n2"),
    ("mk,bkn->bmn", "b3 m4 k5 n2"),
    ("bmk,bkn->mbn", "b3 m4 k5 n2"),
    ("bmk,bkn->mnb", "b3 m4 k5 n2"),
    ("abmk,abkn->abmn", "a2 b3 m4 k5 n2"),
    ("amk,bkn->abmn", "a2 b3 m4 k5 n2"),
    ("abcd,cde->abe", "a2 b3 c4 d2 e5"),
    ("abcd,dce->abe", "a2 b3 c4 d2 e5"),
    ("acbd,cde->bea", "a2 b3 c4 d2 e5"),
    ("ij,k->i", "i3 j4 k5"),
    ("ij,jk->k", "i3 j4 k5"),
    ("ij,jk->", "i3 j4 k5"),
    ("ijp,jkq->ik", "i3 j4 k5 p2 q3"),
    ("ij,kl->", "i3 j4 k5 l2"),
    ("mk,kn->mn", "m1 k7 n3"),
    ("mk,kn->mn", "m5 k1 n3"),
    ("mk,kn->mn", "m1 k1 n1"),
    ("mk,kn->mn", "m0 k7 n3"),
    ("mk,kn->mn", "m5 k0 n3"),
    ("bmk,bkn->bmn", "b0 m4 k5 n2"),
    ("ij,k->i", "i3 j0 k5"),
    ("mk,kn->mn", "m17 k33 n1"),
]


def check(backend: Any, subscripts: str, inputs: list[Array]) -> None:
    params = params_of(subscripts)
    line, _ = line_of("matmul", inputs, params)
    dtype = line.dtype
    common = [x.astype(dtype.numpy) for x in inputs]
    wide = [x.astype(np.float64 if dtype.is_float else np.int64) for x in common]
    labels = subscripts.partition("->")[0].split(",")
    stretched = stretch(labels, wide)
    expected = np.einsum(subscripts, *stretched)
    scale = np.einsum(subscripts, *map(np.abs, stretched)) if dtype.is_float else 0.0
    summed = set("".join(labels)) - set(subscripts.split("->")[1])
    extents = dict(zip("".join(labels), sum((x.shape for x in stretched), ()), strict=True))
    terms = math.prod(extents[label] for label in summed)
    if not dtype.is_float:
        expected = expected.astype(dtype.numpy)
    result = run("matmul", *inputs, params=params, backend=backend)
    assert_close(result, np.asarray(expected), dtype, "matmul", k_extent=terms, scale=scale)


def stretch(labels: list[str], inputs: list[Array]) -> list[Array]:
    """Return the operands with their extents of 1 stretched to the other operand's."""
    most: dict[str, int] = {}
    for word, array in zip(labels, inputs, strict=True):
        for label, extent in zip(word, array.shape, strict=True):
            most[label] = extent if most.get(label, 1) == 1 else most[label]
    return [
        np.broadcast_to(array, tuple(most[x] for x in word))
        for word, array in zip(labels, inputs, strict=True)
    ]


@each_backend
@pytest.mark.parametrize("dtype", [*FLOATS, i32, i64], ids=str)
@pytest.mark.parametrize(("subscripts", "extents"), EQUATIONS)
def test_every_equation(backend: Any, dtype: DType, subscripts: str, extents: str) -> None:
    if backend is cpu_blas and not dtype.is_float:
        inputs = operands(subscripts, extents, dtype, dtype, 0)
        line, read = line_of("matmul", inputs, params_of(subscripts))
        verdict = cpu_blas.supports(line, read, CPU)
        assert not verdict
        assert str(dtype) in verdict.reason
        return
    for kind in range(5):
        check(backend, subscripts, operands(subscripts, extents, dtype, dtype, kind))


@each_backend
@pytest.mark.parametrize("shapes", [((3, 1), (4, 5)), ((3, 4), (1, 5)), ((1, 1), (4, 1))])
def test_an_extent_of_one_stretches_when_summed(backend: Any, shapes: Any) -> None:
    check(backend, "mk,kn->mn", [sample(f32, shape, 5) for shape in shapes])


@each_backend
@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((0, 3, 4), (1, 4, 5)),
        ((2, 1, 4), (1, 4, 1)),
    ],
)
def test_an_extent_of_one_stretches_over_a_batch(backend: Any, shapes: Any) -> None:
    check(backend, "bmk,bkn->bmn", [sample(f64, shape, 6) for shape in shapes])


@each_backend
def test_mixed_dtypes(backend: Any) -> None:
    kinds = (f16, bf16, f32, f64, i32, i64)
    for left in kinds:
        for right in kinds:
            if promote(left, right).is_float or backend is cpu_fallback:
                check(backend, "mk,kn->mn", operands("mk,kn->mn", "m4 k5 n3", left, right, 0))


@each_backend
@each_float
def test_products_larger_than_a_tile(backend: Any, dtype: DType) -> None:
    big = "m150 k600 n140" if backend is cpu_fallback else "m1030 k1100 n40"
    for kind in (0, 3, 4):
        check(backend, "mk,kn->mn", operands("mk,kn->mn", big, dtype, dtype, kind))
    check(backend, "bmk,bkn->mnb", operands("bmk,bkn->mnb", "b70 m40 k30 n20", dtype, dtype, 0))


@each_backend
@each_float
def test_nan_and_infinity_reach_the_result(backend: Any, dtype: DType) -> None:
    for m, k, n in ((4, 5, 3), (1, 5, 1), (1, 5, 3), (4, 5, 1), (64, 64, 64), (4, 1, 3)):
        a, b = np.zeros((m, k), dtype.numpy), np.ones((k, n), dtype.numpy)
        for left, right in ((NAN, 1.0), (0.0, NAN), (0.0, INF), (INF, 0.0)):
            a[-1, -1], b[-1, -1] = left, right
            result = run("matmul", a, b, params=params_of("mk,kn->mn"), backend=backend)
            assert np.isnan(float(result[-1, -1])), (m, k, n, left, right)


@each_backend
@each_float
def test_one_by_one_keeps_the_value(backend: Any, dtype: DType) -> None:
    a = np.array([1024.5], dtype.numpy)
    b = np.array([[1.0]], dtype.numpy)
    result = run("matmul", a, b, params=params_of("k,kj->j"), backend=backend)
    assert result.tobytes() == a.tobytes()


@each_backend
def test_half_products_accumulate_wide(backend: Any) -> None:
    ones = np.ones((1, 6000), np.float16)
    result = run("matmul", ones, ones.T, params=params_of("mk,kn->mn"), backend=backend)
    assert float(result[0, 0]) == 6000.0
    eye, two = np.eye(2, dtype=np.float16), np.ones(2, np.float16)
    assert float(run("matmul", two, eye, params=params_of("i,ji->"), backend=backend)) == 2.0
    a = np.arange(6, dtype=np.float16).reshape(2, 3)
    b = -np.arange(2, dtype=np.float16)
    result = run("matmul", a, b, params=params_of("ij,i->"), backend=backend)
    assert float(result) == -12.0


def test_integers_wrap() -> None:
    a = np.array([[2**30, 3]], np.int32)
    b = np.array([[4], [5]], np.int32)
    assert run("matmul", a, b, params=params_of("mk,kn->mn")).tolist() == [[15]]
    big = np.array([[2**62]], np.int64)
    assert run("matmul", big, np.array([[4]]), params=params_of("mk,kn->mn")).tolist() == [[0]]
