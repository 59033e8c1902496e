"""A budget holds whatever is asked for first: a first size has no times, so it is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_machine import MadeMachine

from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.estimates import affordable, call_s, cell_cost_s
from softcuda.tools.soft_init import main
from softcuda.tools.sweep import sweep


class Plain(MadeMachine):
    """A machine as fast as a small CPU."""

    def __init__(self) -> None:
        super().__init__(("cpu_fallback", "cpu_blas", "cuda_naive"), calls=7)

    def took_s(self, cell: Cell, name: str) -> float:
        paces = {"cpu_fallback": 5e-10, "cpu_blas": 5e-11, "cuda_naive": 1e-12}
        power = 3 if cell.op == "matmul" else 1
        return 2e-6 + cell.size**power * (paces[name] if power > 1 else 40 * paces[name])


@pytest.mark.parametrize("sizes", [(256, 4096), (4096,), (3000, 4096)])
@pytest.mark.parametrize("budget_s", [5.0, 20.0])
def test_large_products_keep_to_the_budget(sizes: tuple[int, ...], budget_s: float) -> None:
    machine = Plain()
    scopes = scopes_of({"matmul": ("f32",)}, None, sizes)
    sweep(scopes, machine, budget_s, lambda moment: None, clock=machine.clock)
    assert machine.now <= budget_s
    assert machine.asked and machine.asked[0][0].size == sizes[0]
    assert "cuda_naive" in machine.asked[-1][1]


@pytest.mark.parametrize("budget_s", [5.0, 60.0])
def test_large_arrays_keep_to_the_budget(budget_s: float) -> None:
    machine = Plain()
    scopes = scopes_of({"gelu": ("f64",)}, None, (100_000_000,))
    sweep(scopes, machine, budget_s, lambda moment: None, clock=machine.clock)
    assert machine.now <= budget_s


def test_what_was_never_tried_goes_first_where_time_is_short() -> None:
    (scope,) = scopes_of({"matmul": ("f32",)}, None, (2048,))
    names = ["cpu_fallback", "cpu_blas", "cuda_naive"]
    guesses = [call_s(scope, 2048, name, Ledger()) for name in names]
    assert guesses[0] > guesses[1] > guesses[2]
    kept, others = affordable(scope, 2048, names, Ledger(), 12.0)
    assert kept == ["cpu_blas", "cuda_naive"]
    assert others["cpu_fallback"].state is State.SKIPPED
    assert others["cpu_fallback"].reason == "a call may take 4.3 s"
    assert cell_cost_s(scope, 2048, kept, Ledger()) <= 12.0
    known = Ledger()
    known.note(Cell("matmul", "f32", 1024), {"cpu_fallback": Outcome(State.MEASURED, 1e6)})
    assert affordable(scope, 2048, ["cpu_fallback"], known, 0.1) == (["cpu_fallback"], {})


def test_the_largest_size_bounds_the_sizes_that_are_named() -> None:
    (scope,) = scopes_of({"add": ("f32",)}, 4, (2, 3, 5))
    assert scope.sizes == (2, 3) and scope.coarse == (2,)


def test_a_budget_in_which_nothing_is_measured_gives_no_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--budget", "1e-6", "--quiet"]) == 1
    assert "nothing was measured in time; give a larger --budget" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
