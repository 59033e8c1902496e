"""Elementwise kernels and generated chains compile for every architecture, without spills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from softcuda.backends.cuda.elementwise import chain_launches
from softcuda.backends.cuda.emitter import chain_header, emit
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import (
    DTYPES,
    REAL_DTYPES,
    DType,
    bf16,
    bool_,
    compute_dtype,
    f16,
    f32,
    f64,
    i32,
    i64,
)
from softcuda.errors import DTypeError
from softcuda.graph.lines import operand_dtypes
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cast, Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit

FOLDER = str(Path(__file__).parent / "kernels")
ENDS = ("sm_75", "sm_90a")
# Code differs before and after sm_80; the slow run compiles it for the oldest of the others and the
# newest. The functions of complex64 are those of complex128.
QUICK = {
    *((name, arch) for name in REAL_DTYPES for arch in ENDS),
    ("complex64", "sm_90a"),
}
MATHEMATICS = [
    pytest.param(name, arch, marks=() if (name, arch) in QUICK else pytest.mark.slow)
    for name in DTYPES
    for arch in (*ENDS, "sm_80", "sm_120")
]
OPERATIONS = tuple(name for name, op in OPS.items() if op.kind is Kind.ELEMENTWISE)


class Typed(NamedTuple):
    """Extents and dtype of an operand."""

    dims: Dims
    dtype: DType


def compiled(spec: KernelSpec, arch: str, spill_bytes: int = 0) -> None:
    made = compile_unit(spec.unit, arch)
    assert made.resources is not None
    assert made.resources.spill_store_bytes <= spill_bytes, spec.id
    assert "warning" not in made.log, made.log


def micro(name: str, dtypes: Sequence[DType], to: DType = f32) -> Micro:
    params = Cast(to) if name == "cast" else ()
    op = OPS[name]
    typed = [Typed((4,), dtype) for dtype in dtypes]
    sources = tuple(range(len(dtypes)))
    return Micro(op, sources, (4,), op.dtype_rule(typed, params), params)


def operations_of(dtype: DType) -> list[tuple[Micro, tuple[DType, ...]]]:
    """Return the ops that are computed in `dtype` where they are given it, and some of 16 bits."""
    made = []
    for name in OPERATIONS:
        op = OPS[name]
        dtypes = (bool_, dtype, dtype) if name == "where" else (dtype,) * op.arity
        try:
            one = micro(name, dtypes)
        except DTypeError:
            continue
        wanted = operand_dtypes(op, [Typed((), d) for d in dtypes], one.params)[-1]
        if compute_dtype(wanted) is dtype or (dtype in (f16, bf16) and op.arity > 1):
            made.append((one, dtypes))
    kept = [to for to in DTYPES.values() if not dtype.is_complex or to.is_complex or to.is_bool]
    return made + [(micro("cast", (dtype,), to), (dtype,)) for to in kept]


@pytest.mark.parametrize(("dtype", "arch"), MATHEMATICS)
def test_every_op_of_every_dtype(dtype: str, arch: str) -> None:
    cases = operations_of(DTYPES[dtype])
    header = chain_header(*(emit([m], d, f"Chain{k}") for k, (m, d) in enumerate(cases)))
    names = ", ".join(f"Chain{k}" for k in range(len(cases)))
    spec = KernelSpec(
        "chains", dtype, "chains.cu", f"chains<{names}>", (dtype,), 256, headers=(header,),
        folder=FOLDER,
    )  # fmt: skip
    compiled(spec, arch, spill_bytes=1 << 10)  # many chains, one function


def operand(dims: Dims, dtype: DType, strides: Dims | None = None) -> Operand:
    return Operand(0, 0, dims, strides or contiguous_strides(dims), dtype)


def spec_of(chain: Sequence[Micro], operands: Sequence[Operand], dims: Dims) -> KernelSpec:
    micros = tuple(m._replace(dims=dims) for m in chain)
    unit = Unit(micros, tuple(operands), operand(dims, chain[-1].dtype), (0,) * len(chain))
    (launch,), _ = chain_launches(unit)
    return launch.spec


def longest(dtype: DType, count: int) -> list[Micro]:
    """Return the sum of `count` operands."""
    add = micro("add", (dtype, dtype))
    return [add, *(add._replace(sources=(~(k - 2), k)) for k in range(2, count))]


@pytest.mark.parametrize("arch", (*ENDS, "sm_120"))
def test_chains_of_a_graph(arch: str) -> None:
    """What fuse makes: mixed dtypes, rows, levels, transposed operands, 64 operands."""
    dims = (48, 64)
    mixed = [
        micro("mul", (f16, f32)),
        micro("maximum", (f32, i32))._replace(sources=(~0, 2)),
        micro("tanh", (f32,))._replace(sources=(~1,)),
        micro("cast", (f32,), bf16)._replace(sources=(~2,)),
    ]
    for strides in ((64, 1), (0, 1), (1, 0), (1, 48), (-64, -1)):
        for extents in (dims, (47, 63)):
            operands = [operand(extents, f16), operand(extents, f32, strides), operand((), i32)]
            compiled(spec_of(mixed, operands, extents), arch)
    for count in (4, 16):
        rows = [operand((47, 63), f32, (0, 1))] * count
        compiled(spec_of(longest(f32, count + 1), [operand((47, 63), f32), *rows], (47, 63)), arch)
    for dtype in (f64, bf16, i64):
        operands = [operand(dims, dtype)] * 64
        compiled(spec_of(longest(dtype, 64), operands, dims), arch)
    rows = [operand(dims, f32, (0, 1))] * 63
    compiled(spec_of(longest(f32, 64), [operand(dims, f32), *rows], dims), arch)


# Dense operands and turned ones, of a dtype: at the limits of what a thread holds.
TURNED = (
    *((0, 32, f64), (31, 1, f64), (1, 3, f64), (2, 6, f64), (1, 3, f32), (3, 1, f32), (2, 6, f32)),
    *((0, 32, bf16), (3, 1, bf16), (7, 1, bf16)),
)


@pytest.mark.parametrize(
    "arch", ["sm_75", "sm_90a", pytest.param("sm_100", marks=pytest.mark.slow)]
)
def test_turned_operands(arch: str) -> None:
    dims = (96, 128)
    for straight, turned, dtype in TURNED:
        operands = [operand(dims, dtype)] * straight + [operand(dims, dtype, (1, 96))] * turned
        compiled(spec_of(longest(dtype, len(operands)), operands, dims), arch)
    far = [operand((9, 8), f32, (1, 1 << 33)), operand((9, 8), f32)]
    compiled(spec_of(longest(f32, 2), far, (9, 8)), arch)
    numbers = [micro("mul", (bool_, i64)), micro("add", (i64, f64))._replace(sources=(~0, 2))]
    cast = micro("cast", (f64,), f16)._replace(sources=(~1,))
    wide = [operand(dims, bool_, (1, 96)), operand((), i64), operand(dims, f64, (0, 1))]
    compiled(spec_of([*numbers, cast], wide, dims), arch)  # vectors of 4 beside numbers of 8 bytes


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_values_that_are_kept(arch: str) -> None:
    for dims, strides in (((48, 64), (64, 1)), ((47, 63), (0, 1)), ((48, 64), (1, 48))):
        made = [operand(dims, f32), operand(dims, bf16, strides)]
        chain = [*longest(f32, 2), micro("cast", (f32,), bf16)._replace(sources=(~0,))]
        micros = tuple(m._replace(dims=dims) for m in chain)
        unit = Unit(micros, tuple(made), operand(dims, bf16), (0, 0), ((0, operand(dims, f32)),))
        (launch,), _ = chain_launches(unit)
        compiled(launch.spec, arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_the_longest_chain(arch: str) -> None:
    """256 ops compile in bounded code: fewer elements a thread, not a larger kernel."""
    exp = micro("exp", (f32,))
    chain = [exp, *(exp._replace(sources=(~(k - 1),)) for k in range(1, 256))]
    compiled(spec_of(chain, [operand((1000,), f32)], (1000,)), arch)
