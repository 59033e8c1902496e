"""The kernels that move, create and draw: every row, every architecture, no spills, little time."""

from __future__ import annotations

import time

import pytest

from softcuda.backends.cuda.naive_creation import CREATION_KERNELS
from softcuda.backends.cuda.naive_movement import MOVEMENT_KERNELS
from softcuda.backends.cuda.naive_random import RANDOM_KERNELS
from softcuda.backends.cuda_permute import KERNELS
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
ROWS = (*MOVEMENT_KERNELS, *CREATION_KERNELS, *RANDOM_KERNELS, *KERNELS)
SECONDS = 2.0  # of a processor's time a unit; 0.03 to 0.5 measured


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("spec", ROWS, ids=str)
def test_a_row_compiles_without_spills(spec: KernelSpec, arch: str) -> None:
    begin = time.thread_time()
    made = compile_unit(spec.unit, arch)
    seconds = time.thread_time() - begin
    assert seconds < SECONDS, f"{spec} for {arch} took {seconds:.3f} s"
    assert made.resources is not None
    assert made.resources.spill_store_bytes <= spec.spill_bytes
    # log and sincos keep the digits of 2 / pi for great arguments on the stack.
    may_have_stack = spec.family == "normal" or spec.spill_bytes
    assert made.resources.stack_bytes == 0 or may_have_stack
    assert "warning" not in made.log
    assert made.resources.shared_bytes <= 48 * 1024


def test_rows_have_names_of_their_own() -> None:
    assert len({spec.id for spec in ROWS}) == len(ROWS)
    assert len({spec.expression for spec in ROWS}) == len(ROWS)
