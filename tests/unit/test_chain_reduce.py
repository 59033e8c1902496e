"""Reductions with the chain before them: true values, same bits for any number of threads."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from chain_cases import alone, array_of, micro_of, operand_of, random_chain, run, same_bits, whole

from softcuda.backends.host.chain_reduce import bind_reduction, tile_extents
from softcuda.dtype import REAL_DTYPES, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Moment, Norm, Reduce

sys.path.insert(0, str(Path(__file__).parents[1]))
from tolerance import assert_close

NAMES = sorted(name for name, op in OPS.items() if op.kind is Kind.REDUCTION)
CASES = [
    ((), ()),
    ((1,), (0,)),
    ((300,), (0,)),
    ((5, 7), (0,)),
    ((5, 7), (1,)),
    ((5, 7), (0, 1)),
    ((5, 7), ()),
    ((40, 3), (0,)),
    ((9, 40), (0,)),
    ((4, 30, 5), (1,)),
    ((4, 30, 5), (0, 2)),
    ((3, 1, 6, 2), (1, 3)),
    ((2, 3, 4, 5), (0, 2)),
]


def params_of(name, axes, keepdims=False, extra=None):
    if name in ("var", "std"):
        return Moment(axes, keepdims, extra or "0")
    if name == "norm":
        return Norm(axes, keepdims, extra or "2")
    return Reduce(axes, keepdims)


def reduced(chain, arrays, **options):
    """Return the result of a chain and its reduction; the second run must repeat it."""
    out = np.empty(chain[-1].dims, chain[-1].dtype.numpy)
    calls = bind_reduction(chain, [operand_of(x) for x in arrays], arrays, out, **options)
    run(calls)
    first = out.copy()
    out.fill(1)
    run(calls)
    assert same_bits(first, out)
    return out


def check(chain, arrays, tile_elems):
    name, last = chain[-1].op.name, chain[-1]
    value = whole(chain[:-1], arrays) if len(chain) > 1 else arrays[0]
    axes = last.params.axes
    results = [reduced(chain, arrays, tile_elems=tile_elems, threads=threads) for threads in (1, 2)]
    assert all(same_bits(results[0], other) for other in results)
    if not last.dtype.is_float or name in ("min", "max"):
        expected = alone(last._replace(sources=(0,)), [value])
        assert same_bits(results[0], expected), (name, value, axes)
        return
    with np.errstate(all="ignore"):
        exact = value.astype(np.float64)
        scale = np.abs(exact).sum(axis=axes, keepdims=last.params.keepdims)
        if name == "mean":
            scale = scale / max(math.prod(value.shape[a] for a in axes), 1)
        scale = np.where(np.isfinite(scale), scale, 0.0) if name in ("sum", "mean") else 0.0
    wide = micro_of(name, (0,), [operand_of(exact)], last.params)
    expected = alone(wide, [exact])
    assert_close(results[0], expected, last.dtype, name, k_extent=value.size, scale=scale)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_reduction_alone(name, case):
    dims, axes = case
    rng = np.random.default_rng(len(name))
    for number, dtype in enumerate(REAL_DTYPES.values()):
        array = array_of(rng, dims, dtype, number % 4)
        params = params_of(name, axes, keepdims=number % 2 == 1)
        for tile_elems in (None, 1 if math.prod(dims) < 50 else 11):
            check([micro_of(name, (0,), [operand_of(array)], params)], [array], tile_elems)


@pytest.mark.parametrize("seed", range(60))
def test_reduction_after_a_chain(seed):
    rng = np.random.default_rng(seed)
    dims, axes = CASES[2 + seed % (len(CASES) - 2)]
    names = list(REAL_DTYPES)
    arrays = [array_of(rng, dims, REAL_DTYPES[str(rng.choice(names))], int(rng.integers(4)))]
    arrays.append(array_of(rng, dims[-1:], REAL_DTYPES[str(rng.choice(names))]))
    arrays.append(array_of(rng, (), f32))
    operands = [operand_of(x) for x in arrays]
    chain = random_chain(rng, operands, dims, int(rng.integers(1, 6)))
    name = str(rng.choice(NAMES))
    params = params_of(name, axes, bool(rng.integers(2)))
    chain.append(micro_of(name, (~(len(chain) - 1),), [chain[-1]], params))
    for tile_elems in (None, 13):
        check(chain, arrays, tile_elems)


@pytest.mark.parametrize("order", ["0", "1", "2", "3", "0.5", "-1", "inf", "-inf"])
def test_norm_orders(order):
    array = np.array([[3.0, -4.0, 0.5], [1.0, 2.0, -2.0]], np.float32)
    params = params_of("norm", (1,), extra=order)
    check([micro_of("norm", (0,), [operand_of(array)], params)], [array], None)


@pytest.mark.parametrize("correction", ["0", "1", "0.5", "3", "7"])
def test_corrections(correction):
    array = np.array([[3.0, -4.0, 0.5], [1.0, 2.0, -2.0]], np.float32)
    for name in ("var", "std"):
        params = params_of(name, (1,), extra=correction)
        check([micro_of(name, (0,), [operand_of(array)], params)], [array], None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[("sum", 0), ("prod", 1), ("mean", math.nan), ("var", math.nan), ("std", math.nan)],
        *[("any", False), ("all", True), ("norm", 0), ("logsumexp", -math.inf)],
    ],
)
@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_reduction_of_nothing(name, expected, dtype):
    array = np.empty((3, 0, 2), REAL_DTYPES[dtype].numpy)
    chain = [micro_of(name, (0,), [operand_of(array)], params_of(name, (1,)))]
    found = reduced(chain, [array]).astype(np.float64)
    assert found.shape == (3, 2)
    assert np.array_equal(found, np.full((3, 2), expected, np.float64), equal_nan=True)


def test_the_mean_of_many_ones_is_one():
    ones = np.broadcast_to(np.float32(1), (10_000, 10_000))
    chain = [micro_of("mean", (0,), [operand_of(ones)], Reduce((0, 1), False))]
    assert reduced(chain, [ones]) == 1.0


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_f32_sums_are_accurate_on_every_axis(axes):
    array = np.full((3000, 700), 0.1, np.float32)
    for layout in (array, array.T, array[::-1], np.ascontiguousarray(array.T).T):
        chain = [micro_of("sum", (0,), [operand_of(layout)], Reduce(axes, False))]
        true = layout.astype(np.float64).sum(axis=axes)
        assert_close(reduced(chain, [layout]), true, f32, "sum", k_extent=1)


def test_sums_of_16_bits_are_rounded_once():
    for count, expected in ((2049, 2048), (65520, math.inf)):
        ones = np.ones(count, np.float16)
        chain = [micro_of("sum", (0,), [operand_of(ones)], Reduce((0,), False))]
        assert reduced(chain, [ones]) == expected


def test_extreme_magnitudes():
    for value in (1e30, 1e-30, 3e38):
        array = np.array([value, -value, value, value], np.float32)
        for name in ("std", "norm", "mean", "prod"):
            micro = micro_of(name, (0,), [operand_of(array)], params_of(name, (0,)))
            check([micro], [array], None)
    near = (1e6 + np.linspace(0, 1, 999)).astype(np.float32)
    for name in ("var", "std"):
        check([micro_of(name, (0,), [operand_of(near)], params_of(name, (0,)))], [near], 100)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64])
def test_nan_and_signed_zeros(dtype):
    rows = [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [math.nan, 1.0], [-0.0, -3.0], [-0.0, 3.0]]
    array = np.array(rows).astype(dtype.numpy)
    for name in ("min", "max", "argmin", "argmax"):
        for axes in ((0,), (1,), (0, 1)):
            for tile_elems in (None, 1):
                micro = micro_of(name, (0,), [operand_of(array)], Reduce(axes, False))
                check([micro], [array], tile_elems)


def test_logsumexp_at_the_edges():
    rows = [[-math.inf] * 3, [math.inf, 1.0, -math.inf], [math.nan, 1.0, 2.0]]
    rows += [[1000.0, 1000.0, -math.inf], [-1000.0, -math.inf, -1001.0], [math.inf, 900.0, 1e38]]
    for dtype in (np.float32, np.float64):
        array = np.array(rows, dtype)
        for tile_elems in (None, 1):
            micro = micro_of("logsumexp", (0,), [operand_of(array)], Reduce((1,), False))
            check([micro], [array], tile_elems)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "var", "norm", "logsumexp", "argmin"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_same_bits_at_full_size(name, axes):
    array = array_of(np.random.default_rng(8), (1111, 517), f32)
    array = np.where(np.isfinite(array), array, np.float32(1))
    operand = operand_of(array)
    first = micro_of("tanh", (0,), [operand])
    chain = [first, micro_of(name, (~0,), [first], params_of(name, axes))]
    check(chain, [array], None)


def test_integers_wrap_and_widen():
    array = np.full((3, 3), 2**62, np.int64)
    for dtype, made in ((i64, array), (i32, np.full((3, 3), 2**31 - 1, np.int32))):
        for name in ("sum", "prod"):
            micro = micro_of(name, (0,), [operand_of(made)], Reduce((0, 1), False))
            assert micro.dtype is i64, dtype
            check([micro], [made], 2)
    flags = np.ones((70, 70), bool)
    micro = micro_of("sum", (0,), [operand_of(flags)], Reduce((0, 1), False))
    assert reduced([micro], [flags]) == 4900
    assert operand_of(flags).dtype is bool_


@pytest.mark.parametrize("elems", [1, 10, 4096, 65536])
def test_tiles_cover_and_stay_small(elems):
    for dims, flags in (
        ((4096, 4096), (True, False)),
        ((4096, 4096), (False, True)),
        ((1 << 24,), (True,)),
        ((3, 1 << 20), (True, False)),
        ((7, 300, 11, 13), (False, True, False, True)),
    ):
        tile = tile_extents(dims, flags, elems)
        assert all(1 <= t <= d for t, d in zip(tile, dims, strict=True))
        assert math.prod(tile) <= max(2 * elems, 8192)
    assert f64.itemsize == 8
