"""From medians to rows: synthetic medians, no clock."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcuda.profile.check import check_rows
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import work_ops
from softcuda.profile.writer import render
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.choose import (
    CHANGE,
    NOT_MEASURED,
    Point,
    choose_rows,
    winners,
)
from softcuda.tools.preferences import MARGIN
from softcuda.tools.profile_rows import profile_rows

FACTS = DeviceFacts()


def default(*rows: tuple[int, int | None, str]) -> Profile:
    made = tuple(Row("add", None, low, high, name) for low, high, name in rows)
    return Profile("DEFAULT.soft", {"soft_version": "0.1.0"}, FACTS, made)


A_ALONE = default((0, None, "a"))


def spans(rows: list[Row]) -> list[tuple[int, int | None, str]]:
    return [(row.low, row.high, row.backend_id) for row in rows]


def test_one_winner_is_one_row() -> None:
    points = [Point(1 << k, {"a": 1.0, "b": 2.0}) for k in (0, 4, 10)]
    (row,) = choose_rows("add", "f32", points, A_ALONE)
    assert (row.op, row.dtype, row.low, row.high, row.backend_id) == ("add", "f32", 0, None, "a")
    assert row.comment == "us at 1: a 1, b 2; at 1024: a 1, b 2"


def test_neighbouring_sizes_change_at_the_larger() -> None:
    points = [Point(64, {"a": 1.0, "b": 2.0}), Point(128, {"a": 4.0, "b": 2.0})]
    rows = choose_rows("add", "f32", points, A_ALONE)
    assert spans(rows) == [(0, 128, "a"), (128, None, "b")]


def test_far_neighbours_change_where_their_lines_cross() -> None:
    # b - a runs from 3 at 2^8 to -60 at 2^14 in a straight line: zero at 2^10.
    points = [Point(1 << 8, {"a": 1.0, "b": 4.0}), Point(1 << 14, {"a": 70.0, "b": 10.0})]
    rows = choose_rows("add", "f32", points, A_ALONE)
    assert spans(rows) == [(0, 1 << 10, "a"), (1 << 10, None, "b")]


def test_far_neighbours_without_both_times_change_half_way() -> None:
    points = [Point(1 << 8, {"a": 1.0}), Point(1 << 14, {"b": 10.0})]
    rows = choose_rows("add", "f32", points, A_ALONE)
    assert spans(rows) == [(0, 1 << 11, "a"), (1 << 11, None, "b")]


def series(*times: tuple[float, float]) -> list[Point]:
    return [Point(1 << k, {"a": a, "b": b}) for k, (a, b) in enumerate(times)]


def chosen(points: list[Point], favourite: str = "a") -> str:
    return "".join(winners(points, [favourite] * len(points)))


def test_a_near_tie_goes_to_the_default() -> None:
    near, clear = math.exp(-MARGIN) + 0.001, math.exp(-MARGIN - CHANGE / 3) - 0.001
    assert chosen(series((1, near), (1, near), (1, near))) == "aaa"
    assert chosen(series((1, near), (1, near), (1, near)), "b") == "bbb"
    assert chosen(series((1, 2), (1, clear), (1, clear), (1, clear))) == "abbb"


def test_one_disturbed_size_makes_no_row() -> None:
    assert chosen(series((1, 2), (1, 2), (1.25, 1), (1, 2))) == "aaaa"
    assert chosen(series((1, 2), (1, 2), (9, 1), (1, 2))) == "aaba"


def test_a_lasting_change_needs_less_than_a_single_one() -> None:
    assert chosen(series((1, 2), (1, 2), (1, 0.9))) == "aaa"
    assert chosen(series((1, 2), (1, 2), (1, 0.9), (1, 0.9), (1, 0.9), (1, 0.9))) == "aabbbb"


def test_a_backend_that_was_not_measured_loses_its_row() -> None:
    points = [Point(1, {"a": 1.0, "b": 2.0}), Point(2, {"b": 9.0})]
    assert chosen(points) in ("ab", "bb")
    assert chosen([Point(1, {"b": 2.0})]) == "b"
    assert winners([], []) == []


def test_sizes_beyond_the_last_measured_keep_the_default() -> None:
    shipped = default((0, 1000, "a"), (1000, None, "b"))
    points = [Point(4, {"a": 1.0, "b": 2.0, "c": 0.5})]
    rows = choose_rows("add", "f32", points, shipped, 8)
    assert spans(rows) == [(0, 8, "c"), (8, 1000, "a"), (1000, None, "b")]
    assert [row.comment == NOT_MEASURED for row in rows] == [False, True, True]


def test_the_last_row_runs_into_the_default() -> None:
    shipped = default((0, 1000, "a"), (1000, None, "b"))
    rows = choose_rows("add", "f32", [Point(4, {"a": 1.0})], shipped, 8)
    assert spans(rows) == [(0, 1000, "a"), (1000, None, "b")]
    assert rows[0].comment == "us at 4: a 1; not measured from 8 on"


times = st.dictionaries(st.sampled_from("abc"), st.floats(0.01, 1e6), min_size=1)
sweeps = st.dictionaries(st.integers(0, 22), times, min_size=1)


@settings(max_examples=100, deadline=None)
@given(sweeps, st.booleans())
def test_rows_tile_every_size_and_obey_the_medians(
    measured: dict[int, dict[str, float]], reached: bool
) -> None:
    points = [Point(1 << power, measured[power]) for power in sorted(measured)]
    shipped = default((0, 100, "a"), (100, 5000, "b"), (5000, None, "a"))
    rows = choose_rows("add", "f32", points, shipped, None if reached else 2 * points[-1].size)
    check_rows(rows, "made up")
    assert all(one.backend_id != two.backend_id for one, two in pairwise(rows))
    for point in points:
        (row,) = [r for r in rows if r.low <= point.size and (r.high or 1 << 62) > point.size]
        assert row.backend_id in point.times
        worst = 2 * CHANGE + 2 * MARGIN + 1e-9  # more would have been worth two changes
        assert math.log(point.times[row.backend_id] / min(point.times.values())) <= worst


def ledger() -> Ledger:
    rng = np.random.default_rng(0)
    made = Ledger()
    for scope in scopes_of({"add": ("f32", "f64"), "matmul": ("i32",), "one_hot": ("i64",)}):
        for size in scope.sizes[::5]:
            found = {
                name: Outcome(State.MEASURED, float(rng.uniform(1, 9)))
                for name in ("cpu_fallback", "cpu_fused")
            }
            made.note(Cell(scope.op, scope.dtype, size), found)
    return made


SCOPES = scopes_of({"add": ("f32", "f64"), "matmul": ("i32",), "one_hot": ("i64",)})


def test_a_whole_profile_names_every_op() -> None:
    rows = profile_rows(ledger(), SCOPES, default_profile())
    check_rows(rows, "made up")
    assert {row.op for row in rows} == set(work_ops())
    untouched = [row for row in rows if row.op == "tanh"]
    assert [(r.dtype, r.comment) for r in untouched] == [(None, NOT_MEASURED)]
    assert {row.dtype for row in rows if row.op == "add"} == {None, "f32", "f64"}
    narrow = [row for row in rows if (row.op, row.dtype) == ("matmul", "i64")]
    assert [row.comment for row in narrow] == [NOT_MEASURED]
    assert all("us at" in r.comment for r in rows if (r.op, r.dtype) == ("matmul", "i32"))


def test_nothing_measured_is_the_default() -> None:
    rows = profile_rows(Ledger(), SCOPES, default_profile())
    shipped = default_profile()
    assert all(row.comment == NOT_MEASURED for row in rows)
    profile = Profile("x", {"soft_version": "0.1.0"}, FACTS, tuple(rows))
    for op in work_ops():
        for dtype in ("f32", "i32"):
            for size in (1, 1 << 14, 1 << 30):
                ours, theirs = profile.lookup(op, dtype, size), shipped.lookup(op, dtype, size)
                assert ours is not None and theirs is not None
                assert ours.backend_id == theirs.backend_id


def test_the_same_medians_give_the_same_bytes() -> None:
    texts = {
        render(
            Profile(
                "CONFIG.soft",
                {"soft_version": "0.1.0"},
                FACTS,
                tuple(profile_rows(ledger(), SCOPES, default_profile())),
            )
        )
        for _ in range(2)
    }
    assert len(texts) == 1


@pytest.mark.parametrize("time_us", [0.123456, 12.3456, 99.96, 1234.56])
def test_medians_are_short(time_us: float) -> None:
    (row,) = choose_rows("add", "f32", [Point(1, {"a": time_us})], A_ALONE)
    assert len(row.comment) <= len("us at 1: a 0.123")
