"""cpu_blas: what it supports, when numpy.matmul reads the operands in place, bounded scratch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from host_equations import operands, params_of
from host_harness import calls_of, line_of, run, sample, steps_of

from softcuda.backends import cpu_blas, cpu_fallback
from softcuda.dtype import DType, bf16, complex64, f16, f32, f64
from softcuda.target import CPU
from tests.tolerance import assert_close

DIRECT = [
    ("mk,kn->mn", "m5 k7 n3", 0),
    ("mk,kn->mn", "m5 k7 n3", 2),
    ("mk,kn->mn", "m5 k7 n3", 3),
    ("mk,kn->nm", "m5 k7 n3", 0),
    ("mk,k->m", "m6 k5", 0),
    ("k,kn->n", "k5 n6", 0),
    ("k,k->", "k13", 0),
    ("bmk,bkn->bmn", "b3 m4 k5 n2", 0),
    ("bmk,bkn->mbn", "b3 m4 k5 n2", 0),
    ("bmk,kn->bmn", "b3 m4 k5 n2", 0),
    ("abcd,cde->abe", "a2 b3 c4 d2 e5", 0),
    ("mk,bkn->bmn", "b3 m40 k50 n40", 0),
]


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize(("subscripts", "extents", "kind"), DIRECT)
def test_matrices_are_read_where_they_lie(
    dtype: DType, subscripts: str, extents: str, kind: int
) -> None:
    inputs = operands(subscripts, extents, dtype, dtype, kind)
    params = params_of(subscripts)
    [(function, arrays)], out = calls_of(cpu_blas, "matmul", inputs, params)
    assert function is np.matmul
    assert np.shares_memory(arrays[2], out)
    assert all(any(np.shares_memory(x, y) for y in inputs) for x in arrays[:2])
    [step] = steps_of(cpu_blas, "matmul", inputs, params)
    assert (step.kernel, step.scratch_bytes) == ("matmul", 0)


def test_a_batch_that_only_one_operand_has_is_one_product() -> None:
    inputs = operands("bmk,kn->bmn", "b3 m4 k5 n2", f32, f32, 0)
    [(_, arrays)], _ = calls_of(cpu_blas, "matmul", inputs, params_of("bmk,kn->bmn"))
    assert [x.shape for x in arrays] == [(12, 5), (5, 2), (12, 2)]


@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_scratch_is_bounded(dtype: DType) -> None:
    a = np.broadcast_to(np.zeros((), dtype.numpy), (20000, 20000))
    for backend, most in ((cpu_blas, 25 << 20), (cpu_fallback, 3 << 20)):
        [step] = steps_of(backend, "matmul", [a, a], params_of("mk,kn->mn"))
        assert step.kernel.startswith("matmul")
        assert step.scratch_bytes < most


@pytest.mark.parametrize(
    ("subscripts", "extents", "kernel"),
    [
        ("ae,dcbe->dcba", "a55 b20 c20 d20 e55", "matmul"),
        ("ce,deba->dcba", "a50 b50 c50 d50 e50", "matmul_shared"),
        ("adb,cd->cba", "a200 b200 c20 d90", "matmul_shared_packed_out"),
        ("afbce,df->edcba", "a20 b12 c12 d9 e20 f20", "matmul_packed_b_out"),
        ("ceda,dbe->cba", "a64 b64 c8 d16 e16", "matmul_packed_a_b_out"),
        ("aged,cbfg->fedcba", "a20 b15 c15 d20 e15 f15 g20", "matmul_shared_packed_a_b"),
        ("cgfe,badg->fedcba", "a22 b15 c15 d15 e22 f15 g22", "matmul_shared_packed_b"),
        ("mk,kn->mn", "m800 k800 n800", "matmul"),
        ("fbea,cedf->dcba", "a16 b16 c16 d16 e16 f16", "matmul_packed_a_b"),
    ],
)
def test_the_cheapest_is_packed(subscripts: str, extents: str, kernel: str) -> None:
    inputs = operands(subscripts, extents, f32, f32, 0)
    [step] = steps_of(cpu_blas, "matmul", inputs, params_of(subscripts))
    assert step.kernel == kernel


@pytest.mark.parametrize("dtype", [f32, f64, f16, complex64])
@pytest.mark.parametrize(
    ("subscripts", "extents", "kernel"),
    [
        ("abc,abc->b", "a40 b30 c20", "matmul_parts"),
        ("pabc,pqabc->bp", "a7 b5 c33 p3 q4", "matmul_parts"),
        ("abc,abc->b", "a40 b30 c5", ""),  # runs are short
        ("abc,abc->a", "a40 b30 c20", "matmul"),  # one run
    ],
)
def test_dots_of_labels_that_are_no_run_are_those_of_parts(
    subscripts: str, extents: str, kernel: str, dtype: DType
) -> None:
    inputs = operands(subscripts, extents, dtype, dtype, 0)
    params = params_of(subscripts)
    [step] = steps_of(cpu_blas, "matmul", inputs, params)
    if kernel and dtype is not f16:
        assert step.kernel == kernel
    calls, out = calls_of(cpu_blas, "matmul", inputs, params)
    for _ in range(2):
        for function, arguments in calls:
            function(*arguments)
    number = complex if dtype.is_complex else float
    wide = [x.astype(number) for x in inputs]
    scale = np.einsum(subscripts, *map(np.abs, wide))
    expected = np.einsum(subscripts, *wide)
    terms = math.prod(inputs[0].shape)
    assert_close(out, expected, dtype, "matmul", k_extent=terms, scale=scale)


@pytest.mark.parametrize("dtype", [f32, f64, complex64], ids=str)
@pytest.mark.parametrize("subscripts", ["k,k->", "mk,k->m", "k,kn->n", "bk,bk->b"])
def test_many_equal_terms_are_not_lost(subscripts: str, dtype: DType) -> None:
    """BLAS alone is 6e-3 off for 2e7 terms of 0.1, and 3e-4 for these.

    It adds to the rows of a result in turns, so that a stretch is one long sum there.
    """
    inputs = operands(subscripts, "k1100001 m2 n2 b2", dtype, dtype, 0)
    inputs[0][...], inputs[1][...] = 0.1, 1
    out = run("matmul", *inputs, params=params_of(subscripts), backend=cpu_blas)
    right = 1100001 * float(np.float32(0.1)) if dtype is not f64 else 110000.1
    assert np.all(np.abs(out - right) <= (1e-4 if subscripts == "k,kn->n" else 1.2e-5) * right)


@pytest.mark.parametrize("thin", [15, 16, 22, 23, 126, 129])
def test_a_thin_axis_is_padded_and_its_neighbours_are_not_read(thin: int) -> None:
    inputs = operands("dabe,ec->dcba", f"a31 b30 c{thin} d20 e33", f32, f32, 0)
    inputs[0][0] = np.nan  # of one row of the result only
    calls, out = calls_of(cpu_blas, "matmul", inputs, params_of("dabe,ec->dcba"))
    for _ in range(2):
        for function, arguments in calls:
            function(*arguments)
    wide = [x.astype(float) for x in inputs]
    scale = np.einsum("dabe,ec->dcba", *map(np.abs, wide))
    expected = np.einsum("dabe,ec->dcba", *wide)
    assert np.isnan(out[0]).all()
    assert_close(out[1:], expected[1:], f32, "matmul", k_extent=33, scale=scale[1:])


def test_what_is_no_contraction_is_refused() -> None:
    a = np.ones(3, np.float32)
    line, read = line_of("add", [a, a])
    assert "not add" in cpu_blas.supports(line, read, CPU).reason


def test_an_outer_product_is_one_multiplication() -> None:
    a, b = sample(f32, (30,)), sample(f32, (20,), 1)
    [(function, _)], _ = calls_of(cpu_blas, "matmul", [a, b], params_of("m,n->mn"))
    assert function is np.multiply
    result = run("matmul", a, b, params=params_of("m,n->mn"), backend=cpu_blas)
    assert result.tobytes() == np.outer(a, b).tobytes()


def test_private_labels_are_summed_before_the_product() -> None:
    a, b = sample(f32, (4, 500, 6)), sample(f32, (6, 5, 70), 1)
    params = params_of("mpk,knq->mn")
    [step] = steps_of(cpu_blas, "matmul", [a, b], params)
    assert step.scratch_bytes == 4 * (4 * 6 + 6 * 5)
    calls, out = calls_of(cpu_blas, "matmul", [a, b], params)
    assert [function is np.matmul for function, _ in calls] == [*[False] * (len(calls) - 1), True]
    for function, args in calls:
        function(*args)
    wide = [x.astype(float) for x in (a, b)]
    scale = np.einsum("mpk,knq->mn", *map(np.abs, wide))
    expected = np.einsum("mpk,knq->mn", *wide)
    assert_close(out, expected, f32, "matmul", k_extent=6, scale=scale)


@pytest.mark.parametrize("kind", [1, 4])
def test_what_blas_cannot_read_goes_through_scratch(kind: int) -> None:
    inputs = operands("mk,kn->mn", "m50 k60 n40", f32, f32, kind)
    params = params_of("mk,kn->mn")
    [step] = steps_of(cpu_blas, "matmul", inputs, params)
    assert step.kernel == "matmul_packed_a_b"
    assert step.scratch_bytes == 4 * (50 * 60 + 60 * 40)
    calls = calls_of(cpu_blas, "matmul", inputs, params)[0]
    assert [function is np.matmul for function, _ in calls] == [False, False, True]
    assert not any(np.shares_memory(x, y) for x in calls[2][1] for y in inputs)
