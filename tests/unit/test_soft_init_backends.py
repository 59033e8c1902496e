"""Backends of a user in soft_init: they join it, and what is wrong is left out of a profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from softcuda.backends import Step, Verdict, register, unregister
from softcuda.dtype import f32
from softcuda.profile.resolve import read
from softcuda.tools.agreement import disagreement
from softcuda.tools.cells import Cell, State
from softcuda.tools.measure import Meter
from softcuda.tools.soft_init import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own_backend(name: str, function: Any, op: str = "add") -> Any:
    def supports(line: Any, operands: Any, target: Any) -> Verdict:
        return Verdict(line.op.name == op, f"{name} computes {op}")

    def prepare(unit: Any, target: Any) -> tuple[Step, ...]:
        return (Step(name, op, unit.operands, (unit.result,), lines=unit.lines),)

    return SimpleNamespace(
        BACKEND_ID=name,
        DEVICE="cpu",
        FUSES=frozenset(),
        supports=supports,
        prepare=prepare,
        FUNCTIONS={op: function},
    )


@pytest.fixture
def own_backends() -> Iterator[None]:
    def wrong(a: Any, b: Any, out: Any) -> None:
        np.subtract(a, b, out=out)

    def broken(a: Any, b: Any, out: Any) -> None:
        raise TypeError("no such thing")

    made = [own_backend("right", lambda a, b, out: np.add(a, b, out=out))]
    made += [own_backend("wrong", wrong), own_backend("broken", broken)]
    for backend in made:
        register(backend)
    yield
    for backend in made:
        unregister(backend.BACKEND_ID)


@pytest.mark.usefixtures("own_backends")
def test_backends_of_a_user_join_and_wrong_ones_are_disqualified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    meter = Meter()
    found = meter.measure(Cell("add", "f32", 64), meter.backend_ids, 0.01)
    assert found["right"].state is State.MEASURED and found["right"].microseconds > 0
    assert found["wrong"].state is State.WRONG and "elements are wrong" in found["wrong"].reason
    assert found["broken"].state is State.WRONG and "no such thing" in found["broken"].reason
    assert found["cpu_blas"].state is State.REFUSED
    assert main(["--ops", "add", "--max-size", "8"]) == 0
    printed = capsys.readouterr().out
    assert "disqualified: wrong, add[f32], size 8: " in printed
    names = {row.backend_id for row in read("CONFIG.soft", {"right": "cpu"}).rows}
    assert not names & {"wrong", "broken"}


@pytest.mark.parametrize("size", [7, 128])
def test_products_are_checked_at_every_size(size: int) -> None:
    def last_row_wrong(a: Any, b: Any, out: Any) -> None:
        np.matmul(a, b, out=out)
        out[-1] += 1

    backend = own_backend("rows", last_row_wrong, "matmul")
    register(backend)
    try:
        found = Meter().measure(Cell("matmul", "f32", size), ["cpu_blas", "rows"], 0.0)
    finally:
        unregister("rows")
    assert found["cpu_blas"].state is State.MEASURED
    assert found["rows"].state is State.WRONG


def test_agreement_sees_nan_infinity_and_single_elements() -> None:
    right = np.array([1.0, np.nan, np.inf, 1e-3])
    good = right.astype(np.float32)
    assert disagreement(good, right, f32, 1) == ""
    for place, value in ((0, 1.1), (1, 0.0), (2, -np.inf), (3, np.nan)):
        bad = good.copy()
        bad[place] = value
        assert f"1 of 4 elements are wrong, the first at [{place}]" in disagreement(
            bad, right, f32, 1
        )
