"""Chains that are too wide for one kernel: cut so that parts fit, where it costs least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
from op_cases import fast_profile

import softcuda as sc
from softcuda.compiler import split
from softcuda.compiler.split import MAX_CHAIN, MAX_OPERANDS, cheapest_cuts
from softcuda.dtype import DType, bf16, f32, f64
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast


def random_lines(rng: np.random.Generator, leaves: int, count: int) -> list[Line]:
    """Return leaves, then a chain of additions and casts of which every value is read."""
    dtypes = (bf16, f32, f64)
    made = [Line(OPS["none"], (), (8,), dtypes[rng.integers(3)], ()) for _ in range(leaves)]
    unread = [int(rng.integers(leaves))]
    for _ in range(count):
        first, second = unread.pop(0), int(rng.integers(max(len(made) - 4, 0), len(made)))
        dtype = dtypes[rng.integers(3)]
        op, inputs = (
            (OPS["add"], (first, second)) if rng.random() < 0.7 else (OPS["cast"], (first,))
        )
        unread.append(len(made))
        made.append(Line(op, inputs, (8,), dtype, Cast(dtype) if op.name == "cast" else ()))
    return made


def cost(lines: Sequence[Line], members: Sequence[int], cuts: Sequence[int]) -> int:
    """Return the bytes an element of what goes over the cuts."""
    total = 0
    for cut in cuts:
        before, behind = set(members[:cut]), members[cut:]
        read_behind = {source for number in behind for source in lines[number].inputs}
        read_before = {source for number in before for source in lines[number].inputs}
        total += sum(2 * lines[k].dtype.itemsize for k in read_behind & before)
        shared = (read_behind & read_before) - set(members)
        total += sum(lines[k].dtype.itemsize for k in shared)
    return total


def parts(members: Sequence[int], cuts: Sequence[int]) -> Iterator[Sequence[int]]:
    for start, stop in zip((0, *cuts), (*cuts, len(members)), strict=True):
        yield members[start:stop]


def fits(lines: Sequence[Line], part: Sequence[int], chain: int, operands: int) -> bool:
    reads = {source for number in part for source in lines[number].inputs} - set(part)
    return len(part) == 1 or (len(part) <= chain and len(reads) <= operands)


@pytest.mark.parametrize("seed", range(40))
def test_no_other_cuts_cost_less(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "MAX_CHAIN", 4)
    monkeypatch.setattr(split, "MAX_OPERANDS", 3)
    rng = np.random.default_rng(seed)
    lines = random_lines(rng, 5, int(rng.integers(2, 11)))
    members = range(5, len(lines))
    found = cheapest_cuts(lines, members)
    assert all(fits(lines, part, 4, 3) for part in parts(members, found))
    places = range(1, len(members))
    every = [cuts for n in range(len(members)) for cuts in combinations(places, n)]
    possible = [c for c in every if all(fits(lines, p, 4, 3) for p in parts(members, c))]
    assert cost(lines, members, found) == min(cost(lines, members, cuts) for cuts in possible)


@pytest.mark.parametrize(("dtype", "is_cut"), [(f32, False), (f64, True)], ids=str)
def test_many_values_alive_at_once_are_too_wide(dtype: DType, is_cut: bool) -> None:
    """Eighty values that are all read twice."""
    lines = [Line(OPS["none"], (), (8,), dtype, ())]
    lines += [Line(OPS["exp"], (0,), (8,), dtype, ()) for _ in range(80)]
    lines += [Line(OPS["add"], (1, 2), (8,), dtype, ())]
    lines += [Line(OPS["add"], (78 + k, k), (8,), dtype, ()) for k in range(3, 81)]
    lines += [Line(OPS["add"], (159 + k, k), (8,), dtype, ()) for k in range(1, 81)]
    assert bool(cheapest_cuts(lines, range(1, len(lines)))) == is_cut


def test_a_sum_of_many_operands_is_cut_where_it_is_narrow() -> None:
    xs = [sc.input((1000,), f32, f"x{k}", device="cuda") for k in range(80)]
    total = xs[0]
    for x in xs[1:40]:
        total = total * x
    total = sc.cast(sc.cast(total, bf16), f32)
    for x in xs[40:]:
        total = total + x
    first, second = sc.compile(total, fast_profile(), target="sm_90a").program.steps
    assert first.outputs[0].dtype is bf16 and len(first.inputs) == 40
    assert len(second.inputs) == 41


def test_long_chains_are_cut_into_parts_that_fit() -> None:
    x = sc.input((1000,), f32, "x", device="cuda")
    y = x
    for k in range(3 * MAX_CHAIN):
        y = sc.exp(y) if k % 3 else y * x
    steps = sc.compile(y, fast_profile(), target="sm_90a").program.steps
    assert all(len(step.lines) <= MAX_CHAIN for step in steps)
    assert all(len(step.inputs) <= MAX_OPERANDS for step in steps)
    assert sum(len(step.lines) for step in steps) == 3 * MAX_CHAIN


@pytest.mark.parametrize(("count", "families"), [(12, 1), (13, 2), (32, 2), (80, 3)])
def test_a_chain_before_a_reduction_reads_what_its_kernel_holds(count: int, families: int) -> None:
    leaves = [sc.input((64, 64), f32, device="cuda") for _ in range(count)]
    total = leaves[0]
    for other in leaves[1:]:
        total = total + other
    program = sc.compile(sc.sum(total, axis=0), fast_profile(), target="sm_90a").program
    found = [step.launches[0].spec.family for step in program.steps]
    assert len(found) == families
    assert found[-1] == "reduce_columns"
    assert set(found[:-1]) <= {"elementwise_dense"}
    assert len(program.steps[-1].inputs) <= 12


def test_a_chain_before_a_reduction_is_cut_where_that_costs_least() -> None:
    leaves = [sc.input((64, 64), f32, device="cuda") for _ in range(14)]
    total = leaves[0]
    for number, other in enumerate(leaves[1:]):
        total = sc.cast(sc.cast(total * other, bf16), f32) if number == 8 else total * other
    program = sc.compile(sc.sum(total, axis=1), fast_profile(), target="sm_90a").program
    first, last = program.steps
    assert first.outputs[0].dtype is bf16
    assert len(last.inputs) == 5
