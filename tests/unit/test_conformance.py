"""The conformance suite on the CPU: it passes, and it sees what is wrong."""

from __future__ import annotations

import pytest

from softcuda.errors import ShapeError
from softcuda.tools.conformance import all_checks, failures, main
from softcuda.tools.conformance_bench import Bench, Check, benches

RANDOM = 60
CPU = [bench for bench in benches() if bench.device == "cpu"]


@pytest.mark.parametrize("bench", CPU, ids=lambda bench: bench.backend_id)
def test_every_check_holds(bench: Bench) -> None:
    assert not list(failures(bench, list(all_checks(RANDOM))))


def test_the_shipped_backends_are_there() -> None:
    assert {bench.backend_id for bench in CPU} >= {"cpu_blas", "cpu_fallback", "cpu_fused"}


def test_names_are_distinct() -> None:
    names = [check.name for check in all_checks(RANDOM)]
    assert len(set(names)) == len(names)


def test_what_is_wrong_is_said() -> None:
    def broken(bench: Bench) -> str:
        raise ShapeError("too long")

    checks = [Check("a", lambda bench: ""), Check("b", lambda bench: "off"), Check("c", broken)]
    found = list(failures(CPU[0], checks))
    name = CPU[0].backend_id
    assert found == [f"{name}: b: off", f"{name}: c: ShapeError: too long"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cpu_blas", "--random", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("cpu_blas: ")
    assert " checks hold, " in printed
