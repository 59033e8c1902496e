"""Chains of many operands before reductions, and turned operands beside others, do not spill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    for count in (4, 6, 32)
    for axis in (0, 1)
]
ARCHITECTURES = ("sm_75", "sm_90a", "sm_100", "sm_120")  # what the others spill, one of these does


def leaf(dims: tuple[int, ...], dtype: DType) -> sc.Tensor:
    return sc.input(dims, dtype, device="cuda")


def total(parts: Sequence[sc.Tensor]) -> sc.Tensor:
    return reduce(lambda made, part: made + part, parts)


def program_of(output: sc.Tensor) -> Program:
    return sc.compile(output, fast_profile(), target="sm_90a").program


def kernels(outputs: Iterable[sc.Tensor]) -> set[KernelSpec]:
    """Return the reductions and turned chains that graphs of one output each launch."""
    steps = [step for output in outputs for step in program_of(output).steps]
    specs = {launch.spec for step in steps for launch in step.launches}
    return {spec for spec in specs if spec.family.startswith(("reduce", "elementwise_turned"))}


def check(outputs: Iterable[sc.Tensor], arch: str) -> None:
    for spec in kernels(outputs):
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
    check([reduced(*case)], "sm_90a")


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_turned_operands(dtype: DType) -> None:
    check(turned(dtype), "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_chains_of_every_width(arch: str) -> None:
    """A chain of either width for two of the architectures, so that each meets every chain."""
    turn = ARCHITECTURES.index(arch) % 2
    dealt = [(*case, (1024, 333)[(number + turn) % 2]) for number, case in enumerate(WIDE)]
    check((reduced(*case) for case in dealt), arch)
    check((output for dtype in (f32, f64, bf16) for output in turned(dtype)), arch)
