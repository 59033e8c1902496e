"""Complex numbers on a device: ops planned over parts, generated structs, what stands in for whom.

An op over parts is the real op that it says it is: cpu_fallback computes both here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reduce_steps import H200

import softcuda as sc
from softcuda.backends import backends, cpu_fallback, cuda_naive
from softcuda.backends.cuda.complex_parts import has_parts, on_parts
from softcuda.backends.cuda.emitter import chain_header, emit, reports
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.trace import trace
from softcuda.target import CPU

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(0)


def z(*shape: int) -> Array:
    return (RNG.uniform(-1, 1, shape) + 1j * RNG.uniform(-1, 1, shape)).astype(np.complex64)


CASES: dict[str, Callable[[Any], sc.Tensor]] = {
    "sum": lambda x: sc.sum(x, (0, 2)),
    "sum keepdims": lambda x: sc.sum(x, 1, keepdims=True),
    "mean": sc.mean,
    "norm": lambda x: sc.norm(x, 2, 1),
    "norm keepdims": lambda x: sc.norm(x, 2, (1, 2), keepdims=True),
    "any": lambda x: sc.any(x, 0),
    "cumsum": lambda x: sc.cumsum(x, 1),
    "concat": lambda x: sc.concat([x, x], 2),
    "stack": lambda x: sc.stack([x, x], 1),
    "pad": lambda x: sc.pad(x, ((1, 0), (0, 2), (0, 0))),
    "take": lambda x: sc.take(x, np.array([2, -1, 0]), 1),
    "gather": lambda x: sc.gather(x, np.array([[[1]], [[-1]], [[0]]]), 1),
    "index_add": lambda x: sc.index_add(x, np.array([1, 1]), x[:2], 0),
    "scatter_add": lambda x: sc.scatter_add(x, np.array([[[1, 0]]]), x[:1, :1, :2], 1),
    "full": lambda x: sc.zeros((3, 4), "complex128"),
}
LAYOUTS: dict[str, Callable[[], Array]] = {
    "dense": lambda: z(3, 4, 5),
    "turned": lambda: z(5, 4, 3).T,
    "backwards": lambda: z(3, 8, 5)[:, ::-2],
    "stretched": lambda: np.broadcast_to(z(3, 1, 5), (3, 4, 5)),
}


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
    scratch = np.empty(step.scratch_bytes, np.uint8) if step.scratch_bytes else None
    for function, arguments in cpu_fallback.bind(step, views, [out], scratch):
        function(*arguments)
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_an_op_over_parts_is_the_op(name: str, layout: str) -> None:
    unit, arrays = unit_of(CASES[name](sc.asarray(LAYOUTS[layout]())))
    assert has_parts(unit)
    parts = on_parts(unit)
    assert not any(x.dtype.is_complex for x in (*parts.operands, parts.result, *parts.chain))
    assert parts.result.strides == contiguous_strides(parts.result.dims)
    expected = computed(unit, arrays)
    found = computed(parts, arrays)
    assert found.nbytes == expected.nbytes
    found = np.ascontiguousarray(found).reshape(-1).view(expected.dtype).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=np.finfo(np.float32).eps * 16)


def test_real_units_have_no_parts() -> None:
    unit, _ = unit_of(sc.sum(sc.ones((3,)).evaluate()))
    assert not has_parts(unit)
    unit, _ = unit_of(sc.exp(sc.asarray(z(3))))
    assert not has_parts(unit)


@pytest.mark.parametrize("name", [*CASES, "mul", "matmul", "cast"])
def test_plans_name_what_the_unit_names(name: str) -> None:
    others: dict[str, Callable[[Any], sc.Tensor]] = {
        "mul": lambda x: x * x,
        "matmul": lambda x: x @ x.permute_dims((0, 2, 1)).copy().evaluate(),
        "cast": lambda x: x.cast("complex128"),
    }
    node = {**CASES, **others}[name](sc.asarray(z(3, 4, 5)))
    graph = trace([node]).graph
    line = graph.lines[graph.outputs[0]]
    operands = [graph.lines[number] for number in line.inputs]
    assert cuda_naive.supports(line, operands, H200)
    unit, _ = unit_of(node)
    (step,) = cuda_naive.prepare(unit, H200)
    assert (step.inputs, step.outputs, step.chain) == (unit.operands, (unit.result,), unit.chain)
    assert step.launches


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
    [
        ("cuda_elementwise", "mul"),
        ("cuda_reduce", "sum"),
        ("cuda_permute", "copy"),
        ("cuda_tiled", "matmul"),
        ("cuda_contract", "matmul"),
    ],
)
def test_other_backends_refuse_complex_numbers(backend: str, op: str) -> None:
    leaf = Line(OPS["input"], (), (4,), sc.complex64, ())
    line = Line(OPS[op], (0, 0), (4,), sc.complex64, ())
    verdict = backends()[backend].supports(line, [leaf, leaf], H200)
    assert not verdict
    assert "complex64" in verdict.reason
