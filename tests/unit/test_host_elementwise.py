"""Every elementwise op x dtype x layout on cpu_fallback, and the corners that NumPy leaves open."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from host_harness import ALL, FLOATS, calls_of, layouts, line_of, run, sample
from host_reference import FLOATS as FORMULAS
from host_reference import whole_numbers

from softcuda.backends import cpu_fallback
from softcuda.backends.host.elementwise import ELEMENTWISE, function_for
from softcuda.dtype import DType, bf16, bool_, compute_dtype, f16, f32, f64, i32, i64
from softcuda.errors import DTypeError, IntegerPowerError
from softcuda.graph.lines import operand_dtypes
from softcuda.graph.op import OPS, Kind
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]

NAMES = sorted(op.name for op in OPS.values() if op.kind is Kind.ELEMENTWISE and op.name != "cast")
NAN, INF = math.nan, math.inf


def operands(name: str, first: Array, dtype: DType, seed: int) -> list[Array]:
    """Return operands of an op that broadcast together, the first of a given layout."""
    rest = [sample(dtype, first.shape, seed + 1), sample(dtype, first.shape[-1:], seed + 2)]
    inputs = [first, *rest][: OPS[name].arity]
    if name == "where":
        inputs[0] = sample(bool_, first.shape, seed)
    if name == "pow" and not dtype.is_float:
        inputs[1] = np.abs(inputs[1])
    return inputs


def expected_of(name: str, inputs: list[Array]) -> Array:
    line, read = line_of(name, inputs)
    loaded = operand_dtypes(line.op, read, ())
    with np.errstate(all="ignore"):
        inputs = [x.astype(d.numpy) for x, d in zip(inputs, loaded, strict=True)]
        if not loaded[-1].is_float:
            return whole_numbers(name, inputs, line.dtype)
        wide = [x if x.dtype == np.bool_ else x.astype(np.float64) for x in inputs]
        if not np.broadcast_shapes(*(x.shape for x in wide)) or all(x.size for x in wide):
            return np.asarray(FORMULAS[name](*wide))
        return np.empty(line.dims, np.float64 if line.dtype.is_float else bool)


def check(name: str, inputs: list[Array], out: Array | None = None) -> None:
    line, _ = line_of(name, inputs)
    expected = expected_of(name, inputs)
    scale = 0.0
    if name == "multiply_add" and line.dtype.is_float:
        scale = np.abs(inputs[0].astype(float) * inputs[1].astype(float))
    assert_close(run(name, *inputs, out=out), expected, line.dtype, name, scale=scale)


def test_the_table_is_whole() -> None:
    assert set(ELEMENTWISE) == set(NAMES)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_layout(name: str, dtype: DType) -> None:
    for seed, first in enumerate(layouts(dtype)):
        inputs = operands(name, first, dtype, seed)
        try:
            line_of(name, inputs)
        except DTypeError:
            assert dtype is bool_
            return
        check(name, inputs)


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].arity == 2])
def test_mixed_dtypes(name: str) -> None:
    for left, right in itertools.permutations(ALL, 2):
        a, b = sample(left, (5, 3), 1), sample(right, (3,), 2)
        check(name, [a, np.abs(b) if name == "pow" and right is not bool_ else b])


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_out_may_be_an_input(name: str, dtype: DType) -> None:
    first = sample(dtype, (6, 5), 3)
    for position in range(OPS[name].arity):
        inputs = operands(name, first, dtype, 3)
        try:
            line, _ = line_of(name, inputs)
        except DTypeError:
            return
        inputs = [np.array(np.broadcast_to(x, first.shape)) for x in inputs]
        if inputs[position].dtype != line.dtype.numpy:
            continue
        expected = run(name, *inputs)
        result = run(name, *inputs, out=inputs[position])
        assert result.tobytes() == expected.tobytes(), f"{name}: out is operand {position}"


@pytest.mark.parametrize("dtype", [f16, f32, i64], ids=str)
@pytest.mark.parametrize("name", ["add", "maximum", "where", "sigmoid", "clip", "multiply_add"])
def test_arrays_larger_than_a_block(name: str, dtype: DType) -> None:
    inputs = operands(name, sample(dtype, (3, 20011)), dtype, 5)
    part = [np.broadcast_to(x, (3, 20011))[:, -7:] for x in inputs]
    assert run(name, *inputs)[:, -7:].tobytes() == run(name, *part).tobytes()


def test_a_tiny_node_is_one_call() -> None:
    a, b = np.ones(8, np.float32), np.ones(8, np.float32)
    [(function, args)], out = calls_of(cpu_fallback, "add", [a, b])
    assert function is np.add
    assert all(x is y for x, y in zip(args, (a, b, out), strict=True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_zeros_keep_their_signs(dtype: DType) -> None:
    a = np.array([0.0, -0.0, 0.0, -0.0, 1.0], dtype.numpy)
    b = np.array([-0.0, 0.0, 0.0, -0.0, 1.0], dtype.numpy)
    greatest, least = run("maximum", a, b), run("minimum", a, b)
    assert np.signbit(greatest.astype(float)).tolist() == [False, False, False, True, False]
    assert np.signbit(least.astype(float)).tolist() == [True, True, False, True, False]
    assert not np.signbit(run("relu", np.tile(a, 9)).astype(float)).any()
    scalar = np.array(0.0, dtype.numpy)
    assert not np.signbit(run("maximum", np.tile(a[:4], 20), scalar).astype(float)).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_wins_from_either_side(dtype: DType) -> None:
    a = np.array([1, NAN, 2], dtype.numpy)
    b = np.array([NAN, 0, 1], dtype.numpy)
    for name, last in (("maximum", 2.0), ("minimum", 1.0)):
        for left, right in ((a, b), (b, a)):
            result = run(name, left, right).astype(float)
            assert np.isnan(result).tolist() == [True, True, False]
            assert result[2] == last
    one = np.array([1.0], dtype.numpy)
    for inputs in ([a[1:2], one, one], [one, a[1:2], one], [one, one, a[1:2]]):
        assert np.isnan(run("clip", *inputs).astype(float)).all()
    assert np.isnan(run("relu", a[1:2]).astype(float)).all()


def test_crossed_bounds_give_the_upper() -> None:
    x = np.array([-5.0, 0.0, 5.0], np.float32)
    low, high = np.array(2.0, np.float32), np.array(-2.0, np.float32)
    assert run("clip", x, low, high).tolist() == [-2.0, -2.0, -2.0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].arity <= 2])
def test_special_values(name: str, dtype: DType) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -88.5, -103.0, -720.0, 90.0, INF, -INF, NAN]
    if name in ("gelu", "silu", "mish"):
        values.remove(-INF)  # -inf * 0
    a = np.array(values, dtype.numpy)
    if name == "pow" or OPS[name].arity == 1 or name not in ("floor_divide", "remainder"):
        inputs = [a[:, None], a[None, :]][: OPS[name].arity]
    else:
        inputs = [a[:, None], a[None, [2, 3, 4, 8]]]
    if name in ("sinh", "cosh", "exp", "exp2", "expm1", "sigmoid", "silu", "mish", "softplus"):
        inputs = [x[np.isfinite(x.astype(float)) & (np.abs(x.astype(float)) < 700)] for x in inputs]
    check(name, inputs)


def test_the_tails_are_not_flushed() -> None:
    x = np.array([-100.0, -88.9, -87.0], np.float32)
    assert_close(run("sigmoid", x), np.exp(x.astype(float)), f32, "sigmoid")
    assert_close(run("silu", x), x * np.exp(x.astype(float)), f32, "silu")
    assert run("sigmoid", np.array([-INF, INF], np.float32)).tolist() == [0.0, 1.0]
    deep = [-8.0, -5.0]
    tail = [x * 0.5 * math.erfc(-x / math.sqrt(2)) for x in deep]
    assert_close(run("gelu", np.array(deep)), np.array(tail), f64, "gelu")


def test_subnormals_are_kept() -> None:
    tiny = np.array([np.finfo(np.float32).tiny, 1.4e-45], np.float32)
    half, two = np.array(0.5, np.float32), np.array(2.0, np.float32)
    assert float(run("mul", tiny, half)[0]) == 5.877471754111438e-39
    assert float(run("mul", tiny, two)[1]) == 2.802596928649634e-45
    assert not run("eq", run("mul", tiny, half), np.zeros(2, np.float32))[0]
    small = np.array([6e-8], np.float16)
    assert float(run("copy", small)[0]) == 5.960464477539063e-08
    assert float(run("mul", small, np.array(1, np.float16))[0]) == 5.960464477539063e-08


@pytest.mark.parametrize("dtype", [i32, i64], ids=str)
def test_integers_wrap_and_divide(dtype: DType) -> None:
    limits = np.iinfo(dtype.numpy)
    a = np.array([limits.max, limits.min, limits.min, 7, -7, 7, 0], dtype.numpy)
    b = np.array([1, -1, 1, 0, 0, -2, 5], dtype.numpy)
    for name in ("add", "sub", "mul", "floor_divide", "remainder"):
        check(name, [a, b])
    check("neg", [a])
    check("abs", [a])
    check("square", [a])


@pytest.mark.parametrize("dtype", [i32, i64], ids=str)
def test_a_negative_integer_power_is_refused(dtype: DType) -> None:
    base, exponent = np.array([2, 3], dtype.numpy), np.array([1, -2], dtype.numpy)
    with pytest.raises(IntegerPowerError, match="power -2"):
        run("pow", base, exponent)
    assert run("pow", base, np.array([62, 0], dtype.numpy))[1] == 1
    assert run("pow", base.astype(np.float32), exponent)[1] == np.float32(3.0**-2)


def test_each_node_rounds_once() -> None:
    # 1/3 in f16 and the sum of two of them, rounded from f32.
    third = np.array([1 / 3], np.float16)
    exact = float(third[0]) * 3
    assert float(run("mul", third, np.array(3, np.float16))[0]) == float(np.float16(exact))
    fused = np.array([1 + 2.0**-12], np.float32)
    twice = run("multiply_add", fused, fused, -np.square(fused))
    assert twice[0] == 0.0


def test_an_integer_meets_a_half() -> None:
    big = np.array([70000, 3], np.int64)
    one = np.array([1, 1], np.float16)
    assert run("add", big, one).tolist() == [INF, 4.0]


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_short_function_agrees(name: str, dtype: DType) -> None:
    inputs = operands(name, sample(compute_dtype(dtype), (9, 4), 8), compute_dtype(dtype), 8)
    try:
        line, read = line_of(name, inputs)
    except DTypeError:
        return
    loaded = operand_dtypes(line.op, read, ())
    inputs = [x.astype(d.numpy) for x, d in zip(inputs, loaded, strict=True)]
    first, second = (np.empty(line.dims, line.dtype.numpy) for _ in range(2))
    with np.errstate(all="ignore"):
        ELEMENTWISE[name](*inputs, first)
        function_for(name, loaded[-1])(*inputs, second)
    assert first.tobytes() == second.tobytes()


def test_rank_64() -> None:
    shape = (2, *(1,) * 61, 3, 2)
    a = sample(f32, shape)
    assert run("add", a, a).shape == shape
    assert run("sigmoid", sample(bf16, shape)).shape == shape
