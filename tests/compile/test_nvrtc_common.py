"""common.cuh compiles for every architecture and dtype, without spills and in little time."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from softcuda.dtype import REAL_DTYPES
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit
from softcuda.nvrtc.unit import Cubin

PROBES = str(Path(__file__).parent / "kernels")
ARCHITECTURES = (
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_103",
    "sm_120",
)
SECONDS = 0.5  # of a processor's time a unit; 0.05 to 0.1 measured

NAMES = tuple(REAL_DTYPES)


def compiled(spec: KernelSpec, arch: str) -> Cubin:
    begin = time.thread_time()
    made = compile_unit(spec.unit, arch)
    seconds = time.thread_time() - begin
    assert seconds < SECONDS, f"{spec} for {arch} took {seconds:.3f} s"
    assert made.resources is not None
    assert made.resources.spill_store_bytes <= spec.spill_bytes
    assert made.resources.stack_bytes == 0
    assert "warning" not in made.log
    return made


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", NAMES)
def test_every_helper_for_every_dtype(name: str, arch: str) -> None:
    width = 16 // REAL_DTYPES[name].itemsize
    expression = f"probe<{name}, {name}, {width}>"
    compiled(KernelSpec("probe", name, "probe.cu", expression, (name,), 256, folder=PROBES), arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("source", NAMES)
def test_every_conversion(source: str, arch: str) -> None:
    """Architectures before and after sm_80 have different code."""
    for name in NAMES:
        variant, expression = f"{name}_{source}", f"convert_all<{name}, {source}>"
        dtypes = (name, source)
        spec = KernelSpec(
            "convert_all", variant, "probe.cu", expression, dtypes, 256, folder=PROBES
        )
        compiled(spec, arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_extremes_and_divisions(arch: str) -> None:
    for name in NAMES:
        spec = KernelSpec(
            "extremes", name, "probe.cu", f"extremes<{name}>", (name,), 256, folder=PROBES
        )
        compiled(spec, arch)
    compiled(
        KernelSpec("divisions", "u32", "probe.cu", "divisions<u32>", (), 256, folder=PROBES), arch
    )


def test_vectors_move_in_one_instruction() -> None:
    """The PTX that an unknown architecture gets shows the accesses."""
    for name, dtype in REAL_DTYPES.items():
        width = 16 // dtype.itemsize
        expression = f"probe<{name}, {name}, {width}>"
        spec = KernelSpec("probe", name, "probe.cu", expression, (name,), 256, folder=PROBES)
        text = compile_unit(spec.unit, "sm_990").image.decode()
        accesses = [
            line.split()[0] for line in text.splitlines() if re.search(r"\b(ld|st)\.global", line)
        ]
        assert len(accesses) == 4, accesses
        assert all(re.search(r"\.v4\.[bu]32$|\.v2\.[bu]64$", access) for access in accesses)
