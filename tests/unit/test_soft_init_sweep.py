"""The order of measuring, its bounds and its deadline: a made-up machine and clock."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
from made_machine import MadeMachine

from softcuda.graph.op import OPS
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import work_ops
from softcuda.tools.cells import BY_IMPORTANCE, Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.display import medians_table, progress
from softcuda.tools.estimates import LONGEST_CALL_S, candidates
from softcuda.tools.profile_rows import profile_rows
from softcuda.tools.sweep import Moment, sweep


class Machine(MadeMachine):
    """A machine whose backends each have a formula of their own."""

    def __init__(self, seconds: dict[str, Callable[[int], float]]) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def took_s(self, cell: Cell, name: str) -> float:
        return self.seconds[name](cell.size)


def quiet(moment: Moment) -> None:
    """Hear nothing."""


EVERYTHING = {op: ("f32", "f64") for op in work_ops()}
FAST = {"a": lambda size: 1e-6 + size * 1e-9, "b": lambda size: 4e-6 + size * 5e-10}


def test_ops_are_ordered_once_each() -> None:
    assert sorted(BY_IMPORTANCE) == sorted(work_ops())
    assert BY_IMPORTANCE[:3] == ("matmul", "add", "mul")
    assert set(BY_IMPORTANCE) <= set(OPS)


def test_a_sweep_without_deadline_looks_at_every_cell_once() -> None:
    machine = Machine(FAST)
    scopes = scopes_of({"add": ("f32", "f64"), "matmul": ("f32",)})
    ledger = sweep(scopes, machine, math.inf, quiet, clock=machine.clock)
    assert len({cell for cell, _ in machine.asked}) == len(machine.asked)
    for scope in scopes:
        sizes = {size for size, _ in ledger.at(scope.op, scope.dtype)}
        assert sizes >= set(scope.sizes)
        assert len(sizes) <= len(scope.sizes) + 3


def test_a_change_between_powers_of_two_is_bisected() -> None:
    machine = Machine({"a": lambda size: 1e-9 * size, "b": lambda size: 2.9e-6})
    (scope,) = scopes_of({"add": ("f32",)})
    ledger = sweep([scope], machine, math.inf, quiet, clock=machine.clock)
    between = {size for size, _ in ledger.at("add", "f32")} - set(scope.sizes)
    assert between == {2816, 3328, 3072}
    rows = profile_rows(ledger, [scope], default_profile())
    (row,) = [row for row in rows if row.dtype == "f32" and row.low]
    assert 2816 <= row.low <= 3072
    few = scopes_of({"add": ("f32",)}, 4096)
    machine = Machine(machine.seconds)
    ledger = sweep(few, machine, math.inf, quiet, clock=machine.clock)
    assert {size for size, _ in ledger.at("add", "f32")} == set(few[0].sizes)


@pytest.mark.parametrize("budget", [0.0, 0.5, 3.0])
def test_a_sweep_ends_at_its_deadline(budget: float) -> None:
    machine = Machine(FAST)
    sweep(scopes_of(EVERYTHING), machine, budget, quiet, clock=machine.clock)
    assert machine.now <= budget + 0.3


def test_every_op_comes_before_any_refinement() -> None:
    machine = Machine(FAST)
    scopes = scopes_of(EVERYTHING)
    sweep(scopes, machine, 5.0, quiet, clock=machine.clock)
    first = [cell for cell, _ in machine.asked[: len(scopes)]]
    assert {(c.op, c.dtype) for c in first} == {(s.op, s.dtype) for s in scopes}
    assert all(c.size in s.coarse for c, s in zip(first, scopes, strict=True))


def test_where_the_winner_changes_is_found_before_the_rest() -> None:
    machine = Machine({"a": lambda size: 1e-9 * size, "b": lambda size: 1e-6})
    (scope,) = scopes_of({"add": ("f32",)})
    sweep([scope], machine, math.inf, quiet, clock=machine.clock)
    order = [cell.size for cell, _ in machine.asked]
    assert order[:3] == list(scope.coarse)
    assert {512, 1024} <= set(order[: 3 + 4])


def test_a_backend_far_behind_twice_is_left_alone_above() -> None:
    machine = Machine({"a": lambda size: 1e-9 * size, "b": lambda size: 9e-9 * size})
    (scope,) = scopes_of({"add": ("f32",)})
    ledger = sweep([scope], machine, math.inf, quiet, clock=machine.clock)
    largest = dict(ledger.at("add", "f32"))[scope.sizes[-1]]
    assert largest["b"].state is State.SKIPPED and largest["a"].state is State.MEASURED
    assert machine.asked[2] == (Cell("add", "f32", 1 << 20), ("a",))


def test_no_call_takes_too_long() -> None:
    slow = {"a": lambda size: 1e-6 * size, "b": lambda size: 1e-10 * size**3}
    machine = Machine(slow)
    scopes = scopes_of({"add": ("f32",), "matmul": ("f32",)})
    sweep(scopes, machine, math.inf, quiet, clock=machine.clock)
    for cell, names in machine.asked:
        if cell.op == "matmul":
            assert max(machine.seconds[name](cell.size) for name in names) <= LONGEST_CALL_S
        else:
            assert "a" not in names or cell.size * 1e-6 <= LONGEST_CALL_S


def test_the_largest_size_can_be_chosen() -> None:
    for scope in scopes_of(EVERYTHING, 100):
        assert scope.sizes[-1] == 64
        assert not scope.whole
        assert scope.coarse
    assert scopes_of({"matmul": ("f32",)}, 4096)[0].whole


def test_with_a_gpu_both_sides_of_most_crossings_come_first() -> None:
    (product, add) = scopes_of({"add": ("f32",), "matmul": ("f32",)}, device="cuda")
    assert add.coarse == (1 << 8, 1 << 16, 1 << 13, 1 << 20)
    assert product.coarse == (32, 256, 64, 2048)
    assert (add.sizes[-1], product.sizes[-1]) == (1 << 24, 4096)
    (asked,) = scopes_of({"add": ("f32",)}, sizes_asked=(3, 100), device="cuda")
    assert (asked.sizes, asked.whole) == ((3, 100), False)


def test_an_exhaustive_sweep_tries_everything_everywhere() -> None:
    machine = Machine({"a": lambda size: 1e-9 * size, "b": lambda size: 9e-8 * size})
    (scope,) = scopes_of({"add": ("f32",)}, exhaustive=True)
    ledger = sweep([scope], machine, math.inf, quiet, clock=machine.clock)
    states = {o.state for _, outcomes in ledger.at("add", "f32") for o in outcomes.values()}
    assert states == {State.MEASURED}


def test_a_backend_is_behind_the_best_of_its_own_device_only() -> None:
    scope = scopes_of({"add": ("f32",)})[0]
    ledger = Ledger()
    for size in scope.coarse[:2]:
        found = {
            "host": Outcome(State.MEASURED, 90.0),
            "far": Outcome(State.MEASURED, 900.0),
            "gpu": Outcome(State.MEASURED, 1.0, device="cuda"),
            "slow": Outcome(State.MEASURED, 9.0, device="cuda"),
        }
        ledger.note(Cell("add", "f32", size), found)
    names, others = candidates(scope, scope.coarse[2], ("host", "far", "gpu", "slow"), ledger)
    assert names == ["host", "gpu"]
    assert {outcome.state for outcome in others.values()} == {State.SKIPPED}


def test_what_is_known_is_not_measured_again() -> None:
    machine = Machine(FAST)
    scopes = scopes_of({"add": ("f32",)})
    known = sweep(scopes, machine, 0.05, quiet, clock=machine.clock)
    before = len(machine.asked)
    sweep(scopes, machine, math.inf, quiet, clock=machine.clock, ledger=known)
    assert len({cell for cell, _ in machine.asked}) == len(machine.asked)
    assert {cell.size for cell, _ in machine.asked} >= set(scopes[0].sizes)
    assert 0 < before < len(scopes[0].sizes)


@pytest.mark.parametrize("disturbed", [1 << 8, 1 << 14, 1 << 20])
def test_a_disturbed_measurement_is_repeated(disturbed: int) -> None:
    machine = Machine(FAST)
    calm, machine.seconds = machine.seconds["a"], dict(machine.seconds)
    seen: list[int] = []

    def disturbed_once(size: int) -> float:
        seen.append(size)
        return calm(size) * (100 if size == disturbed and seen.count(size) == 1 else 1)

    machine.seconds["a"] = disturbed_once
    (scope,) = scopes_of({"add": ("f32",)})
    ledger = sweep([scope], machine, math.inf, quiet, clock=machine.clock)
    for size, times in ledger.times("add", "f32"):
        assert times["a"] == pytest.approx(calm(size) * 1e6)
    asked = [cell.size for cell, _ in machine.asked]
    assert asked.count(disturbed) == 2
    assert all(asked.count(size) <= 2 for size in scope.sizes)


def test_progress_says_what_is_left() -> None:
    machine = Machine(FAST)
    heard: list[Moment] = []
    sweep(scopes_of({"add": ("f32",)}), machine, 60.0, heard.append, clock=machine.clock)
    assert [m.done for m in heard] == list(range(len(heard)))
    assert all(0 <= m.left_s <= 60 for m in heard)


def test_doubts_leave_time_for_other_sizes() -> None:
    """Where every second median is disturbed, measuring again takes a share of the time alone."""
    machine = Machine({"a": lambda size: 1e-6 + (len(machine.asked) % 2) * 5e-3})
    heard: list[tuple[float, bool]] = []
    budget_s = 20.0
    sweep(
        scopes_of(EVERYTHING),
        machine,
        budget_s,
        lambda moment: heard.append((machine.now, moment.again)),
        clock=machine.clock,
    )
    begin = next(place for place, (_, again) in enumerate(heard) if again)
    end = next(place for place in range(begin, len(heard)) if not heard[place][1])
    assert 0.05 * budget_s < heard[end][0] - heard[begin][0] < 0.2 * budget_s
    assert sum(not again for _, again in heard[end:]) > 100


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


MOMENT = Moment(Cell("matmul", "f32", 64), 3, 10, 75.2)


def test_progress_as_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with progress(stream, quiet=False) as report:
        report(MOMENT)
        report(MOMENT)
    assert stream.getvalue() == "measured 3 of 10, 1:15 left, now matmul[f32] 64\n"


def test_progress_tells_what_is_measured_again() -> None:
    stream = io.StringIO()
    with progress(stream, quiet=False) as report:
        report(MOMENT._replace(again=True))
    assert stream.getvalue() == "measured 3 of 10, 1:15 left, again matmul[f32] 64\n"


def test_progress_as_a_bar_on_a_terminal() -> None:
    stream = Terminal()
    with progress(stream, quiet=False) as report:
        report(MOMENT)
    assert "3 of 10, 1:15 left" in stream.getvalue()


def test_progress_can_be_quiet() -> None:
    stream = Terminal()
    with progress(stream, quiet=True) as report:
        report(MOMENT)
    assert stream.getvalue() == ""


def test_the_table_marks_the_fastest_and_says_why_others_have_no_time() -> None:
    ledger = Ledger()
    ledger.note(
        Cell("add", "f32", 8),
        {
            "quick": Outcome(State.MEASURED, 1.25),
            "other": Outcome(State.MEASURED, 1500.0),
            "wrong": Outcome(State.WRONG, reason="3 of 8 elements are wrong"),
            "picky": Outcome(State.REFUSED, reason="integers only"),
            "slow": Outcome(State.SKIPPED, reason="far behind"),
        },
    )
    names = ("quick", "other", "wrong", "picky", "slow", "late")
    lines = medians_table(ledger, scopes_of({"add": ("f32",)}), names).splitlines()
    assert lines[2].split() == ["add[f32]", "8", "1.2*", "1500", "wrong", "-", "slow"]
    assert lines[3] == "disqualified: wrong, add[f32], size 8: 3 of 8 elements are wrong"
