"""cuda_reduce as the compiler sees it: verdicts, which kernel, how many parts, what is passed."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from chain_cases import array_of, micro_of, operand_of, unit_of
from reduce_steps import H200, check_step, families, step_for

from softcuda.backends import cuda_reduce
from softcuda.backends.cuda import naive_reduce
from softcuda.backends.cuda.spaces import loops_of, pack_divisor64
from softcuda.backends.cuda.states import measure_of
from softcuda.backends.steps import Operand, Step, Unit
from softcuda.dtype import REAL_DTYPES, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cumulative, Dims, LayerNorm, Moment, Norm, Reduce, Softmax
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.target import Target

KINDS = (Kind.REDUCTION, Kind.SCAN, Kind.COMPOSITE)


def reduced(dims: Dims, axes: Dims, name: str = "sum", **options: object) -> Step:
    dtype = options.get("dtype", f32)
    strides = options.get("strides") or contiguous_strides(dims)
    operand = Operand(0, 0, dims, strides, dtype)  # type: ignore[arg-type]
    return step_for([micro_of(name, (0,), [operand], Reduce(axes, False))], [operand])


@pytest.mark.parametrize("name", sorted(OPS))
def test_supports_says_why_not(name: str) -> None:
    params = {"layer_norm": LayerNorm(1, "1e-05", False, False)}.get(name, Softmax(0))
    line = Line(OPS[name], (), (3,), f32, params if OPS[name].kind is Kind.COMPOSITE else ())
    verdict = cuda_reduce.supports(line, [], H200)
    assert verdict.supported == (OPS[name].kind in KINDS)
    if not verdict:
        assert name in verdict.reason
        assert "cuda_reduce computes" in verdict.reason
    absorbed = cuda_reduce.absorbs(line, [], H200)
    assert absorbed.supported == (OPS[name].kind in (*KINDS, Kind.ELEMENTWISE))


def test_what_it_fuses() -> None:
    anchors = frozenset({Kind.REDUCTION, Kind.COMPOSITE})
    assert anchors | {Kind.ELEMENTWISE} == cuda_reduce.FUSES
    assert anchors == cuda_reduce.EPILOGUES
    assert (cuda_reduce.BACKEND_ID, cuda_reduce.DEVICE) == ("cuda_reduce", "cuda")


@pytest.mark.parametrize(
    ("dims", "axes", "expected"),
    [
        ((8192, 8192), (1,), ["reduce_even_rows"]),
        ((8191, 8191), (1,), ["reduce_rows"]),
        ((8192, 8192), (0,), ["reduce_columns"]),
        ((8192, 2048), (0,), ["reduce_columns", "reduce_parts"]),
        ((8192, 8192), (0, 1), ["reduce_even_rows", "reduce_parts"]),
        ((1048576, 64), (1,), ["reduce_short_rows"]),
        ((1048576, 62), (1,), ["reduce_rows"]),
        ((16, 1 << 20), (1,), ["reduce_even_rows", "reduce_parts"]),
        ((1 << 20, 16), (0,), ["reduce_columns", "reduce_parts"]),
        ((1 << 20, 3), (0,), ["reduce_columns", "reduce_parts"]),
        ((512, 64, 1024), (1,), ["reduce_columns"]),
        ((512, 64, 1024), (0, 2), ["reduce_even_rows", "reduce_parts"]),
        ((4096, 512, 32), (0, 2), ["reduce_rows", "reduce_parts"]),
        ((1,), (0,), ["reduce_rows"]),
        ((5, 1), (1,), ["reduce_columns"]),
        ((3, 0), (1,), ["reduce_rows"]),
        ((0, 3), (1,), []),
    ],
    ids=str,
)
def test_where_the_axes_lie_decides(dims: Dims, axes: Dims, expected: list[str]) -> None:
    assert families(reduced(dims, axes)) == expected


def test_a_transposed_operand_is_reduced_as_it_lies() -> None:
    step = reduced((8192, 4096), (1,), strides=(1, 8192))
    assert families(step)[0] == "reduce_columns"


def test_parts_depend_on_extents_and_target_alone() -> None:
    step = reduced((1 << 26,), (0,))
    main, joined = step.launches
    assert main.grid == (1, 8192, 1)
    assert joined.grid == (1, 1, 1)
    assert step.scratch_bytes == 8192 * 8
    assert reduced((1 << 26,), (0,)) == step
    small = Target("cuda", "sm_75", 2, 64, 4)
    operand = Operand(0, 0, (1 << 26,), (1,), f32)
    chain = [micro_of("sum", (0,), [operand], Reduce((0,), False))]
    assert step_for(chain, [operand], small).launches[0].grid == (1, 128, 1)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
def test_extents_beyond_31_bits(axes: Dims) -> None:
    for dims in ((1 << 33, 2), (2, 1 << 33), (1 << 17, 1 << 17)):
        for dtype in (bool_, f16, f64):
            reduced(dims, axes, dtype=dtype)
            reduced(dims, axes, "argmax", dtype=dtype)


@pytest.mark.parametrize("name", ["sum", "argmin"])
def test_any_rank_and_many_operands_fit_the_parameters(name: str) -> None:
    rng = np.random.default_rng(0)
    for rank in (2, 5, 9, 16, 32, 62):
        dims = (2,) * rank
        wanted = contiguous_strides(dims)
        for count in (1, 2, 8, 30):
            operands = [
                Operand(k, 0, dims, tuple(wanted[i] for i in rng.permutation(rank)), f32)
                for k in range(count)
            ]
            chain = []
            for k in range(1, count):
                left, typed = (0, operands[0]) if k == 1 else (~(k - 2), chain[-1])
                chain.append(micro_of("add", (left, k), [typed, operands[k]]))
            source, typed = (~(count - 2), chain[-1]) if chain else (0, operands[0])
            axes = tuple(range(0, rank, 2))
            chain.append(micro_of(name, (source,), [typed], Reduce(axes, True)))
            kept = Operand(99, 0, chain[-1].dims, contiguous_strides(chain[-1].dims), f32)
            operands += [kept, kept._replace(value=100)]
            for k in (count, count + 1):
                chain.append(micro_of("mul", (~(len(chain) - 1), k), [chain[-1], operands[k]]))
            step_for(chain, operands)


def test_scalars_and_ops_around_are_one_launch() -> None:
    x = array_of(np.random.default_rng(0), (4096, 512), f32)
    two = np.float32(2)
    product = micro_of("mul", (0, 1), [operand_of(x), operand_of(two)])
    total = micro_of("sum", (~0,), [product], Reduce((1,), True))
    tail = micro_of("sqrt", (~1,), [total])
    (step,) = cuda_reduce.prepare(unit_of([product, total, tail], [x, two]), H200)
    (launch,) = step.launches
    assert "mul_sqrt" in launch.spec.id
    assert launch.spec.dtypes == ("f32", "f32", "f32")
    (header,) = launch.spec.headers
    assert "Mul<f32>" in header.text
    assert "Sqrt<f32>" in header.text


def test_equal_chains_are_one_kernel() -> None:
    """Extents, strides and numbers are parameters."""
    specs = set()
    for rows in (100, 5000):
        x = array_of(np.random.default_rng(0), (rows, 4096), f16)
        total = micro_of("mean", (0,), [operand_of(x)], Reduce((1,), False))
        (step,) = cuda_reduce.prepare(unit_of([total], [x]), H200)
        specs.add(step.launches[0].spec)
    assert len(specs) == 1


def test_measures() -> None:
    reduce, none = Reduce((0,), False), Reduce((0,), False)
    assert measure_of("sum", f16, reduce, 4).state == "Sum<f32>"
    assert measure_of("sum", bool_, reduce, 4).state == "Sum<bool>"
    assert measure_of("mean", i32, reduce, 4).state == "Sum<f64>"
    assert measure_of("all", bf16, none, 4).flip == 1
    assert measure_of("min", i64, none, 4).flip == -1
    assert measure_of("var", f32, Moment((0,), False, "5"), 4).divisor == 0.0
    assert measure_of("norm", f32, Norm((0,), False, "inf"), 4).of_sizes
    assert measure_of("norm", f32, Norm((0,), False, "inf"), 0).state == "Norm<f32>"
    assert measure_of("norm", i32, Norm((0,), False, "2"), 4).state == "Norm<f64>"
    assert measure_of("norm", f32, Norm((0,), False, "3"), 4).order == 3.0


def test_loops_are_fused_and_sorted() -> None:
    dims, out = (4, 5, 6, 7), (5, 1, 0, 0)
    loops = loops_of(dims, (2, 3), 1, [out, contiguous_strides(dims)])
    assert (loops.is_rows, loops.inner.extent, loops.results) == (True, 42, 20)
    assert [axis.extent for axis in loops.kept] == [20]
    loops = loops_of(dims, (0, 2), 1, [(0, 7, 0, 1), contiguous_strides(dims)])
    assert (loops.is_rows, loops.inner.extent, loops.beside.extent) == (False, 7, 6)
    assert [axis.extent for axis in loops.rest] == [4]


@pytest.mark.parametrize("extent", [1, 2, 3, 7, 64, 1000, 2**31 - 1, 2**33 + 5, 2**62 + 1])
def test_division_by_multiplication(extent: int) -> None:
    divisor, multiplier, shift = struct.unpack("<QQq", pack_divisor64(extent))
    assert divisor == extent
    for n in {0, 1, extent - 1, extent, 3 * extent + 1, 2**63 - 1, 2**31, 12345678901234}:
        if n < 2**63:
            assert ((((n * multiplier) >> 64) + n) >> shift) == n // extent


def test_the_reference_takes_everything() -> None:
    rng = np.random.default_rng(2)
    for dtype in REAL_DTYPES.values():
        x = array_of(rng, (3, 4, 5), dtype, 1)
        for op in OPS.values():
            if op.kind is not Kind.REDUCTION:
                continue
            for order in ("2", "inf", "0", "3.5") if op.name == "norm" else ("",):
                params: object = Reduce((0, 2), True)
                if op.name in ("var", "std"):
                    params = Moment((0, 2), True, "1")
                elif op.name == "norm":
                    params = Norm((0, 2), True, order)
                unit = unit_of([micro_of(op.name, (0,), [operand_of(x)], params)], [x])
                (step,) = naive_reduce.prepare_reduction(unit, H200)
                check_step(step)
                assert step.launches[0].spec in naive_reduce.NAIVE_REDUCE


def test_the_reference_has_no_work_on_nothing() -> None:
    operand = Operand(0, 0, (0, 4), (4, 1), f32)
    for name, params, prepare in (
        ("sum", Reduce((1,), False), naive_reduce.prepare_reduction),
        ("cumsum", Cumulative(1), naive_reduce.prepare_scan),
        ("softmax", Softmax(1), naive_reduce.prepare_composite),
        ("layer_norm", LayerNorm(1, "1e-05", False, False), naive_reduce.prepare_composite),
    ):
        micro = micro_of(name, (0,), [operand], params)
        assert not numel(micro.dims)
        result = Operand(0, 0, micro.dims, contiguous_strides(micro.dims), micro.dtype)
        (step,) = prepare(Unit((micro,), (operand,), result, (0,)), H200)
        assert step.launches == ()
