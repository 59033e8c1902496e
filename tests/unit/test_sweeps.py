"""The sweeps hold together, on the fake driver: searches, tables, files; nothing is timed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeDriver
from fake_sessions import fake_sessions

from benchmarks.sweeps import contract, elementwise, permute
from benchmarks.sweeps.contract_cases import Contracted, contractions
from benchmarks.sweeps.lab import pieces
from benchmarks.sweeps.permute_cases import Case, cases, variants
from softcuda.backends.cuda.permute_kinds import KINDS
from softcuda.driver.module import Function, Module
from softcuda.kernelspec import KernelSpec
from softcuda.loader import Loader
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.setattr("benchmarks.gpu_timing.WIPE_BYTES", 4096)
    monkeypatch.setattr("benchmarks.sweeps.lab.cuda_target", lambda: H200)
    monkeypatch.setattr(Loader, "prepare", lambda self, specs: None)
    modules: list[Module] = []

    def function(loader: Any, spec: KernelSpec) -> Function:
        if not modules:
            modules.append(Module(loader._context, b"cubin", "any"))
        return modules[0].function("kernel")

    monkeypatch.setattr(Loader, "function", function)
    for made in fake_sessions(monkeypatch):
        yield made
        modules.clear()


def test_cases_and_kernels_are_told_apart() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    kinds = [(kind.spec.expression, kind.turns) for kind in variants()]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize("nbytes", [1, 3, 4, 7919 * 6007, 2 * 63 * 511 * 1499, 4096])
def test_every_byte_of_a_result_is_compared_and_none_behind_it(nbytes: int) -> None:
    """An array of 1- or 2-byte elements may end amid a word; what lies behind is anything."""
    end = 0
    for piece in pieces(nbytes):
        assert piece.start == end
        end += piece.elements * {"u32": 4, "u8": 1}[piece.spec.variant]
    assert end == nbytes


def test_the_sweep_of_permutations(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = [Case("hptt 1", ((24, 40, 16), (2, 1, 0)), 4), Case("odd", ((7, 5), (1, 0)), 2)]
    monkeypatch.setattr(permute, "cases", lambda: few)
    monkeypatch.setattr(permute, "BYTES", 1 << 16)
    monkeypatch.setattr(permute, "variants", lambda: KINDS)
    permute.main(["--out", str(tmp_path)])
    rows: list[dict[str, Any]] = json.loads((tmp_path / "permute_sweep.json").read_text())
    assert [row["nbytes"] for row in rows] == [2 * case.nbytes for case in few]
    assert all(row["rule"] and row["all"] for row in rows)
    assert "hptt 32" in (tmp_path / "permute_sweep.txt").read_text()


def test_the_sweep_of_chains(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(elementwise, "SIDE", 16)
    few = [work for work in elementwise.workloads() if work.name in ("bias f32", "relu bf16")]
    monkeypatch.setattr(elementwise, "workloads", lambda: few)
    monkeypatch.setattr(elementwise, "BYTES", 1 << 12)
    monkeypatch.setattr(elementwise, "UNROLLS", (1, 2))
    elementwise.main(["--out", str(tmp_path)])
    rows = json.loads((tmp_path / "elementwise_sweep.json").read_text())
    assert [row["workload"] for row in rows] == [work.name for work in few]
    assert all(len(row["times"]) == 1 + 2 * 3 * 3 for row in rows)


def test_the_published_contractions() -> None:
    cases = {case.name: case for case in contractions()}
    assert sum(name.isdigit() for name in cases) == 24
    assert (cases["01"].flops, cases["21"].flops) == (1457823744, 278628139008)
    assert cases["31"].dims(0) == (24, 24, 16, 24)
    largest = max(math.prod(case.dims(k)) for case in cases.values() for k in range(3))
    assert 4 * largest <= contract.BYTES


def test_the_sweep_of_contractions(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = [
        Contracted("01", "adb,cd->cba", {"a": 24, "b": 16, "c": 8, "d": 12}),
        Contracted("cut", "ij,jk->ik", {"i": 8, "j": 2000, "k": 4}),
    ]
    monkeypatch.setattr(contract, "contractions", lambda: few)
    monkeypatch.setattr(contract, "BYTES", 1 << 20)
    contract.main(["--out", str(tmp_path)])
    rows: list[dict[str, Any]] = json.loads((tmp_path / "contract_sweep.json").read_text())
    assert [row["case"] for row in rows] == ["01", "cut"]
    assert all(row["wrong"] for row in rows), "the fake driver computes nothing"
    assert "floor" in (tmp_path / "contract_sweep.txt").read_text()
