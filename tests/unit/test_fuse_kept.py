"""Chains that keep values inside them: several results of one launch, and never a circle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chain_cases import array_of, micro_of, operand_of, unit_of
from computed_lines import check_lines
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import cuda_elementwise
from softcuda.backends.cuda.emitter import emit
from softcuda.compiler.program import Program
from softcuda.dtype import f16, f32
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)


def leaf(name: str, *shape: int, dtype: Any = f32) -> sc.Tensor:
    return sc.input(shape, dtype, name, device="cuda")


def program_of(*outputs: sc.Tensor) -> Program:
    return sc.compile(list(outputs), fast_profile(), target="sm_90a").program


def launches(program: Program) -> list[str]:
    return [launch.spec.family for step in program.steps for launch in step.launches]


def test_an_optimizers_step_is_one_launch() -> None:
    g, m, v, w = (leaf(name, 100, 33) for name in "gmvw")
    mean = m * 0.9 + g * 0.1
    square = v * 0.99 + g * g * 0.01
    program = program_of(mean, square, w - mean / (sc.sqrt(square) + 1e-8) * 0.001)
    (step,) = program.steps
    assert launches(program) == ["elementwise_dense"]
    assert [operand.value for operand in step.outputs[1:]] == list(program.output_lines[:2])
    assert [a.kind for a in step.launches[0].arguments].count("write") == 3


def test_what_others_read_later_is_kept() -> None:
    x, y = leaf("x", 64, 32), leaf("y", 32, 64)
    h = sc.exp(x)
    program = program_of(h * 2.0, sc.sum(sc.permute_dims(h, (1, 0)) + y, axis=1))
    assert [len(step.outputs) for step in program.steps] == [2, 1]


def test_no_value_is_kept_that_an_anchor_can_write() -> None:
    x, b = leaf("x", 64, 64), leaf("b", 64)
    h = x @ x + b
    program = program_of(sc.relu(h), h)
    assert [len(step.outputs) for step in program.steps] == [1, 1]
    assert launches(program)[0].startswith("gemm")


def test_no_unit_reads_what_it_makes_by_way_of_another() -> None:
    """The row sums of h go into the chain that h would be part of."""
    x = leaf("x", 64, 32)
    h = sc.exp(x)
    program = program_of(h / sc.sum(h, axis=1, keepdims=True))
    assert [len(step.outputs) for step in program.steps] == [1, 1, 1]


def test_the_host_keeps_nothing() -> None:
    x = sc.input((64, 32), f32, "x")
    h = sc.exp(x)
    program = sc.compile([h * 2.0, h], "default").program
    assert all(len(step.outputs) == 1 for step in program.steps)


@pytest.mark.parametrize("seed", range(20))
def test_every_line_is_made_once_and_read_afterwards(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = [leaf(f"x{k}", 8, 12, dtype=(f32, f16)[k % 2]) for k in range(3)]
    for _ in range(int(rng.integers(5, 40))):
        a, b = (made[int(rng.integers(max(len(made) - 12, 0), len(made)))] for _ in range(2))
        kind = rng.integers(8)
        if kind == 0:
            made.append(sc.sum(a, axis=1, keepdims=True) + b)
        elif kind == 1:
            made.append(sc.reshape(sc.permute_dims(a, (1, 0)), (8, 12)) * b)
        else:
            made.append((a + b, a * b, sc.exp(a), sc.maximum(a, b))[kind % 4])
    program = program_of(*(x for x in made[3:] if rng.random() < 0.3), made[-1])
    check_lines(program)


def test_the_text_of_a_chain_that_keeps_values() -> None:
    arrays = [array_of(np.random.default_rng(0), (3,), dtype) for dtype in (f32, f16)]
    mul = micro_of("mul", (0, 1), [operand_of(x) for x in arrays])
    relu = micro_of("relu", (~0,), [mul])
    text = emit([mul, relu], [f32, f16], kept=[0])
    assert "apply(f32 x0, f16 x1, f32& y0, i64* status = nullptr)" in text
    assert "        y0 = v1;\n        return v2;" in text
    assert "COUNT = 3" in text and "READ" not in text


@pytest.mark.parametrize(
    ("shape", "others", "family"),
    [
        ((64, 32), (64, 32), "elementwise_dense"),
        ((63, 31), (31,), "elementwise_strided"),
        ((64, 32), None, "elementwise_turned"),
    ],
)
def test_every_family_keeps_values(shape: Any, others: Any, family: str) -> None:
    rng = np.random.default_rng(1)
    other = array_of(rng, others or shape[::-1], f32)
    arrays = [array_of(rng, shape, f32), other if others else other.T]
    exp = micro_of("exp", (0,), [operand_of(arrays[0])])
    add = micro_of("add", (~0, 1), [exp, operand_of(arrays[1])])
    unit = unit_of([exp, add], arrays)
    (step,) = cuda_elementwise.prepare(unit._replace(kept=((0, unit.result),)), H200)
    (launch,) = step.launches
    assert launch.spec.family == family and launch.spec.expression.endswith("Kept<f32>>")
    assert ("write", 1) in launch.arguments and len(step.outputs) == 2
