"""Equal units are planned once, and get the steps that they would get alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import (
    Micro,
    Operand,
    Step,
    Unit,
    Verdict,
    backends,
    cpu_fallback,
    register,
    unregister,
)
from softcuda.compiler import sequence
from softcuda.compiler.patterns import prepared
from softcuda.compiler.program import Program
from softcuda.dtype import f32
from softcuda.graph.op import OPS
from softcuda.target import CPU, Target


class Counting:
    """A planner that counts how often it is asked."""

    def __init__(self, backend_id: str) -> None:
        self._prepare = backends()[backend_id].prepare
        self.asked: list[Unit] = []

    def __call__(self, unit: Unit, target: Target) -> tuple[Step, ...]:
        self.asked.append(unit)
        made: tuple[Step, ...] = self._prepare(unit, target)
        return made


def layers(count: int) -> sc.Tensor:
    x = sc.input((64, 64), name="x", device="cuda")
    for _ in range(count):
        x = sc.tanh(x @ sc.input((64, 64), device="cuda"))
        x = x / sc.sum(x, axis=1, keepdims=True)
    return x


def program_of(target: str = "sm_90a") -> Program:
    return sc.compile([layers(5)], fast_profile(), target=target).program


def test_layers_of_equal_extents_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting("cuda_contract")
    monkeypatch.setattr(backends()["cuda_contract"], "prepare", counting)
    program = program_of()
    assert sum(step.backend_id == "cuda_contract" for step in program.steps) == 5
    assert len(counting.asked) == 1
    program_of("sm_80")
    assert len(counting.asked) == 2


def test_programs_are_those_of_units_planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = program_of()

    def alone(prepare: Any, unit: Unit, target: Target) -> tuple[Step, ...]:
        made: tuple[Step, ...] = prepare(unit, target)
        return made

    monkeypatch.setattr(sequence, "prepared", alone)
    assert repr(found) == repr(program_of())


def test_a_value_that_is_read_twice_is_another_pattern() -> None:
    counting = Counting("cpu_fallback")
    mul = OPS["mul"]
    for first, second in ((7, 7), (7, 4), (9, 2), (3, 3)):
        operands = tuple([Operand(k, 0, (4,), (1,), f32) for k in (first, second)])
        result = Operand(20 + first, 0, (4,), (1,), f32)
        unit = Unit((Micro(mul, (0, 1), (4,), f32, ()),), operands, result, (result.value,))
        assert prepared(counting, unit, CPU) == list(cpu_fallback.prepare(unit, CPU))
    assert len(counting.asked) == 2


def test_a_backend_of_the_user_is_asked_for_every_unit() -> None:
    asked: list[Unit] = []

    def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
        asked.append(unit)
        return (Step("own", "exp", unit.operands, (unit.result,), lines=unit.lines),)

    own = SimpleNamespace(
        BACKEND_ID="own",
        DEVICE="cpu",
        FUSES=frozenset(),
        FUNCTIONS={"exp": np.exp},
        supports=lambda line, operands, target: Verdict(True),
        prepare=prepare,
    )
    register(own)
    try:
        x = sc.input((4,), name="x")
        program = sc.compile([sc.exp(sc.exp(sc.exp(x)))], fast_profile(exp="own")).program
    finally:
        unregister("own")
    assert len(asked) == sum(step.backend_id == "own" for step in program.steps) == 3
