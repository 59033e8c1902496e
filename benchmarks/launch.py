"""The suite launch: what a run costs beside its kernels, transfers, the start of a process."""

from __future__ import annotations

from benchmarks import launch_kernels, launch_process, launch_transfers
from benchmarks.cases import Case

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    *launch_kernels.CASES,
    *launch_transfers.CASES,
    *launch_process.CASES,
)
