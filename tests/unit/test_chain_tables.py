"""Tables name the launch that makes a value, also where a step has several."""

from __future__ import annotations

import random
from functools import reduce

from op_cases import fast_profile

import softcuda as sc
from softcuda.compiler.program import Program
from softcuda.compiler.table import decision_table
from softcuda.dtype import f32


def permuted(rank: int, seed: int) -> sc.Tensor:
    axes = list(range(rank))
    random.Random(seed).shuffle(axes)
    return sc.permute_dims(sc.input((2,) * rank, f32, device="cuda"), tuple(axes))


def kernels(program: Program) -> list[str]:
    """Return the column `kernel` of the rows of ops."""
    header, _, *rows = decision_table(program).splitlines()[1:]
    at = header.index("kernel")
    count = sum(len(step.lines) for step in program.steps)
    return [row[at:].split()[0] for row in rows[:count]]


def program_of(y: sc.Tensor) -> Program:
    return sc.compile(y, fast_profile(), target="sm_90a").program


def test_a_chain_in_front_that_runs_apart() -> None:
    xs = [permuted(14, seed) for seed in range(12)]
    program = program_of(sc.sum(reduce(lambda a, b: a * b, xs), axis=(0, 2, 4, 6)))
    (step,) = program.steps
    *fused, chain, anchor = kernels(program)
    assert set(fused) == {"fused"} and len(fused) == 10
    assert chain.startswith("elementwise_strided.") and anchor == step.kernel
    assert anchor.startswith("reduce")


def test_a_chain_behind_that_runs_apart() -> None:
    first = sc.sum(sc.input((2,) * 15, f32, device="cuda"), axis=3)
    program = program_of(reduce(lambda a, b: a * b, [permuted(14, k) for k in range(60)], first))
    (step,) = program.steps
    anchor, *fused, last = kernels(program)
    assert set(fused) == {"fused"} and anchor == step.kernel
    assert last == step.launches[-1].spec.id and last.startswith("elementwise_strided.")


def test_one_launch_of_all() -> None:
    x = sc.input((64, 32), f32, device="cuda")
    program = program_of(sc.exp(sc.sum(x * 2.0, axis=1)))
    (step,) = program.steps
    assert kernels(program) == ["fused", "fused", step.kernel]


def test_explain_names_the_same_launch() -> None:
    product = reduce(lambda a, b: a * b, [permuted(14, seed) for seed in range(50)])
    total = sc.sum(product, axis=(0, 2, 4, 6))
    made = sc.compile(total, fast_profile(), target="sm_90a")
    assert "kernel elementwise_strided." in made.explain(product)
    assert "kernel reduce" in made.explain(total)
