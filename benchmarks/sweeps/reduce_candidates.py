"""What is tried for a case of the sweep of reductions and rows; first what the rules choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.sweeps.reduce_cases import Case
from softcuda.backends.cuda.planned import Launches
from softcuda.backends.cuda.reduce import Reduction, reduction_launches, reduction_of
from softcuda.backends.cuda.reduce_plans import Plan, dealt
from softcuda.backends.cuda.reduce_problem import problem_of
from softcuda.backends.cuda.reduce_shapes import REDUCE_THREADS, is_light, power_above
from softcuda.backends.cuda.row_tiles import FullTile, HeldTile
from softcuda.backends.cuda.rows import (
    RowPlan,
    Rows,
    fills,
    plan_row,
    row_launch,
    rows_of,
)
from softcuda.backends.cuda.scan import scan_steps
from softcuda.backends.cuda.spaces import Loops
from softcuda.nvrtc.unit import Header
from softcuda.paths import packaged_folder
from softcuda.target import Target

__all__ = ["SCRATCH_BYTES", "Made", "candidates"]

_TEAMS: Final = (8, 16, 32, 64, 128, 256)
_ROUNDS: Final = (1, 2, 4, 8, 16, 32, 64)  # batches of a part
# Loads in flight of a thread and blocks of a multiprocessor.
_ROWS: Final = ((8, 3), (8, 2), (8, 4), (4, 4), (4, 6), (16, 2))
_SHORT: Final = ((8, 3), (8, 2), (8, 4), (4, 4), (4, 6), (4, 8), (16, 2))
_COLUMNS: Final = ((8, 3), (8, 2), (4, 4), (4, 6), (16, 2))
# Other ways to load a vector: in which header which words are replaced.
_LOADS: Final = {
    "with 256 bytes": ("ptx.cuh", "cache_hint.v4", "cache_hint.L2::256B.v4"),
    "kept in L2": ("ptx.cuh", "L2::evict_first.b64", "L2::evict_normal.b64"),
    "streaming": ("packed.cuh", "sizeof(Raw) == 16 &&", "false &&"),
}
# Vectors of a thread, threads of a multiprocessor, rows of a team on their way.
_FULL: Final = (
    *((1, threads, ahead) for threads in (1536, 2048) for ahead in (0, 4)),
    *((2, threads, ahead) for threads in (1024, 1536) for ahead in (0, 2, 4)),
    *((4, threads, ahead) for threads in (512, 768, 1024) for ahead in (0, 2, 3)),
    *((8, threads, ahead) for threads in (512, 768) for ahead in (0, 1)),
)
_RING_BYTES: Final = 216 << 10  # of a multiprocessor
SCRATCH_BYTES: Final = 1 << 23  # more is not tried: reading parts would take too long
_HELD: Final = tuple(
    HeldTile(vectors, threads, resident // threads, is_ahead, threads)
    for vectors in (2, 4, 8)
    for threads in (256, 512)
    for resident in (512, 768, 1024, 1280, 1536)
    for is_ahead in (False, True)
    if resident % threads == 0
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
        launch = row_launch(rows, plan, target)
        return Made(f"{launch.spec.variant} team {plan.team}", (launch,))

    yield made(plan_row(rows, target))
    width = 16 // rows.dtype.itemsize
    for tile in _HELD:
        registers = 65536 // (tile.threads * tile.blocks)
        elements = tile.vectors * width
        words = elements + (16 + tile.vectors * 4 if tile.is_ahead else 16)
        team = power_above(-(-rows.inner.numel // elements))
        fits = elements <= 32 and words <= registers
        if fits and team <= tile.threads and (team > 32 or tile.threads == 256):
            yield made(RowPlan(tile, team))
    yield from (made(RowPlan(tile, tile.team)) for tile in _full_tiles(rows, width))


def _full_tiles(rows: Rows, width: int) -> Iterator[FullTile]:
    """Yield tiles that a row fills: `width` elements are a vector."""
    for vectors, resident, ahead in _FULL:
        team = rows.inner.numel // (vectors * width)
        threads = max(team, 256)
        if not 4 <= team <= 512 or vectors * width > 32 or team & (team - 1):
            continue
        for is_first in (True, False)[: 1 if ahead else 2]:
            tile = FullTile(vectors, team, threads, resident // threads, ahead, is_first)
            if fills(rows, tile) and tile.blocks * tile.ring_bytes <= _RING_BYTES:
                yield tile


def _reductions(found: Reduction, target: Target) -> Iterator[Made]:
    tried = {found.plan: None}
    if found.loops.is_rows:
        tried |= dict.fromkeys(_short(found.plan, found.loops))
        tried |= dict.fromkeys(_even(found, target))
    else:
        tried |= dict.fromkeys(_columns(found.plan, found.loops, target))
    for number, plan in enumerate(tried):
        launches = reduction_launches(found, plan)
        if launches is None:
            raise AssertionError(f"{plan} does not fit a kernel's parameters")
        tile = "x".join(map(str, plan.tile))
        shares = f"parts {plan.parts} by {plan.each}" if plan.parts > 1 else "whole"
        made = Made(f"{plan.family} {tile} team {plan.team} {shares}", *launches)
        if made.scratch_bytes > SCRATCH_BYTES:
            continue
        yield made
        if number == 0:
            for how in _LOADS:
                yield _loading(made, how)


def _loading(made: Made, how: str) -> Made:
    """Return a candidate whose kernels load vectors in another way."""
    header, words, others = _LOADS[how]
    text = (Path(packaged_folder("kernels")) / header).read_text(encoding="utf-8")
    if words not in text:
        raise AssertionError(f"{header} has no {words!r} that could be replaced")
    changed = Header(header, text.replace(words, others))
    launches = tuple(
        replace(one, spec=replace(one.spec, headers=(*one.spec.headers, changed)))
        for one in made.launches
    )
    return made._replace(name=f"{made.name}, {how}", launches=launches)


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
    if rule.family == "reduce_rows":
        return
    vectors = loops.inner.extent // rule.tile.width
    by_chunk = rule.by_chunk or rule.family == "reduce_short_rows"
    plain = replace(
        rule, family="reduce_even_rows", parts=1, each=0, turn=1, longs=1, by_chunk=by_chunk
    )
    if rule.family == "reduce_short_rows":
        plain = replace(plain, tile=plain.tile._replace(group=4))
    elif not is_light(found.problem.measure):
        yield from _even_tiles(replace(plain, tile=plain.tile._replace(group=8)), found, target)
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
        if blocks >= target.multiprocessors * resident:
            yield tiled
        elif plan.team >= 128:
            yield from _dealt(tiled, -(-count // loads), blocks, target)


def _columns(rule: Plan, loops: Loops, target: Target) -> Iterator[Plan]:
    """Yield other widths, tiles and parts of columns."""
    vectors = -(-loops.inner.extent // rule.tile.width)
    for loads, resident in _COLUMNS:
        for team in (4, *_TEAMS):
            if team > power_above(vectors):
                continue
            blocks = -(-vectors // team) * loops.outer_kept
            groups = -(-loops.beside.extent // (REDUCE_THREADS // team))
            tiled = _tiled(rule, loads, resident)
            plan = replace(tiled, team=team, parts=1, turn=1, longs=1, each=0)
            if blocks >= target.multiprocessors * resident // 4:
                yield plan
            yield from _dealt(plan, -(-groups // loads), blocks, target)


def _dealt(plan: Plan, batches: int, blocks: int, target: Target) -> Iterator[Plan]:
    """Yield plans whose batches are dealt in rounds that leave every multiprocessor blocks."""
    lanes = target.multiprocessors
    for rounds in _ROUNDS:
        parts = dealt(plan, batches, blocks, lanes, rounds)
        if parts.parts > 1 and 2 * lanes <= parts.parts * blocks <= 80 * lanes * plan.tile.blocks:
            yield parts
