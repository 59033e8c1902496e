"""The pass `place`: policies, what the decision table says, graphs that mix two devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.program import Program
from softcuda.compiler.settings import Settings
from softcuda.compiler.table import decision_table
from softcuda.graph.trace import trace
from softcuda.profile.model import (
    CostPoint,
    DeviceFacts,
    PoolSettings,
    Profile,
    Row,
    Transfer,
)
from softcuda.profile.resolve import default_profile
from softcuda.target import CPU, Target

CUDA = Target("cuda", "sm_90a", 132, 227, 60)
# op -> (microseconds on the CPU, on the device) at sizes 1 and 2^20; matmul at 1 and 1024.
COSTS: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "neg": ((1, 6), (300, 8)),
    "add": ((1, 6), (300, 8)),
    "exp": ((1, 6), (900, 8)),
    "matmul": ((1, 6), (4000, 60)),
    "sum": ((2, 6), (100, 9)),
    "softmax": ((4, 8), (900, 12)),
}
COPIES = (Transfer("h2d", 8.0, 20.0), Transfer("d2h", 9.0, 20.0))


def profile(
    policy: str = "min_cut", copies: tuple[Transfer, ...] = COPIES, on: str = "cpu_fallback"
) -> Profile:
    rows = tuple(Row(op, None, 0, None, on, line) for line, op in enumerate(COSTS, start=10))
    costs = []
    for op, (small, large) in COSTS.items():
        for size, (cpu, cuda) in ((1, small), (1024 if op == "matmul" else 1 << 20, large)):
            costs.append(CostPoint(op, None, size, (("cpu", cpu), ("cuda", cuda))))
    meta = {"soft_version": "0.1.0"}
    facts = DeviceFacts("cuda", compute_capability="9.0")
    return Profile(
        "CUT.soft", meta, facts, rows, (), tuple(costs), copies, policy, PoolSettings("cpu")
    )


def program(outputs: Any, by: Profile, target: Target = CUDA, *, strict: bool = False) -> Program:
    traced = trace(outputs if isinstance(outputs, list) else [outputs])
    return compile_graph(traced.graph, Settings(by, default_profile(), target, strict))


def devices(made: Program) -> dict[str, set[str]]:
    """Return op -> the devices its lines run on."""
    found: dict[str, set[str]] = {}
    for line, choice in zip(made.graph.lines, made.choices, strict=True):
        if choice.backend_id not in ("leaf", "view", "transfer"):
            found.setdefault(line.op.name, set()).add(choice.backend_id.split("_")[0])
    return found


def host(*dims: int) -> Any:
    return sc.input(dims, name=None)


def test_large_work_moves_and_small_work_stays() -> None:
    large, small = host(1024, 1024), host(4)
    made = program([large @ large @ large, -small], profile())
    assert devices(made) == {"matmul": {"cuda"}, "neg": {"cpu"}}
    kinds = [step.kernel for step in made.steps if step.backend_id == "transfer"]
    assert sorted(kinds) == ["d2h", "h2d"]  # each tensor once


def test_one_elementwise_pass_is_not_worth_two_copies() -> None:
    x = host(1024, 1024)
    assert devices(program(-x, profile())) == {"neg": {"cpu"}}
    chain = x
    for _ in range(4):
        chain = sc.exp(chain)
    assert devices(program(chain, profile())) == {"exp": {"cuda"}}


def test_the_table_says_costs_copies_and_totals() -> None:
    x = host(1024, 1024)
    text = decision_table(program(sc.exp(-(x @ x)), profile()))
    assert "CUT.soft:13" in text
    assert "min_cut: cpu 4000.0 us, cuda 60.0 us" in text
    assert "moved from cpu_fallback" in text
    assert "avoids copies of " in text
    (footer,) = [line for line in text.splitlines() if line.startswith("policy min_cut: the cut")]
    for part in ("all-cpu", "all-cuda", "taken: "):
        assert part in footer


def test_the_taken_total_is_the_least() -> None:
    a, b = host(1024, 1024), host(16)
    for outputs in ([a @ a], [-b], [sc.exp(a), b + b], [sc.sum(a @ a), -b]):
        footer = program(outputs, profile()).footer[0]
        words = footer.split(" modelled")[0].removeprefix("policy min_cut: ").split(", ")
        totals = {name: float(us) for name, us, _ in (word.rsplit(" ", 2) for word in words)}
        taken = footer.rsplit("taken: ", 1)[1]
        assert totals[taken] == min(totals.values())


def test_table_obeys_the_rows() -> None:
    x = host(1024, 1024)
    made = program(x @ x, profile("table"))
    assert devices(made) == {"matmul": {"cpu"}}
    assert not any("min_cut" in line for line in made.footer)


@pytest.mark.parametrize(
    ("by", "target", "said"),
    [
        (profile(), CPU, "there is no CUDA device"),
        (profile(copies=()), CUDA, "CUT.soft lacks [costs] or [transfer]"),
    ],
)
def test_without_what_it_needs_the_rows_are_obeyed(by: Profile, target: Target, said: str) -> None:
    made = program(-host(4), by, target)
    assert said in made.footer[0]
    assert devices(made) == {"neg": {"cpu"}}


def test_an_op_without_costs_stays() -> None:
    x = host(1024, 1024)
    made = program(sc.tanh(x @ x @ x), profile())
    assert devices(made) == {"matmul": {"cuda"}, "tanh": {"cpu"}}
    assert "[costs] has no point for tanh on cpu, tanh on cuda" in made.footer[1]


def test_views_and_numbers_cost_nothing() -> None:
    x = host(1024, 1024)
    y = sc.permute_dims(x, (1, 0)) @ (x + 1)
    assert devices(program(y @ y, profile())) == {"matmul": {"cuda"}, "add": {"cuda"}}


def test_rows_of_the_device_can_move_to_the_cpu() -> None:
    made = program(-host(4), profile(on="cuda_naive"))
    assert devices(made) == {"neg": {"cpu"}}
    assert any("moved from cuda_naive" in choice.note for choice in made.choices)


def test_an_update_ends_where_its_variable_is() -> None:
    weight = sc.variable(np.zeros((1024, 1024), np.float32), "weight")
    traced = trace([], {weight: weight @ weight @ weight})
    made = compile_graph(traced.graph, Settings(profile(), default_profile(), CUDA))
    assert devices(made)["matmul"] == {"cuda"}
    assert [s.kernel for s in made.steps if s.backend_id == "transfer"][-1] == "d2h"


def test_values_do_not_depend_on_the_policy() -> None:
    x = sc.tensor(np.arange(8, dtype=np.float32))
    results = [
        sc.compile(-(x + x), profile(policy), target="cpu").run().numpy()
        for policy in ("table", "min_cut")
    ]
    np.testing.assert_array_equal(*results)


def test_strict_moves_a_node_only_to_a_backend_that_a_row_names() -> None:
    x = host(1024, 1024)
    stays = program(x @ x @ x, profile(), strict=True)
    assert devices(stays) == {"matmul": {"cpu"}}
    assert "strict=True, and no row names a backend that takes matmul on cuda" in stays.footer[1]
    rows = [row for row in profile().rows if row.op != "matmul"]
    rows += [
        Row("matmul", None, 0, 2048, "cpu_fallback", 20),
        Row("matmul", None, 2048, None, "cuda_naive", 21),
    ]
    moves = program(x @ x @ x, replace(profile(), rows=tuple(rows)), strict=True)
    named = {c.backend_id for c in moves.choices if c.backend_id.startswith("c")}
    assert named == {"cuda_naive"}
    assert len(moves.footer) == 1


def test_strict_takes_no_row_of_the_default_profile() -> None:
    made = program(-host(4), profile(on="cuda_naive"), strict=True)
    assert devices(made) == {"neg": {"cuda"}}
    assert "takes neg on cpu" in made.footer[1]
