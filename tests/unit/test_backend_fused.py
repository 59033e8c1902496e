"""cpu_fused as the compiler sees it: verdicts, steps that pickle, rows of composites."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from chain_cases import (
    alone,
    array_of,
    micro_of,
    operand_of,
    random_chain,
    run,
    same_bits,
    step_of,
    unit_of,
    whole,
)

from softcuda import backends
from softcuda.backends import cpu_fused
from softcuda.backends.host import chain_rows
from softcuda.backends.host.chain_rows import bind_rows
from softcuda.dtype import REAL_DTYPES, f16, f32, f64, i64
from softcuda.errors import BackendError
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import LayerNorm, Reduce, Softmax
from softcuda.target import CPU

sys.path.insert(0, str(Path(__file__).parents[1]))
from tolerance import assert_close


def computed(chain, arrays):
    step = pickle.loads(pickle.dumps(step_of(chain, arrays, cpu_fused.prepare)))
    out = np.empty(chain[-1].dims, chain[-1].dtype.numpy)
    scratch = np.empty(step.scratch_bytes, np.uint8) if step.scratch_bytes else None
    run(backends.bind(step, arrays, [out], scratch))
    return out


def test_it_is_a_backend():
    assert backends.backends()["cpu_fused"] is cpu_fused
    assert cpu_fused.BACKEND_ID == "cpu_fused"
    assert cpu_fused.DEVICE == "cpu"
    assert frozenset({Kind.ELEMENTWISE, Kind.REDUCTION}) == cpu_fused.FUSES


@pytest.mark.parametrize("name", sorted(OPS))
def test_supports_says_why_not(name):
    line = Line(OPS[name], (), (3,), f32, ())
    verdict = cpu_fused.supports(line, [], CPU)
    taken = OPS[name].kind in (Kind.ELEMENTWISE, Kind.REDUCTION)
    assert verdict.supported == (taken or name in ("softmax", "log_softmax", "layer_norm"))
    if not verdict:
        assert name in verdict.reason
        assert "cpu_fused computes" in verdict.reason


def test_kernels_and_scratch():
    a = array_of(np.random.default_rng(0), (100,), f32)
    operand = operand_of(a)
    tanh = micro_of("tanh", (0,), [operand])
    both = micro_of("mul", (0, ~0), [operand, tanh])
    total = micro_of("sum", (~1,), [both], Reduce((0,), False))
    rows = micro_of("softmax", (0,), [operand], Softmax(0))
    for chain, kernel, nbytes in (
        ([tanh], "chain", 0),
        ([tanh, both], "chain", 448),
        ([tanh, both, total], "reduce", 512),
        ([rows], "rows", 576),
    ):
        step = step_of(chain, [a], cpu_fused.prepare)
        assert (step.kernel, step.scratch_bytes, step.chain) == (kernel, nbytes, tuple(chain))
        assert step.inputs == unit_of(chain, [a]).operands


def test_an_unknown_kernel_is_an_error():
    a = np.ones(3, np.float32)
    step = step_of([micro_of("tanh", (0,), [operand_of(a)])], [a], cpu_fused.prepare)
    (bad,) = [type(step)("cpu_fused", "spin", step.inputs, step.outputs)]
    with pytest.raises(BackendError, match="spin"):
        cpu_fused.bind(bad, [a], [a], None)


@pytest.mark.parametrize("dims", [(), (0,), (4, 5), (300, 400), (64, 40, 60)], ids=str)
def test_chains_and_reductions(dims):
    rng = np.random.default_rng(len(dims))
    for number in range(3):
        arrays = [array_of(rng, dims, f32, number), array_of(rng, dims[1:], f16)]
        operands = [operand_of(x) for x in arrays]
        chain = random_chain(rng, operands, dims, 6)
        assert same_bits(computed(chain, arrays), whole(chain, arrays))
        axes = tuple(range(len(dims)))
        for name in ("any", "argmax") if 0 not in dims else ("any",):
            micro = micro_of(name, (~5,), [chain[-1]], Reduce(axes, True))
            assert same_bits(computed([*chain, micro], arrays), whole([*chain, micro], arrays))


def rows_of(name, arrays, params, **options):
    micro = micro_of(name, range(len(arrays)), [operand_of(x) for x in arrays], params)
    out = np.empty(micro.dims, micro.dtype.numpy)
    run(bind_rows(micro, arrays, out, **options))
    return out, alone(micro, arrays)


def close(found, expected, dtype, name, array):
    """Compare with cpu_fallback, whose own functions compute the rows: only tiles may differ."""
    finite = np.abs(np.where(np.isfinite(array), array, 0).astype(np.float64))
    scale = finite.max(initial=1.0) if name == "log_softmax" else 1.0
    assert_close(found, expected.astype(np.float64), dtype, name, scale=scale)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [d for d in REAL_DTYPES.values() if d.is_float], ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_rows(name, dtype, threads):
    rng = np.random.default_rng(3)
    for dims in ((17,), (9, 14), (5, 6, 7), (3, 0), (1, 40)):
        for axis in range(len(dims)):
            for layout in range(4):
                array = array_of(rng, dims, dtype, layout)
                for elems in (None, 1, 30, 10_000):
                    found, expected = rows_of(
                        name, [array], Softmax(axis), block_elems=elems, threads=threads
                    )
                    close(found, expected, dtype, name, array)


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm_rows(weight, bias):
    rng = np.random.default_rng(4)
    for dims, count in (((6, 20), 1), ((3, 4, 5), 2), ((30,), 1), ((4, 3, 7), 1)):
        arrays = [array_of(rng, dims, f64, 1)]
        arrays = [np.where(np.isfinite(arrays[0]), arrays[0], 0.5)]
        arrays += [rng.standard_normal(dims[len(dims) - count :]) for _ in range(weight + bias)]
        params = LayerNorm(count, "1e-05", weight, bias)
        for elems in (None, 1, 25, 10_000):
            found, expected = rows_of("layer_norm", arrays, params, block_elems=elems, threads=2)
            close(found, expected, f64, "layer_norm", arrays[0])


def test_rows_longer_than_a_block(monkeypatch):
    monkeypatch.setattr(chain_rows, "LARGEST_BLOCK", 100)
    array = array_of(np.random.default_rng(5), (3, 1000), f32)
    for name in ("softmax", "log_softmax"):
        found, expected = rows_of(name, [array], Softmax(1), block_elems=chain_rows.BLOCK_ELEMS)
        close(found, expected, f32, name, array)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rows_of_integers_and_of_infinities(name):
    numbers = array_of(np.random.default_rng(6), (9, 20), i64)
    found, expected = rows_of(name, [numbers], Softmax(0), threads=2)
    close(found, expected, f32, name, numbers)
    low = np.full((2, 3), -np.inf, np.float32)
    found, expected = rows_of(name, [low], Softmax(1))
    assert np.isnan(found).all()
    assert np.isnan(expected).all()
