"""Chains of many operands before reductions, and turned operands beside others, do not spill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pytest
from op_cases import fast_profile

import softcuda as sc
from softcuda.compiler.program import Program
from softcuda.dtype import DType, bf16, f32, f64
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit

# Kernels with the most registers by dtype, and 32 operands, of which the reduction reads 12.
QUICK = [("sum", f32, 6, 0), ("var", bf16, 4, 0), ("logsumexp", f64, 6, 1), ("max", bf16, 32, 1)]
WIDE = [
    (name, dtype, count, axis)
    for name in ("sum", "max", "var", "logsumexp")
    for dtype in (f32, f64, bf16)
    for count in (3, 4, 5, 6, 8, 12, 32)
    for axis in (0, 1)
]
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")


def leaf(dims: tuple[int, ...], dtype: DType) -> sc.Tensor:
    return sc.input(dims, dtype, device="cuda")


def total(parts: Sequence[sc.Tensor]) -> sc.Tensor:
    return reduce(lambda made, part: made + part, parts)


def program_of(output: sc.Tensor) -> Program:
    return sc.compile(output, fast_profile(), target="sm_90a").program


def check(output: sc.Tensor, arch: str) -> None:
    specs: dict[str, KernelSpec] = {
        launch.spec.id: launch.spec for step in program_of(output).steps for launch in step.launches
    }
    for spec in specs.values():
        resources = compile_unit(spec.unit, arch).resources
        assert resources is not None
        assert not resources.spill_store_bytes, (spec.id, arch, resources)


def reduced(name: str, dtype: DType, count: int, axis: int, columns: int = 1024) -> sc.Tensor:
    dims = (1001, columns)
    return getattr(sc, name)(total([leaf(dims, dtype) for _ in range(count)]), axis=axis)


def turned(dtype: DType) -> Iterator[sc.Tensor]:
    """Yield chains that move single elements: odd extents on both sides."""
    x, row, column = leaf((1001, 333), dtype).T, leaf((1001,), dtype), leaf((333, 1), dtype)
    yield x + row
    yield x * column + row
    yield total([x, leaf((1001, 333), dtype).T])
    yield total([x, *(leaf((1001, 333), dtype).T for _ in range(7)), leaf((333, 1001), dtype)])
    yield sc.sinh(x)
    yield sc.pow(x, leaf((333, 1001), dtype))


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_chains_before_reductions(case: tuple[str, DType, int, int]) -> None:
    check(reduced(*case), "sm_90a")


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_turned_operands(dtype: DType) -> None:
    for output in turned(dtype):
        check(output, "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_chains_of_every_width(arch: str) -> None:
    for case in WIDE:
        for columns in (1024, 333):
            check(reduced(*case, columns), arch)
    for dtype in (f32, f64, bf16):
        for output in turned(dtype):
            check(output, arch)
