"""Kernels move whole values: none is taken apart into bytes.

That is what becomes of a copy whose alignment the compiler has lost: the right result, at a third
of the speed.
"""

from __future__ import annotations

import re

import pytest

from softcuda.kernelspec import KernelSpec
from softcuda.tools.inspect_disassembly import ptx_of
from softcuda.tools.inspect_rows import cuda_backends

ARCH = "sm_90a"
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
