"""Runs one op on a CPU backend: a line, its unit, its steps, arrays full of NaN to write into."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.backends import cpu_blas, cpu_fallback
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import DType, bf16, bool_, dtype_of_array, f16, f32, f64, i32, i64
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import CPU

Array = np.ndarray[Any, Any]

ALL = (bool_, i32, i64, f16, bf16, f32, f64)
FLOATS = (f16, bf16, f32, f64)
SHAPES = ((), (1,), (7,), (0,), (3, 0, 2), (5, 4, 3))


def strides_of(array: Array) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def line_of(name: str, inputs: Sequence[Array], params: Any = ()) -> tuple[Line, list[Line]]:
    """Return the line of an op over arrays, by the op's rules, and the lines it reads."""
    builder = GraphBuilder()
    for array in inputs:
        dtype = dtype_of_array(array.dtype)
        builder.append(Line(OPS["input"], (), array.shape, dtype, ()))
    number = builder.add(OPS[name], tuple(range(len(inputs))), params)
    return builder.lines[number], builder.lines[:number]


def steps_of(backend: Any, name: str, inputs: Sequence[Array], params: Any = ()) -> list[Step]:
    line, read = line_of(name, inputs, params)
    verdict = backend.supports(line, read, CPU)
    assert verdict, verdict.reason
    operands = tuple(
        Operand(number, 0, array.shape, strides_of(array), dtype_of_array(array.dtype))
        for number, array in enumerate(inputs)
    )
    result = Operand(len(inputs), 0, line.dims, contiguous_strides(line.dims), line.dtype)
    micro = Micro(line.op, tuple(range(len(inputs))), line.dims, line.dtype, params)
    return list(backend.prepare(Unit((micro,), operands, result, (len(inputs),)), CPU))


def calls_of(
    backend: Any, name: str, inputs: Sequence[Array], params: Any = (), out: Array | None = None
) -> tuple[list[Any], Array]:
    """Return the bound calls of an op and the array they fill, which holds garbage."""
    line, _ = line_of(name, inputs, params)
    if out is None:
        out = np.empty(line.dims, line.dtype.numpy)
        out.view(np.uint8 if out.ndim else out.dtype)[...] = 0xFF if out.ndim else 1
    calls = []
    for step in steps_of(backend, name, inputs, params):
        scratch = None
        if step.scratch_bytes:
            scratch = np.full(step.scratch_bytes, 0xFF, np.uint8)
        calls += backend.bind(step, inputs, [out], scratch)
    return calls, out


def run(
    name: str,
    *inputs: Array,
    params: Any = (),
    backend: Any = cpu_fallback,
    out: Array | None = None,
) -> Array:
    """Return the result of one op; a NumPy warning is an error."""
    calls, result = calls_of(backend, name, inputs, params, out)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for function, args in calls:
            function(*args)
    return result


def run_blas(name: str, *inputs: Array, params: Any = ()) -> Array:
    return run(name, *inputs, params=params, backend=cpu_blas)


def sample(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Return numbers of a dtype, zeros of both signs among them."""
    rng = np.random.default_rng([seed, len(shape), *shape])
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        return rng.integers(-9, 10, shape).astype(dtype.numpy)
    values = np.asarray(rng.standard_normal(shape) * 3)
    values = np.where(rng.random(shape) < 0.1, 0.0, values)
    values = np.where(rng.random(shape) < 0.05, -0.0, values)
    return np.asarray(values).astype(dtype.numpy)


def layouts(dtype: DType, seed: int = 0) -> list[Array]:
    """Return arrays of all kinds of strides: dense, transposed, stepped, reversed, stretched."""
    base = sample(dtype, (6, 10, 4), seed)
    return [
        *(sample(dtype, shape, seed) for shape in SHAPES),
        base.transpose(2, 0, 1),
        base[::2, 1::3],
        base[::-1, :, ::-1],
        np.broadcast_to(sample(dtype, (4, 1), seed), (3, 4, 5)),
    ]
