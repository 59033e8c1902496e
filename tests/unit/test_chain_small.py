"""Reductions and composites of few elements: bare calls, any layout, scratch as asked."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from chain_cases import alone, array_of, micro_of, operand_of, random_chain, run, same_bits, whole

from softcuda.backends.host import chain_calls
from softcuda.backends.host.chain_calls import CallList, Field, stand_in
from softcuda.backends.host.chain_reduce import bind_reduction, reduction_scratch_bytes
from softcuda.backends.host.chain_rows import bind_rows, rows_scratch_bytes
from softcuda.backends.host.conversion import convert
from softcuda.dtype import REAL_DTYPES, bf16, f16, f32, f64
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import LayerNorm, Moment, Norm, Reduce, Softmax

sys.path.insert(0, str(Path(__file__).parents[1]))
from tolerance import assert_close

NAMES = sorted(name for name, op in OPS.items() if op.kind is Kind.REDUCTION)
EXTREMES = ("min", "max", "argmin", "argmax")


def params_of(name, axes, keepdims=False):
    if name in ("var", "std"):
        return Moment(axes, keepdims, "0")
    return Norm(axes, keepdims, "2") if name == "norm" else Reduce(axes, keepdims)


def checked(calls, out):
    """Run the calls twice; return the result, which must repeat in scratch that was spoilt."""
    run(calls)
    first = out.copy()
    out.fill(1)
    run(calls)
    assert same_bits(first, out)
    return first


def reduced(chain, arrays):
    operands = [operand_of(x) for x in arrays]
    nbytes = reduction_scratch_bytes(chain, operands)
    scratch = np.full(nbytes + 64, 0xA5, np.uint8)
    out = np.empty(chain[-1].dims, chain[-1].dtype.numpy)
    kept = scratch[nbytes:].copy()
    found = checked(bind_reduction(chain, operands, arrays, out, scratch[:nbytes]), out)
    assert np.array_equal(scratch[nbytes:], kept)
    assert same_bits(found, checked(bind_reduction(chain, operands, arrays, out), out))
    return found


def close_to_truth(found, micro, value):
    """Compare with cpu_fallback: exactly, or in f64 within the tolerance of the op."""
    name, params = micro.op.name, micro.params
    if not micro.dtype.is_float or name in EXTREMES:
        assert same_bits(found, alone(micro._replace(sources=(0,)), [value])), name
        return
    exact = value.astype(np.float64)
    scale = 0.0
    if name in ("sum", "mean"):
        with np.errstate(all="ignore"):
            scale = np.abs(exact).sum(axis=params.axes, keepdims=params.keepdims)
            count = math.prod(value.shape[axis] for axis in params.axes)
            scale = np.where(np.isfinite(scale), scale / (count if name == "mean" else 1), 0.0)
    expected = alone(micro_of(name, (0,), [operand_of(exact)], params), [exact])
    assert_close(found, expected, micro.dtype, name, k_extent=value.size, scale=scale)


@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_short_and_long_runs_of_every_layout(name, dtype):
    rng = np.random.default_rng(1)
    for dims, axes in (
        ((400, 3), (0,)),
        ((400, 3), (1,)),
        ((3, 400), (1,)),
        ((64, 64), (1,)),
        ((20, 3, 11, 2), (1, 3)),
        ((20, 3, 11, 2), (0, 2)),
    ):
        for layout in range(4):
            array = array_of(rng, dims, dtype, layout)
            micro = micro_of(name, (0,), [operand_of(array)], params_of(name, axes, layout == 1))
            close_to_truth(reduced([micro], [array]), micro, array)


@pytest.mark.parametrize("name", NAMES)
def test_repeated_operands(name):
    column = np.random.default_rng(2).standard_normal((7, 1, 5)).astype(np.float32)
    array = np.broadcast_to(column, (7, 30, 5))
    for axes in ((0,), (1,), (2,), (0, 1, 2)):
        micro = micro_of(name, (0,), [operand_of(array)], params_of(name, axes))
        close_to_truth(reduced([micro], [array]), micro, array)


@pytest.mark.parametrize("seed", range(40))
def test_after_a_chain(seed):
    rng = np.random.default_rng(seed)
    dims, axes = [((300, 4), (1,)), ((6, 50), (0,)), ((5, 6, 7), (0, 2)), ((90,), (0,))][seed % 4]
    arrays = [
        array_of(rng, dims, REAL_DTYPES[str(rng.choice(list(REAL_DTYPES)))], int(rng.integers(4)))
    ]
    arrays.append(array_of(rng, dims[-1:], REAL_DTYPES[str(rng.choice(list(REAL_DTYPES)))]))
    chain = random_chain(rng, [operand_of(x) for x in arrays], dims, int(rng.integers(1, 6)))
    value = whole(chain, arrays)
    name = str(rng.choice(NAMES))
    micro = micro_of(name, (~(len(chain) - 1),), [chain[-1]], params_of(name, axes))
    close_to_truth(reduced([*chain, micro], arrays), micro, value)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_only_calls(name):
    array = np.ones((64, 64), np.float32)
    micro = micro_of(name, (0,), [operand_of(array)], params_of(name, (0, 1)))
    out = np.empty((), micro.dtype.numpy)
    calls = bind_reduction([micro], [operand_of(array)], [array], out)
    assert len(calls) <= 9
    for function, _ in calls:
        owner = getattr(function, "__self__", None)
        bare = isinstance(function, np.ufunc) or isinstance(owner, np.ufunc)
        assert bare or function in (np.copyto, np.ndarray.argmin, np.ndarray.argmax)


def test_f64_results_round_to_bf16_once():
    array = np.array([1.0, 2.0**-8, 2.0**-30], bf16.numpy)  # f32 would lose the last: a tie
    micro = micro_of("sum", (0,), [operand_of(array)], Reduce((0,), False))
    assert reduced([micro], [array]) == 1.0 + 2.0**-7
    out = np.empty((), bf16.numpy)
    calls = bind_reduction([micro], [operand_of(array)], [array], out)
    assert calls[-1][0] is convert


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_f32_sums_keep_every_digit(axes):
    for dims in ((8000, 2), (2, 8000), (128, 128)):
        array = np.random.default_rng(3).random(dims).astype(np.float32)
        for name in ("sum", "mean"):
            micro = micro_of(name, (0,), [operand_of(array)], Reduce(axes, False))
            exact = getattr(array.astype(np.float64), name)(axis=axes)
            assert same_bits(reduced([micro], [array]), np.asarray(exact.astype(np.float32)))


def test_variance_far_from_zero():
    array = (1e6 + np.linspace(0, 1, 4000)).astype(np.float32).reshape(40, 100)
    for name in ("var", "std"):
        for axes in ((0,), (1,), (0, 1)):
            micro = micro_of(name, (0,), [operand_of(array)], params_of(name, axes))
            close_to_truth(reduced([micro], [array]), micro, array)


def test_a_larger_reduction_asks_for_no_scratch():
    array = np.broadcast_to(np.float32(1), (chain_calls.SMALL_ELEMS + 1,))
    micro = micro_of("var", (0,), [operand_of(array)], params_of("var", (0,)))
    assert reduction_scratch_bytes([micro], [operand_of(array)]) == 0
    rows = micro_of("softmax", (0,), [operand_of(array)], Softmax(0))
    assert rows_scratch_bytes(rows, [operand_of(array)]) == 0


def composite(name, arrays, params):
    micro = micro_of(name, range(len(arrays)), [operand_of(x) for x in arrays], params)
    out = np.empty(micro.dims, micro.dtype.numpy)
    nbytes = rows_scratch_bytes(micro, [operand_of(x) for x in arrays])
    scratch = np.full(nbytes + 64, 0xA5, np.uint8)
    kept = scratch[nbytes:].copy()
    found = checked(bind_rows(micro, arrays, out, scratch[:nbytes]), out)
    assert np.array_equal(scratch[nbytes:], kept)
    assert same_bits(found, checked(bind_rows(micro, arrays, out), out))
    wide = [x.astype(np.float64) for x in arrays]
    exact = micro_of(name, range(len(arrays)), [operand_of(x) for x in wide], params)
    return found, alone(exact, wide), micro


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_short_and_long_rows(name, dtype):
    rng = np.random.default_rng(4)
    for dims, axis in (((500, 4), 1), ((500, 4), 0), ((9, 300), 1), ((5, 4, 60), 1), ((3, 1), 1)):
        for layout in range(4):
            array = array_of(rng, dims, dtype, layout)
            found, expected, micro = composite(name, [array], Softmax(axis))
            finite = np.where(np.isfinite(array.astype(np.float64)), array.astype(np.float64), 0)
            scale = np.abs(finite).max(initial=1.0) if name == "log_softmax" else 1.0
            assert_close(found, expected, micro.dtype, name, scale=scale)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_layer_norm_with_factors_of_another_dtype(dtype):
    rng = np.random.default_rng(5)
    for dims, count in (((300, 5), 1), ((4, 200), 1), ((6, 5, 4), 2), ((5, 1), 1)):
        for layout in range(4):
            array = array_of(rng, dims, dtype, layout)
            array = np.where(np.isfinite(array), array, np.ones((), dtype.numpy))
            array = np.clip(array, dtype.numpy.type(-9), dtype.numpy.type(9))
            inner = dims[len(dims) - count :]
            factors = [array_of(rng, inner, f16), array_of(rng, inner, dtype)]
            factors = [np.where(np.isfinite(x), x, np.ones((), x.dtype)) for x in factors]
            params = LayerNorm(count, "1e-05", True, True)
            found, expected, micro = composite("layer_norm", [array, *factors], params)
            scale = max(np.abs(x.astype(np.float64)).max() for x in factors) * len(array) ** 0.5
            assert_close(found, expected, micro.dtype, "layer_norm", scale=scale)


def test_lay_copies_only_where_it_pays():
    wide = np.zeros((4, 4000), np.float32)
    made = CallList()
    field = Field(wide, (1,), (0, 1), False)
    assert made.lay(field) is field
    assert not made.calls
    tall = made.lay(Field(wide.reshape(4000, 4), (1,), (0, 1), False))
    assert tall.values.shape == (4, 4000)
    assert (tall.axes, tall.order, tall.own) == ((0,), (1, 0), True)
    assert tall.kept == (4000,)
    assert tall.along == (1, 4000)
    assert made.lay(field, np.dtype(np.float64)).values.shape == wide.shape


def test_stand_ins_have_the_layout():
    array = np.zeros((6, 8), np.float32).T[::-2]
    made = stand_in(operand_of(array))
    assert (made.shape, made.strides, made.dtype) == (array.shape, array.strides, array.dtype)
