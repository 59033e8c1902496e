"""Softmax and layer_norm with ops around them do not spill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from op_cases import fast_profile
from row_chain_cases import CASES, leaves_of

import softcuda as sc
from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit

LENGTHS = (128, 1000, 4096, 8192, 16384)


def kernels(dtype: DType) -> Iterator[KernelSpec]:
    """Yield the kernels that compute the cases, each once."""
    seen = set()
    for case in CASES:
        for length in LENGTHS:
            output = case.build(leaves_of(case, length, dtype))
            for step in sc.compile(output, fast_profile(), target="sm_90a").program.steps:
                for launch in step.launches:
                    if launch.spec.file == "row_chain.cu" and launch.spec.id not in seen:
                        seen.add(launch.spec.id)
                        yield launch.spec


def check(dtype: DType, arch: str) -> None:
    for spec in kernels(dtype):
        compiled = compile_unit(spec.unit, arch)
        assert compiled.resources is not None
        assert compiled.resources.spill_store_bytes == 0, (spec.id, compiled.resources)
        assert "warning" not in compiled.log


def test_rows_with_chains() -> None:
    check(f32, "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "arch"),
    [(f16, "sm_75"), (bf16, "sm_120"), (f32, "sm_120"), (f64, "sm_120")],
    ids=str,
)
def test_rows_of_every_dtype(dtype: DType, arch: str) -> None:
    check(dtype, arch)
