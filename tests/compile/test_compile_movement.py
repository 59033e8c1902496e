"""The kernels that move, create and draw: every row, every architecture, no spills, little time."""

from __future__ import annotations

from softcuda.backends.cuda.naive_creation import CREATION_KERNELS
from softcuda.backends.cuda.naive_movement import MOVEMENT_KERNELS
from softcuda.backends.cuda.naive_random import RANDOM_KERNELS
from softcuda.backends.cuda_permute import KERNELS

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
ROWS = (*MOVEMENT_KERNELS, *CREATION_KERNELS, *RANDOM_KERNELS, *KERNELS)
SECONDS = 2.0  # of a processor's time a unit; 0.03 to 0.5 measured


def test_rows_have_names_of_their_own() -> None:
    assert len({spec.id for spec in ROWS}) == len(ROWS)
    assert len({spec.expression for spec in ROWS}) == len(ROWS)
