"""Kernels move whole values: none is taken apart into bytes.

That is what becomes of a copy whose alignment the compiler has lost: the right result, at a third
of the speed.
"""

from __future__ import annotations

import re

import pytest

from softcuda.backends.cuda.elementwise import Variant, chain_spec
from softcuda.backends.cuda.layouts import Lies, fitted_tile
from softcuda.backends.cuda_naive import further_kernels
from softcuda.backends.steps import Micro
from softcuda.dtype import DType, complex64, complex128
from softcuda.graph.op import OPS
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit
from softcuda.tools.inspect_disassembly import ptx_of
from softcuda.tools.inspect_rows import cuda_backends

ARCH = "sm_90a"
WORDS = ("u128", "u128_i32")  # kernels that are compiled when met; those of i64 are like them
BYTE = re.compile(r"(?:ld|st)\.global\S*\.[bus]8\s.*\[(%rd\d+)(?:\+(\d+))?\]")
TUNED = ("cuda_elementwise", "cuda_reduce", "cuda_tiled", "cuda_contract")


def first_of_each_family() -> dict[str, KernelSpec]:
    """Return a kernel of f32 a family. Permutations move any bytes at odd addresses on purpose."""
    found: dict[str, KernelSpec] = {}
    for backend_id in TUNED:
        for spec in cuda_backends()[backend_id]:
            if set(spec.dtypes) == {"f32"}:
                found.setdefault(spec.family, spec)
    return found


@pytest.mark.parametrize("family", first_of_each_family())
def test_no_value_is_taken_apart(family: str) -> None:
    ptx = ptx_of(first_of_each_family()[family].unit, ARCH)
    assert ".global" in ptx
    bytes_ = {(base, int(offset or 0)) for base, offset in BYTE.findall(ptx)}
    assert not [(base, at) for base, at in bytes_ if (base, at + 1) in bytes_]


@pytest.mark.parametrize(("dtype", "vector"), [(complex64, "v4.f32"), (complex128, "v2.f64")])
def test_complex_numbers_are_moved_by_16_bytes(dtype: DType, vector: str) -> None:
    """Where an address allows it; else, and lane by lane, part by part."""
    chain = (Micro(OPS["mul"], (0, 1), (), dtype, ()),)
    tile = fitted_tile(chain, (dtype, dtype), 2)
    spec = chain_spec(chain, (dtype, dtype), Variant((Lies.DENSE,) * 2, tile))
    ptx = ptx_of(spec.unit, ARCH)
    assert f"ld.global.nc.{vector}" in ptx
    assert f"st.global.{vector}" in ptx


@pytest.mark.parametrize("spec", [s for s in further_kernels() if s.variant in WORDS], ids=str)
def test_words_of_16_bytes_are_compiled(spec: KernelSpec) -> None:
    made = compile_unit(spec.unit, ARCH)
    assert made.resources is not None
    assert made.resources.spill_store_bytes == 0
    assert "warning" not in made.log, made.log
