"""What is tried for a case of the sweep of reductions and rows; first what the rules choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from benchmarks.sweeps.reduce_cases import Case
from softcuda.backends.cuda.planned import Launches
from softcuda.backends.cuda.reduce import Reduction, reduction_launches, reduction_of
from softcuda.backends.cuda.reduce_plans import Plan
from softcuda.backends.cuda.reduce_problem import problem_of
from softcuda.backends.cuda.reduce_shapes import REDUCE_THREADS, is_light, power_above
from softcuda.backends.cuda.rows import HeldTile, RowPlan, Rows, plan_row, row_launch, rows_of
from softcuda.backends.cuda.scan import scan_steps
from softcuda.backends.cuda.spaces import SPLIT_BESIDE, Loops
from softcuda.target import Target

__all__ = ["SCRATCH_BYTES", "Made", "candidates"]

_TEAMS: Final = (8, 16, 32, 64, 128, 256)
_MAX_PARTS: Final = 65535  # blocks along y
_WAVES: Final = (1, 2, 4, 8, 32)  # blocks of a parted grid, in those that the device holds
# Loads in flight of a thread and blocks of a multiprocessor.
_ROWS: Final = ((8, 3), (8, 2), (8, 4), (4, 4), (4, 6), (16, 2))
_SHORT: Final = ((8, 3), (8, 2), (8, 4), (4, 4), (4, 6), (4, 8), (16, 2))
_COLUMNS: Final = ((8, 2), (8, 3), (4, 4), (4, 6), (16, 2))
SCRATCH_BYTES: Final = 1 << 26  # more is not tried: reading parts would take too long
_HELD: Final = tuple(
    HeldTile(vectors, threads, resident // threads)
    for vectors in (1, 2, 4, 8)
    for threads in (128, 256, 512, 1024)
    for resident in (512, 768, 1024, 1280, 1536, 2048)
    if resident >= threads and resident % threads == 0
)


class Made(NamedTuple):
    """One way to compute a case: its name, its launches, and the scratch they share [bytes]."""

    name: str
    launches: Launches
    scratch_bytes: int = 0


def candidates(case: Case, target: Target) -> Iterator[Made]:
    """Yield what is tried for a case; first what the rules choose."""
    micro = case.unit.chain[-1]
    if micro.op.name == "cumsum":
        (step,) = scan_steps("cuda_reduce", case.unit, target)
        yield Made(step.kernel, step.launches, step.scratch_bytes)
    elif micro.op.name in ("softmax", "layer_norm"):
        yield from _rows(rows_of(case.unit), target)
    else:
        yield from _reductions(reduction_of(problem_of(case.unit), target), target)


def _rows(rows: Rows, target: Target) -> Iterator[Made]:
    def made(plan: RowPlan) -> Made:
        tile = "any" if plan.tile is None else "x".join(map(str, plan.tile))
        return Made(f"{tile} team {plan.team}", (row_launch(rows, plan),))

    yield made(plan_row(rows, target))
    width = 16 // rows.dtype.itemsize
    for tile in _HELD:
        registers = 65536 // (tile.threads * tile.blocks)
        elements = tile.vectors * width
        team = power_above(-(-rows.inner.numel // elements))
        if team <= tile.threads and elements <= 32 and elements + 16 <= registers:
            yield made(RowPlan(tile, team))


def _reductions(found: Reduction, target: Target) -> Iterator[Made]:
    tried = {found.plan: None}
    if found.loops.is_rows:
        tried |= dict.fromkeys(_short(found.plan, found.loops))
        tried |= dict.fromkeys(_even(found, target))
    else:
        tried |= dict.fromkeys(_columns(found.plan, found.loops, target))
    for plan in tried:
        launches = reduction_launches(found, plan)
        if launches is None:
            raise AssertionError(f"{plan} does not fit a kernel's parameters")
        tile = "x".join(map(str, plan.tile))
        made = Made(f"{plan.family} {tile} team {plan.team} parts {plan.parts}", *launches)
        if made.scratch_bytes <= SCRATCH_BYTES:
            yield made


def _tiled(plan: Plan, loads: int, blocks: int) -> Plan:
    group = max(min(plan.tile.group, loads), 1)
    return replace(plan, tile=plan.tile._replace(loads=loads, group=group, blocks=blocks))


def _short(rule: Plan, loops: Loops) -> Iterator[Plan]:
    if rule.family == "reduce_short_rows":
        for rows, blocks in _SHORT:
            yield _tiled(rule, rows, blocks)


def _even(found: Reduction, target: Target) -> Iterator[Plan]:
    """Yield other teams, tiles and parts of rows that are vectors from end to end."""
    loops, rule = found.loops, found.plan
    vectors = loops.inner.extent // rule.tile.width
    by_chunk = rule.by_chunk or rule.family == "reduce_short_rows"
    plain = replace(rule, family="reduce_even_rows", parts=1, each=0, by_chunk=by_chunk)
    if rule.family == "reduce_short_rows":
        plain = replace(plain, tile=plain.tile._replace(group=4))
    elif not is_light(found.problem.measure):
        yield from _even_tiles(replace(plain, tile=plain.tile._replace(group=8)), found, target)
    if rule.family == "reduce_rows":
        return
    for team in _TEAMS if by_chunk else (power_above(vectors),):
        if team <= power_above(vectors):
            yield from _even_tiles(replace(plain, team=team), found, target)


def _even_tiles(plan: Plan, found: Reduction, target: Target) -> Iterator[Plan]:
    loops = found.loops
    vectors = loops.inner.extent // plan.tile.width
    count = -(-vectors // plan.team) if plan.by_chunk else loops.beside.extent
    blocks = -(-loops.results * plan.team // REDUCE_THREADS)
    for loads, resident in _ROWS:
        tiled = _tiled(plan, loads, resident)
        held = target.multiprocessors * resident
        if blocks >= held:
            yield replace(tiled, each=count)
            continue
        for each in {-(-count * blocks // (waves * held)) for waves in _WAVES} | {loads}:
            parts = -(-count // max(each, 1))
            if each and plan.team >= 32 and parts <= _MAX_PARTS:
                yield replace(tiled, parts=parts, each=each)


def _columns(rule: Plan, loops: Loops, target: Target) -> Iterator[Plan]:
    """Yield other widths, tiles and parts of columns."""
    vectors = -(-loops.inner.extent // rule.tile.width)
    for number, (loads, resident) in enumerate(_COLUMNS):
        held = target.multiprocessors * resident
        for team in (4, *_TEAMS):
            blocks = -(-vectors // team) * loops.outer_kept
            groups = -(-loops.beside.extent // (REDUCE_THREADS // team))
            if team > power_above(vectors):
                continue
            plan = replace(_tiled(rule, loads, resident), team=team, parts=1)
            if blocks * groups > 64:
                yield plan
            for waves in (1, 8) if number else _WAVES:
                parts = waves * held // blocks
                if 1 < parts <= groups:
                    each = -(-groups // parts)
                    yield replace(plan, parts=parts, split=SPLIT_BESIDE, each=each)
