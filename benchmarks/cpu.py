"""The suite cpu: what this engine must reach on a CPU, and where it stands beside its peers."""

from __future__ import annotations

from benchmarks import cpu_compile, cpu_elementwise, cpu_graphs, cpu_matmul, cpu_memory
from benchmarks.cases import Case

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    *cpu_elementwise.CASES[:1],
    *cpu_matmul.CASES,
    *cpu_graphs.CASES,
    *cpu_compile.CASES,
    *cpu_memory.CASES,
    *cpu_elementwise.CASES[1:],
)
