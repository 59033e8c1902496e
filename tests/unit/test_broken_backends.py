"""Backends that break their contract, each in one way: a BackendError says which and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from op_cases import profile_of

import softcuda as sc
from softcuda.backends import Operand, Step, Unit, Verdict, register, unregister
from softcuda.backends.contract import RESERVED
from softcuda.errors import BackendError
from softcuda.target import Target

Prepare = Callable[[Unit, Target], Any]


def steps(unit: Unit, target: Target) -> tuple[Step, ...]:
    return (Step("broken", "twice", unit.operands, (unit.result,), lines=unit.lines),)


def changed(**fields: Any) -> Prepare:
    return lambda unit, target: (steps(unit, target)[0]._replace(**fields),)


def output(**fields: Any) -> Prepare:
    return lambda unit, target: (
        steps(unit, target)[0]._replace(outputs=(unit.result._replace(**fields),)),
    )


def operand(**fields: Any) -> Prepare:
    return lambda unit, target: (
        steps(unit, target)[0]._replace(inputs=(unit.operands[0]._replace(**fields),)),
    )


def backend(**parts: Any) -> Any:
    made = {
        "BACKEND_ID": "broken",
        "DEVICE": "cpu",
        "FUSES": frozenset(),
        "FUNCTIONS": {"twice": lambda x, out: np.add(x, x, out)},
        "supports": lambda line, operands, target: Verdict(True),
        "prepare": steps,
    }
    return SimpleNamespace(**{**made, **parts})


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    if "broken" in sc.backends.backends():
        unregister("broken")


def doubled() -> Any:
    profile = profile_of("cpu_fallback")
    row = next(row for row in profile.rows if row.op == "neg")
    rows = tuple(r._replace(backend_id="broken") if r is row else r for r in profile.rows)
    leaf = sc.tensor([1.0, 2.0, 3.0, 4.0])
    return sc.compile(-leaf, replace(profile, rows=rows)).run().tolist()


def test_one_that_keeps_it_computes() -> None:
    register(backend())
    assert doubled() == [2, 4, 6, 8]


def test_numbers_of_numpy_are_numbers() -> None:
    register(backend(prepare=output(offset=np.int64(0), dims=(np.int64(4),))))
    assert doubled() == [2, 4, 6, 8]


PREPARED: Mapping[str, Prepare] = {
    "nothing": lambda unit, target: (),
    "none": lambda unit, target: None,
    "junk": lambda unit, target: 5,
    "texts": lambda unit, target: ("twice",),
    "a generator": lambda unit, target: iter(steps(unit, target)),
    "one step alone": lambda unit, target: steps(unit, target)[0],
    "another backend": changed(backend_id="cpu_fallback"),
    "no kernel name": changed(kernel=None),
    "scratch": changed(scratch_bytes=-1),
    "no scratch": changed(scratch_bytes=None),
    "no outputs": changed(outputs=()),
    "junk outputs": changed(outputs=(1,)),
    "junk inputs": changed(inputs=(None,)),
    "none inputs": changed(inputs=None),
    "foreign output": output(value=99),
    "output is the input": lambda unit, target: (
        steps(unit, target)[0]._replace(outputs=unit.operands),
    ),
    "few": output(dims=(3,)),
    "many": output(dims=(5,)),
    "negative": output(dims=(-4,)),
    "two axes": output(dims=(2, 2)),
    "part": output(dims=(1.5,)),
    "behind": output(offset=1),
    "before": output(offset=-1),
    "no offset": output(offset=None),
    "output dtype": output(dtype=sc.f64),
    "foreign input": operand(value=99),
    "wide input": operand(dims=(5,)),
    "far input": operand(offset=4),
    "strides": operand(strides=(2,)),
    "input dtype": operand(dtype=sc.f64),
}


@pytest.mark.parametrize("case", PREPARED)
def test_what_prepare_returns_is_checked(case: str) -> None:
    register(backend(prepare=PREPARED[case]))
    with pytest.raises(BackendError, match=r"neg: prepare of backend broken returned"):
        doubled()


@pytest.mark.parametrize("verdict", [None, False, True, "no", (True, "")])
def test_what_supports_returns_is_checked(verdict: Any) -> None:
    register(backend(supports=lambda line, operands, target: verdict))
    with pytest.raises(BackendError, match="neg: supports of backend broken returned"):
        doubled()


@pytest.mark.parametrize(
    "calls", [None, 5, np.add, (np.add, ()), [np.add], [(np.add,)], [(1, ())], [(np.add, None)]]
)
def test_what_bind_returns_is_checked(calls: Any) -> None:
    register(backend(bind=lambda step, inputs, outputs, scratch: calls))
    with pytest.raises(BackendError, match="bind of backend broken returned"):
        doubled()


def test_a_kernel_without_a_function_is_named() -> None:
    register(backend(FUNCTIONS={}))
    with pytest.raises(BackendError, match="broken has no function 'twice'"):
        doubled()


@pytest.mark.parametrize("name", RESERVED)
def test_words_of_the_tables_are_no_ids(name: str) -> None:
    with pytest.raises(BackendError, match="other than"):
        register(backend(BACKEND_ID=name))


@pytest.mark.parametrize(
    "parts",
    [
        {"FUSES": None},
        {"FUSES": "elementwise"},
        {"FUSES": ["elementwise"]},
        {"EPILOGUES": 1},
        {"MOST_BEFORE": 0},
        {"MOST_BEFORE": True},
        {"told": "fast"},
        {"DEVICE": ["cpu"]},
        {"FUNCTIONS": None},
        {"FUNCTIONS": {"twice": 2}},
        {"supports": None},
        {"prepare": 1},
        {"bind": 1},
    ],
)
def test_parts_of_the_wrong_type_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(BackendError, match="register: broken has"):
        register(backend(**parts))


def test_empty_values_have_no_elements_to_check() -> None:
    register(backend())
    empty = Operand(0, 0, (0, 3), (3, 1), sc.f32)
    unit = SimpleNamespace(chain=(SimpleNamespace(op=SimpleNamespace(name="neg")),))
    unit.operands, unit.result = (empty,), empty._replace(value=1)
    unit.lines = (1,)
    sc.backends.contract.check_steps("broken", unit, steps(unit, None))  # type: ignore[arg-type]
