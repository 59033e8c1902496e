"""Random chains of elementwise ops, arrays of every layout, and whole-array evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.backends import cpu_fallback
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import REAL_DTYPES, DType, dtype_of_array
from softcuda.errors import SoftCudaError
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cast, Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import CPU

Array = np.ndarray[Any, Any]

ELEMENTWISE_OPS = sorted(
    name for name, op in OPS.items() if op.kind is Kind.ELEMENTWISE and name != "cast"
)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 3e4, -7e4, 1e-8, 100.0)


def array_of(rng: np.random.Generator, dims: Dims, dtype: DType, layout: int = 0) -> Array:
    """Return an array: 0 dense, 1 transposed, 2 negative strides, 3 every other element."""
    shape = {
        1: dims[::-1],
        3: tuple(2 * d for d in dims),
    }.get(layout, dims)
    if dtype.is_bool:
        made = rng.integers(0, 2, shape).astype(bool)
    elif dtype.is_integer:
        made = rng.integers(-50, 50, shape).astype(dtype.numpy)
    else:
        values = np.asarray(rng.standard_normal(shape) * 4)
        special = rng.random(shape) < 0.1
        values = np.where(special, rng.choice(SPECIAL, shape), values)
        with np.errstate(all="ignore"):
            made = values.astype(dtype.numpy)
    made = np.asarray(made)
    if layout == 1:
        return made.T
    if layout == 2:
        return made[(slice(None, None, -1),) * len(dims)]
    if layout == 3:
        return made[(slice(None, None, 2),) * len(dims)]
    return made


def operand_of(array: Array, number: int = 0) -> Operand:
    strides = tuple(s // array.itemsize for s in array.strides)
    return Operand(number, 0, array.shape, strides, dtype_of_array(array.dtype))


def micro_of(name: str, sources: Sequence[int], typed: Sequence[Any], params: Any = ()) -> Micro:
    op = OPS[name]
    return Micro(
        op, tuple(sources), op.shape_rule(typed, params), op.dtype_rule(typed, params), params
    )


def random_chain(
    rng: np.random.Generator, inputs: Sequence[Operand], dims: Dims, length: int
) -> list[Micro]:
    """Return a chain over the space `dims`, which operand 0 must have."""
    chain: list[Micro] = []
    while len(chain) < length:
        choices = [*range(len(inputs)), *(~n for n in range(len(chain)))]
        recent = [~n for n in range(max(0, len(chain) - 3), len(chain))] or [0]
        cast = rng.random() < 0.2
        name = "cast" if cast else str(rng.choice(ELEMENTWISE_OPS))
        sources = [int(rng.choice(recent))]
        sources += [int(rng.choice(choices)) for _ in range(OPS[name].arity - 1)]
        rng.shuffle(sources)
        typed = [inputs[s] if s >= 0 else chain[~s] for s in sources]
        params: Any = Cast(REAL_DTYPES[str(rng.choice(list(REAL_DTYPES)))]) if cast else ()
        try:
            micro = micro_of(name, sources, typed, params)
        except SoftCudaError:
            continue
        if name == "pow" and not micro.dtype.is_float:
            continue
        if micro.dims == dims:
            chain.append(micro)
    return chain


def run(calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
    with np.errstate(all="ignore"):
        for function, arguments in calls:
            function(*arguments)


def whole(chain: Sequence[Micro], arrays: Sequence[Array]) -> Array:
    """Return the last value of a chain, each op by cpu_fallback on whole arrays."""
    made: list[Array] = []
    for micro in chain:
        sources = [arrays[s] if s >= 0 else made[~s] for s in micro.sources]
        made.append(alone(micro, sources))
    return made[-1]


def alone(micro: Micro, sources: Sequence[Array]) -> Array:
    """Return the value of one op by cpu_fallback."""
    out = np.empty(micro.dims, micro.dtype.numpy)
    result = Operand(0, 0, micro.dims, contiguous_strides(micro.dims), micro.dtype)
    operands = tuple(operand_of(x) for x in sources)
    unit = Unit((micro._replace(sources=tuple(range(len(sources)))),), operands, result, (0,))
    for step in cpu_fallback.prepare(unit, CPU):
        scratch = np.empty(step.scratch_bytes, np.uint8) if step.scratch_bytes else None
        run(cpu_fallback.bind(step, sources, (out,), scratch))
    return out


def unit_of(chain: Sequence[Micro], arrays: Sequence[Array]) -> Unit:
    last = chain[-1]
    result = Operand(0, 0, last.dims, contiguous_strides(last.dims), last.dtype)
    return Unit(tuple(chain), tuple(operand_of(x) for x in arrays), result, (0,) * len(chain))


def step_of(chain: Sequence[Micro], arrays: Sequence[Array], prepare: Any) -> Step:
    (step,) = prepare(unit_of(chain, arrays), CPU)
    return step  # type: ignore[no-any-return]


def same_bits(a: Array, b: Array) -> bool:
    """Return whether two arrays are equal bit for bit, NaNs of any payload being equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[a.itemsize]
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    with np.errstate(all="ignore"):
        return bool((same | ((a != a) & (b != b))).all())
