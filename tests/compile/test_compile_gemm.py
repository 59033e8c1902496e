"""Tiled products and naive contractions compile for every architecture, without spills."""

from __future__ import annotations

import pytest
from gemm_units import unit_of

from softcuda.backends import cuda_tiled
from softcuda.backends.cuda.gemm import gemm_spec
from softcuda.backends.cuda.gemm_tiles import GEMM_TILES
from softcuda.backends.cuda.naive_contraction import prepare_contraction
from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit
from softcuda.target import Target

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
H200 = Target("cuda", "sm_90a", 132, 227, 60)
STATIC_BYTES = 48 << 10  # of shared memory, on every architecture


def compiled(spec: KernelSpec, arch: str) -> None:
    made = compile_unit(spec.unit, arch)
    assert made.resources is not None
    assert made.resources.spill_store_bytes <= spec.spill_bytes, f"{spec.id} for {arch}"
    assert made.resources.stack_bytes == 0, f"{spec.id} for {arch}"
    assert made.resources.shared_bytes <= STATIC_BYTES
    assert "warning" not in made.log, made.log


@pytest.mark.parametrize("dtype", [f16, f32], ids=str)
def test_results_wider_than_the_sums(dtype: DType) -> None:
    """Four sums of f32 are one access; as f64 they are not."""
    for m in (33, 2048):
        unit = unit_of("ij,jk->ik", [(m, 64), (64, m)], dtype, [("cast", (-1,), f64)])
        (step,) = cuda_tiled.prepare(unit, H200)
        for launch in step.launches:
            compiled(launch.spec, "sm_90a")


@pytest.mark.parametrize("number", range(len(GEMM_TILES)))
def test_chains_behind_a_product(number: int) -> None:
    """A bias, an activation, a cast; in one launch and behind the sum of the parts."""
    dtype, arch = tuple(GEMM_TILES)[number], ("sm_90a", "sm_75")[number % 2]
    chain = [
        ("add", (-1, 2), f32 if dtype is f16 else dtype),
        ("gelu", (-1,), None),
        ("mul", (-1, 3), None),
        ("cast", (-1,), bf16),
    ]
    for m, k in ((8192, 16), (40, 1 << 20)):
        unit = unit_of("ij,jk->ik", [(m, k), (k, m), (m,), (m, 1)], dtype, chain)
        (step,) = cuda_tiled.prepare(unit, H200)
        assert len(step.launches) == (2 if m == 40 else 1)
        for launch in step.launches:
            assert len(launch.spec.headers) == 1
            compiled(launch.spec, arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_mixed_operands(arch: str) -> None:
    """What is stored in another dtype than the product's is converted as it is read."""
    for a, b, dtype in ((f16, bf16, f32), (f32, i64, f32), (f64, f16, f64), (bool_, bf16, bf16)):
        compiled(gemm_spec(a, b, dtype, GEMM_TILES[dtype][-1]), arch)
    for a, b in ((i32, i64), (bool_, i32), (f16, f64)):
        unit = unit_of("ijp,jk->ik", [(3, 4, 5), (4, 2)], a, (), b)
        (step,) = prepare_contraction(unit, H200)
        assert [launch.spec.family for launch in step.launches] == [
            "private_sum",
            "naive_contraction",
        ]
        for launch in step.launches:
            compiled(launch.spec, arch)
