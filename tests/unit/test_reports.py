"""What kernels write into the status words, as the errors that users see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import softcuda
from softcuda.backends.reports import STATUS_WORDS, index_error, power_error, reported, where_of
from softcuda.errors import IndexOutOfRange, IntegerPowerError
from softcuda.graph.op import OPS

KERNELS = Path(__file__).parents[2] / "kernels"


def callers() -> set[str]:
    """Return who gives its name to the params of an op that reads indices."""
    found = set()
    for path in Path(softcuda.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Gather":
                found |= {a.value for a in node.args[1:] if isinstance(a, ast.Constant)}
    return {str(name) for name in found}


def test_the_callers_are_found() -> None:
    assert {"take_along_axis", "cross_entropy"} <= callers()


@pytest.mark.parametrize("axis", [0, 1, 63])
@pytest.mark.parametrize(
    "asker", sorted({n for n, op in OPS.items() if op.has_indices} | callers())
)
def test_an_index_is_reported_as_the_cpu_reports_it(asker: str, axis: int) -> None:
    for index in (7, -9):
        words = (1, index, 5, where_of(asker, axis))
        assert len(words) == STATUS_WORDS
        error = reported(words)
        assert isinstance(error, IndexOutOfRange)
        assert str(error) == str(index_error(asker, index, axis, 5))
        assert str(error).startswith(f"{asker}: ") and f"axis {axis}" in str(error)


def test_a_moved_label_is_moved_back() -> None:
    assert "label -1 of 3 classes along axis 1" in str(index_error("cross_entropy", -4, 1, 3))
    assert "label 3 of 3 classes" in str(index_error("cross_entropy", 3, 1, 3))


def test_a_negative_power_is_reported() -> None:
    error = reported((2, -5, 0, 0))
    assert isinstance(error, IntegerPowerError)
    assert str(error) == str(power_error(-5)) and "power -5" in str(error)


def test_the_codes_are_those_of_the_kernels() -> None:
    text = (KERNELS / "report.cuh").read_text(encoding="utf-8")
    assert "STATUS_INDEX = 1;" in text and "STATUS_POWER = 2;" in text
