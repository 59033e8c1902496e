"""Products in blocks: none larger than asked, together the product; boxes that threads share."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from host_equations import operands, params_of
from host_harness import calls_of, sample, steps_of

from softcuda.backends import cpu_blas
from softcuda.backends.host import packed
from softcuda.backends.host.blas import BLAS
from softcuda.backends.host.blocks import block_of, cut_by_rows, multiply_in_blocks
from softcuda.backends.host.workers import SHARED
from softcuda.dtype import DType, bf16, complex64, f16, f32, f64
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]

SIZES = [
    (1, 1, 1, 1),
    (1, 1, 50, 10),
    (7, 5, 3, 105),
    (7, 5, 3, 104),
    (40, 3, 2, 30),
    (3, 40, 2, 30),
    (33, 70, 9, 900),
    (64, 64, 4, 1 << 10),
    (101, 103, 2, 500),
]


@pytest.mark.parametrize(("m", "n", "k", "most"), SIZES)
def test_blocks_fit(m: int, n: int, k: int, most: int) -> None:
    block = block_of(m, n, k, most)
    assert 1 <= block.m <= m
    assert 1 <= block.n <= n
    assert block.m * block.n * k <= max(most, k)


@pytest.mark.parametrize("stack", [(), (3,), (2, 1, 2)])
@pytest.mark.parametrize(("m", "n", "k", "most"), SIZES)
def test_blocks_are_the_product(m: int, n: int, k: int, most: int, stack: tuple[int, ...]) -> None:
    made: list[int] = []

    def multiply(a: Array, b: Array, out: Array) -> None:
        made.append(a.shape[-2] * b.shape[-1] * a.shape[-1])
        np.matmul(a, b, out)

    a = sample(f64, (*stack, m, k))
    b = sample(f64, (*stack, n, k), 1).swapaxes(-1, -2)
    wide = np.full((*stack, m, n + 3), np.nan)
    out = wide[..., :n]
    multiply_in_blocks(multiply, most, a, b, out)
    assert max(made) <= max(most, k)
    scale = np.matmul(abs(a), abs(b)) + 1
    assert_close(out, np.matmul(a, b), f64, "matmul", k_extent=k, scale=scale)
    assert np.isnan(wide[..., n:]).all()


@pytest.mark.parametrize(
    ("m", "n", "most"), [(1000, 1000, 1 << 18), (3, 400_000, 3 * 400_000), (257, 1200, 1 << 18)]
)
def test_rows_are_cut_while_there_are_many(m: int, n: int, most: int) -> None:
    a, b = sample(f32, (2, m, 3)), sample(f32, (3, n), 1)
    wide = np.full((2, m, n + 1), np.nan, np.float32)
    parts = cut_by_rows(a, b, wide[..., :n])
    assert all(out[0].size <= most for _, _, out in parts)
    for part in parts:
        np.matmul(*part)
    assert_close(wide[..., :n], np.matmul(a, b), f32, "matmul", k_extent=3)
    assert np.isnan(wide[..., n]).all()


@pytest.mark.parametrize("kept", [0, 512])
@pytest.mark.parametrize("subscripts", ["adb,cd->cba", "bda,cd->cba"])
def test_calls_kept_by_threads_read_what_is_there_now(
    subscripts: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_KEPT_BOXES", kept)
    monkeypatch.setenv("SOFTCUDA_THREADS", "3")
    inputs = operands(subscripts, "a200 b200 c20 d90", f32, f32, 0)
    params = params_of(subscripts)
    [step] = steps_of(cpu_blas, "matmul", inputs, params)
    assert step.kernel.startswith("matmul_shared")
    calls, out = calls_of(cpu_blas, "matmul", inputs, params)

    def run() -> None:
        for function, arguments in calls:
            function(*arguments)

    def more_scratch(worker: int, item: int) -> None:
        SHARED.scratch(len(SHARED.scratch(0)) + 64).fill(255)

    def close() -> bool:
        wide = [x.astype(float) for x in inputs]
        scale = np.einsum(subscripts, *map(np.abs, wide))
        expected = np.einsum(subscripts, *wide)
        assert_close(out, expected, f32, "matmul", k_extent=90, scale=scale)
        return True

    for change in (1, 2, 3):
        inputs[0][...] *= -change
        out.fill(np.nan)
        run()
        assert close()
        SHARED.run(more_scratch, 3, 3)
    out.fill(np.nan)
    other = threading.Thread(target=run)
    other.start()
    other.join()
    assert close()


@pytest.mark.parametrize("dtype", [f32, f64, complex64], ids=str)
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_do_not_change_a_bit(
    dtype: DType, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = operands("adb,cd->cba", "a200 b200 c20 d90", dtype, dtype, 0)
    params = params_of("adb,cd->cba")
    [step] = steps_of(cpu_blas, "matmul", inputs, params)
    assert step.kernel == "matmul_shared_packed_out"
    assert step.scratch_bytes == 0
    results = []
    for count in ("1", threads):
        monkeypatch.setenv("SOFTCUDA_THREADS", count)
        calls, out = calls_of(cpu_blas, "matmul", inputs, params)
        for function, arguments in calls:
            function(*arguments)
        results.append(out.tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_threads_convert_their_tiles(dtype: DType) -> None:
    inputs = operands("adb,cd->cba", "a300 b200 c20 d90", dtype, dtype, 0)
    params = params_of("adb,cd->cba")
    [step] = steps_of(cpu_blas, "matmul", inputs, params)
    assert step.kernel.startswith("matmul_shared_packed")
    calls, out = calls_of(cpu_blas, "matmul", inputs, params)
    for function, arguments in calls:
        function(*arguments)
    wide = [x.astype(float) for x in inputs]
    expected = np.einsum("adb,cd->cba", *wide)
    scale = np.einsum("adb,cd->cba", *map(np.abs, wide))
    assert_close(out, expected, dtype, "matmul", k_extent=90, scale=scale)


def test_without_control_of_blas_products_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = operands("adb,cd->cba", "a200 b200 c20 d90", f32, f32, 0)
    params = params_of("adb,cd->cba")
    monkeypatch.setattr(BLAS, "alone", lambda: nullcontext(enter_result=False))
    calls, out = calls_of(cpu_blas, "matmul", inputs, params)
    for function, arguments in calls:
        function(*arguments)
    wide = [x.astype(float) for x in inputs]
    scale = np.einsum("adb,cd->cba", *map(np.abs, wide))
    expected = np.einsum("adb,cd->cba", *wide)
    assert_close(out, expected, f32, "matmul", k_extent=90, scale=scale)


def test_an_error_in_a_box_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = operands("adb,cd->cba", "a200 b200 c20 d90", f32, f32, 0)
    calls, _ = calls_of(cpu_blas, "matmul", inputs, params_of("adb,cd->cba"))

    def scratch(nbytes: int) -> Array:
        raise MemoryError(f"{nbytes} bytes")

    monkeypatch.setattr(SHARED, "scratch", scratch)
    with pytest.raises(MemoryError, match="bytes"):
        for function, arguments in calls:
            function(*arguments)
