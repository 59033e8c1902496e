"""What one disturbed measurement may not do: a made-up machine whose clock its own times move."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from made_machine import MadeMachine

from softcuda.profile.model import Row
from softcuda.profile.resolve import default_profile
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.profile_rows import profile_rows
from softcuda.tools.sweep import sweep

SCOPES = scopes_of({"matmul": ("f32",)})


class Disturbed(MadeMachine):
    """A machine on which cpu_blas takes 15 ms at some sizes while something else runs."""

    def __init__(
        self, disturbs: Callable[[float, int], bool], sizes: tuple[int, ...] = (128,)
    ) -> None:
        super().__init__(("cpu_blas", "cpu_fallback"))
        self.disturbs = disturbs
        self.sizes = sizes

    def took_s(self, cell: Cell, name: str) -> float:
        times = sum(asked.size == cell.size for asked, _ in self.asked)
        if name == "cpu_blas" and cell.size in self.sizes and self.disturbs(self.now, times):
            return 15e-3
        return 2e-6 + cell.size**3 * (1.2e-11 if name == "cpu_blas" else 3e-10)

    @property
    def asked_sizes(self) -> list[tuple[int, tuple[str, ...]]]:
        """Return what was asked for, by size."""
        return [(cell.size, names) for cell, names in self.asked]

    def rows(self, budget_s: float) -> tuple[Ledger, list[Row]]:
        ledger = sweep(SCOPES, self, budget_s, lambda moment: None, clock=self.clock)
        rows = profile_rows(ledger, SCOPES, default_profile())
        return ledger, [row for row in rows if (row.op, row.dtype) == ("matmul", "f32")]


def backend_at(rows: list[Row], size: int) -> str:
    return next(r.backend_id for r in rows if r.low <= size and (r.high or math.inf) > size)


@pytest.mark.parametrize(
    "disturbs",
    [
        pytest.param(lambda now, times: times == 1, id="once"),
        pytest.param(lambda now, times: times <= 2, id="also when measured again"),
        pytest.param(lambda now, times: now < 0.5, id="for a while"),
    ],
)
def test_a_disturbance_leaves_no_trace(disturbs: Callable[[float, int], bool]) -> None:
    machine = Disturbed(disturbs)
    ledger, rows = machine.rows(math.inf)
    assert [(row.low, row.high, row.backend_id) for row in rows] == [(0, None, "cpu_blas")]
    for size, times in ledger.times("matmul", "f32"):
        assert times["cpu_blas"] == pytest.approx(2 + size**3 * 1.2e-5), size
    sizes = [size for size, _ in machine.asked_sizes]
    assert sizes.count(128) <= 3


def test_a_lasting_disturbance_is_confined_to_its_size() -> None:
    ledger, rows = Disturbed(lambda now, times: True).rows(math.inf)
    at = dict(ledger.at("matmul", "f32"))
    assert all(at[size]["cpu_blas"].state is State.MEASURED for size in SCOPES[0].sizes)
    for size in SCOPES[0].sizes:
        if size != 128:
            assert backend_at(rows, size) == "cpu_blas"


def test_what_was_skipped_is_taken_back_as_soon_as_it_fits() -> None:
    machine = Disturbed(lambda now, times: True, (32, 128))
    ledger, rows = machine.rows(math.inf)
    sizes = [size for size, _ in machine.asked_sizes]
    assert machine.asked_sizes[2] == (512, ("cpu_fallback",))  # 15 ms at 128 say 1 s at 512
    at = dict(ledger.at("matmul", "f32"))
    assert all(at[size]["cpu_blas"].state is State.MEASURED for size in SCOPES[0].sizes)
    assert backend_at(rows, 512) == "cpu_blas"
    place = sizes.index(64)  # shows that cpu_blas is not behind, and fast enough
    for step, size in enumerate((256, 512), start=1):
        assert machine.asked_sizes[place + step] == (size, ("cpu_blas", "cpu_fallback"))


def test_one_disturbed_size_keeps_nothing_from_being_tried() -> None:
    machine = Disturbed(lambda now, times: True)
    machine.rows(math.inf)
    assert machine.asked_sizes[2] == (512, ("cpu_blas", "cpu_fallback"))


def test_doubt_waits_until_the_other_first_sizes_are_measured() -> None:
    machine = Disturbed(lambda now, times: times == 1)
    machine.rows(math.inf)
    assert [size for size, _ in machine.asked_sizes[:4]] == [32, 128, 512, 128]


@pytest.mark.parametrize("budget_s", [0.1, 0.3, 0.5, 0.6, 0.7])
def test_a_skipped_default_keeps_its_row_where_time_ends(budget_s: float) -> None:
    ledger, rows = Disturbed(lambda now, times: True, (32, 128)).rows(budget_s)
    assert backend_at(rows, 512) == backend_at(rows, 4096) == "cpu_blas"
    found = dict(ledger.at("matmul", "f32")).get(512)
    if budget_s == 0.6:
        assert found is not None and found["cpu_blas"].state is State.SKIPPED
        (row,) = [r for r in rows if r.low <= 512 and (r.high is None or r.high > 512)]
        assert "at 512: cpu_fallback 40267, cpu_blas skipped" in row.comment


def noted(*sizes: tuple[int, float | None, float | None]) -> list[Row]:
    """Return the rows of matmul[f32] from (size, cpu_blas, other); None was skipped."""
    ledger = Ledger()
    for size, blas, other in sizes:
        found = {
            name: Outcome(State.SKIPPED) if time is None else Outcome(State.MEASURED, time)
            for name, time in (("cpu_blas", blas), ("other", other))
        }
        ledger.note(Cell("matmul", "f32", size), found)
    rows = profile_rows(ledger, SCOPES, default_profile())
    return [row for row in rows if (row.op, row.dtype) == ("matmul", "f32")]


def test_a_row_does_not_end_on_a_backend_whose_rival_was_ahead_and_skipped() -> None:
    rows = noted((512, 9.0, 3.0), (1024, 70.0, 20.0), (2048, 500.0, None))
    assert [(row.high, row.backend_id) for row in rows] == [(None, "other")]
    assert rows[0].comment == "us at 512: other 3, cpu_blas 9; at 2048: cpu_blas 500, other skipped"


def test_a_default_that_was_behind_twice_is_left() -> None:
    rows = noted((512, 3.0, 9.0), (1024, 70.0, 20.0), (2048, None, 160.0))
    assert rows[-1].backend_id == "cpu_blas"
    rows = noted((512, 30.0, 9.0), (1024, 70.0, 20.0), (2048, None, 160.0))
    assert [row.backend_id for row in rows] == ["other"]


def test_rows_of_an_earlier_profile_stay_where_nothing_was_measured() -> None:
    ledger = Ledger()
    ledger.note(Cell("matmul", "f32", 32), {"cpu_blas": Outcome(State.MEASURED, 5.0)})
    scopes = scopes_of({"matmul": ("f32", "f64")}, 32)
    earlier = [
        Row("matmul", None, 0, None, "cpu_fused", 4, "by hand"),
        Row("matmul", "f32", 0, 256, "cpu_fallback", 5, "us at 1: cpu_fallback 1"),
        Row("matmul", "f32", 256, None, "cpu_fused", 6, "us at 512: cpu_fused 1"),
        Row("matmul", "f64", 0, None, "cpu_blas", 7, "us at 1: cpu_blas 1"),
        Row("exp", "f32", 0, None, "cpu_blas", 8, "us at 1: cpu_blas 1"),
    ]
    rows = profile_rows(ledger, scopes, default_profile(), earlier)
    found = [(r.dtype, r.low, r.high, r.backend_id) for r in rows if r.op == "matmul"]
    assert found == [
        (None, 0, None, "cpu_fused"),
        ("f32", 0, 64, "cpu_blas"),
        ("f32", 64, 256, "cpu_fallback"),
        ("f32", 256, None, "cpu_fused"),
        ("f64", 0, None, "cpu_blas"),
    ]
    assert {(r.dtype, r.comment) for r in rows if r.op == "exp"} == {
        (None, "not measured"),
        ("f32", "us at 1: cpu_blas 1"),
    }
    (tanh,) = [row for row in rows if row.op == "tanh"]
    assert tanh.comment == "not measured"
