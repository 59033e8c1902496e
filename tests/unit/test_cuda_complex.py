"""Complex numbers on a device: every op has a plan, sums are planned over parts, structs, refusals.

An op over parts is the real op that it says it is: cpu_fallback computes both here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from complex_cases import BOTH, CASES, LAYOUTS, NEVER_COMPLEX, accepting, z
from device_leaves import planned as leaf_of
from op_cases import fast_profile, profile_of
from reduce_steps import H200
from tolerance import assert_close

import softcuda as sc
from softcuda.backends import backends, cpu_fallback, cuda_naive
from softcuda.backends.cuda.complex_parts import has_parts, on_parts
from softcuda.backends.cuda.emitter import chain_header, emit, reports
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.trace import trace
from softcuda.profile.model import Profile
from softcuda.profile.resolve import default_profile
from softcuda.target import CPU

Array = np.ndarray[Any, Any]


# ---- every op -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_the_cases_are_all(dtype: sc.DType) -> None:
    assert {name.split()[0] for name in CASES} == accepting(dtype)


@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_functions_that_make_reals_alone_refuse_complex_dtypes(dtype: sc.DType) -> None:
    makers = {
        "arange": lambda: sc.arange(4, dtype=dtype),
        "linspace": lambda: sc.linspace(0, 1, 4, dtype=dtype),
        "uniform": lambda: sc.uniform((4,), dtype=dtype),
        "normal": lambda: sc.normal((4,), dtype=dtype),
    }
    assert makers.keys() == NEVER_COMPLEX
    for make in makers.values():
        with pytest.raises(sc.errors.DTypeError, match="complex"):
            make()


@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_the_references_of_both_devices_take_the_same(dtype: sc.DType) -> None:
    """Every op that the CPU computes of complex numbers; there are no exceptions."""
    nodes = [case.made(sc.asarray(LAYOUTS["dense"](dtype))) for case in CASES.values()]
    lines = trace(nodes).graph.lines
    for line in lines:
        operands = [lines[number] for number in line.inputs]
        on_cpu = cpu_fallback.supports(line, operands, CPU)
        assert bool(on_cpu) == bool(cuda_naive.supports(line, operands, H200)), line


@pytest.mark.parametrize("dtype", BOTH, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_cases_are_what_numpy_computes(dtype: sc.DType, layout: str) -> None:
    x = LAYOUTS[layout](dtype)
    leaf, wide = sc.asarray(x), x.astype(np.complex128)
    nodes = {name: case.made(leaf) for name, case in CASES.items()}
    found = sc.compile(nodes, "default").run()
    with np.errstate(all="ignore"):
        expected = [np.asarray(case.expected(wide)) for case in CASES.values()]
    for (name, case), right in zip(CASES.items(), expected, strict=True):
        made = found[name]
        assert made.shape == right.shape, name
        assert_close(made.numpy(), right, made.dtype, case.tolerance, scale=64.0)


def planned(nodes: list[sc.Tensor], profile: Profile) -> list[Step]:
    """Return the steps on a device that nobody stands in for."""
    settings = Settings(profile, default_profile(), H200, strict=True)
    program = compile_graph(trace(nodes).graph, settings)
    return [step for step in program.steps if step.backend_id != "transfer"]


@pytest.mark.parametrize("dtype", BOTH, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_op_has_a_plan(dtype: sc.DType, layout: str) -> None:
    x = LAYOUTS[layout](dtype)
    leaf = leaf_of(sc.Tensor, x.shape, x.strides, x.dtype)
    for name, case in CASES.items():
        steps = planned([case.made(leaf)], profile_of("cuda_naive"))
        assert {step.backend_id for step in steps} == {"cuda_naive"}, name
        assert all(step.launches for step in steps), name


def test_chains_and_sums_of_complex_numbers_leave_the_reference() -> None:
    turned = LAYOUTS["turned"](sc.complex64)
    x = leaf_of(sc.Tensor, turned.shape, turned.strides, turned.dtype)
    chosen = {"matmul": "cuda_naive", "prod": "cuda_naive", "concat": "cuda_permute"}
    nodes = [sc.sum(sc.exp(x * x + 1j), 1), x.copy(), sc.concat([x, x], 0), sc.cumsum(x, 1)]
    steps = planned(nodes, fast_profile(**chosen))
    made = [step.backend_id for step in steps]
    assert sorted(made) == ["cuda_elementwise", *["cuda_permute"] * 2, *["cuda_reduce"] * 2]


def test_reals_around_reductions_and_products_take_no_complex_numbers() -> None:
    x = sc.asarray(LAYOUTS["dense"](sc.complex64))
    real = sc.asarray(np.ones((4, 5), np.float32))
    nodes = [sc.sum(sc.abs(x), 1), real @ real.T.copy() * sc.abs(x)[0, :, :4]]
    for step in planned(nodes, fast_profile()):
        if step.backend_id != "cuda_elementwise":
            assert not any(operand.dtype.is_complex for operand in step.inputs), step.kernel


# ---- sums over parts ----------------------------------------------------------------------------


def unit_of(node: sc.Tensor) -> tuple[Unit, list[Array]]:
    """Return the unit of a node over leaves, and the leaves' arrays."""
    arrays: list[Array] = []
    operands: list[Operand] = []
    for number, source in enumerate(node.inputs):
        array = source.numpy()
        strides = tuple(stride // array.itemsize for stride in array.strides)
        operands.append(Operand(number, 0, array.shape, strides, source.dtype))
        arrays.append(array)
    micro = Micro(node.op, tuple(range(len(operands))), node.dims, node.dtype, node.params)
    result = Operand(len(operands), 0, node.dims, contiguous_strides(node.dims), node.dtype)
    return Unit((micro,), tuple(operands), result, (0,)), arrays


def computed(unit: Unit, arrays: list[Array]) -> Array:
    """Return what cpu_fallback makes of a unit's operands, found by their strides."""
    (step,) = cpu_fallback.prepare(unit, CPU)
    views = []
    for operand, array in zip(unit.operands, arrays, strict=True):
        kind = operand.dtype.numpy
        steps = tuple(stride * kind.itemsize for stride in operand.strides)
        first = np.lib.stride_tricks.as_strided(array, (1,), (0,)).view(kind)
        views.append(np.lib.stride_tricks.as_strided(first, operand.dims, steps))
    out = np.empty(unit.result.dims, unit.result.dtype.numpy)
    for function, arguments in cpu_fallback.bind(step, views, [out], None):
        function(*arguments)
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sum", "sum keepdims", "mean", "cumsum"])
def test_an_op_over_parts_is_the_op(name: str, layout: str) -> None:
    unit, arrays = unit_of(CASES[name].made(sc.asarray(LAYOUTS[layout](sc.complex64))))
    assert has_parts(unit)
    parts = on_parts(unit)
    assert not any(x.dtype.is_complex for x in (*parts.operands, parts.result, *parts.chain))
    expected = computed(unit, arrays)
    found = computed(parts, arrays)
    found = np.ascontiguousarray(found).reshape(-1).view(expected.dtype).reshape(expected.shape)
    assert_close(found, expected.astype(np.complex128), sc.complex64, "sum", scale=64.0)


def test_real_units_have_no_parts() -> None:
    unit, _ = unit_of(sc.sum(sc.ones((3,)).evaluate()))
    assert not has_parts(unit)
    unit, _ = unit_of(sc.exp(sc.asarray(z((3,), sc.complex64))))
    assert not has_parts(unit)


@pytest.mark.parametrize("backend_id", ["cuda_naive", "cuda_reduce"])
def test_plans_over_parts_name_what_the_unit_names(backend_id: str) -> None:
    unit, _ = unit_of(CASES["sum"].made(sc.asarray(LAYOUTS["dense"](sc.complex128))))
    (step,) = backends()[backend_id].prepare(unit, H200)
    assert (step.inputs, step.outputs, step.chain) == (unit.operands, (unit.result,), unit.chain)
    assert step.launches


# ---- structs and refusals -----------------------------------------------------------------------


def test_chains_of_complex_numbers_name_their_structs() -> None:
    micro = Micro(OPS["pow"], (0, 1), (4,), sc.complex64, ())
    text = emit([micro], [sc.complex64, sc.i64])
    assert "Pow<complex64>::apply(x0, v0)" in text
    assert "as_complex<complex64>(x1)" in text
    assert not reports([micro])
    assert '#include "complex_ops.cuh"' in chain_header(text).text
    conj = emit([Micro(OPS["conj"], (0,), (4,), sc.complex128, ())], [sc.complex128])
    assert "Conj<complex128>::apply(x0)" in conj
    real = emit([Micro(OPS["conj"], (0,), (4,), sc.f32, ())], [sc.f32])
    assert "Conj" not in real
    assert "complex" not in chain_header(real).text


@pytest.mark.parametrize(
    ("backend", "op"),
    [("cuda_reduce", "prod"), ("cuda_tiled", "matmul"), ("cuda_contract", "matmul")],
)
def test_other_backends_refuse_complex_numbers(backend: str, op: str) -> None:
    leaf = Line(OPS["input"], (), (4,), sc.complex64, ())
    line = Line(OPS[op], (0, 0), (4,), sc.complex64, ())
    verdict = backends()[backend].supports(line, [leaf, leaf], H200)
    assert not verdict
    assert "complex64" in verdict.reason
