"""What holds of the steps of every program, however its lines are fused."""

from __future__ import annotations

from softcuda.compiler.program import Program
from softcuda.graph.op import Kind

__all__ = ["check_lines"]


def check_lines(program: Program) -> None:
    """Every line is computed once, after what it reads, and the outputs are."""
    lines = program.graph.lines
    known = {k for k, line in enumerate(lines) if line.op.kind is Kind.LEAF}
    computed: list[int] = []
    for step in program.steps:
        assert {operand.value for operand in step.inputs} <= known
        known |= {operand.value for operand in step.outputs}
        computed += step.lines
    work = [k for k, line in enumerate(lines) if line.op.kind not in (Kind.LEAF, Kind.VIEW)]
    assert sorted(computed) == work
    assert set(program.output_lines) <= known
