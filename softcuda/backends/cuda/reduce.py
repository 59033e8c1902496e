"""Launches of reductions with the elementwise ops around them.

The innermost axis decides the kernel: rows where it is reduced, columns where it is kept. Where
results are too few to fill the device, blocks share the reduced axes and a second launch joins
what they found, in an order that depends on nothing but the extents and the target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from softcuda.backends.cuda.emitter import reports
from softcuda.backends.cuda.reduce_problem import (
    Before,
    Problem,
    finished_apart,
    prepared_apart,
    problem_of,
)
from softcuda.backends.cuda.reduce_shapes import (
    REDUCE_THREADS,
    Plan,
    Varying,
    parts_spec,
    parts_team,
    plan_columns,
    plan_rows,
    reduce_spec,
    reduce_tile,
)
from softcuda.backends.cuda.spaces import Axis, Loops, Shared, loops_of, pack_space
from softcuda.backends.cuda.states import pack_options
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, scratch, status
from softcuda.backends.steps import Step, Unit
from softcuda.graph.params import Dims
from softcuda.graph.shapes import numel
from softcuda.target import Target

__all__ = ["reduce_steps"]

_PARAMETER_BYTES: Final = 4096
_RANKS: Final = (8, 4, 64)  # 4 leaves room for more operands
_MAX_BLOCKS: Final = 2**30
_ALIGNMENT: Final = 256


def reduce_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a unit whose anchor is a reduction."""
    launches: tuple[KernelLaunch, ...] = ()
    scratch_bytes = 0
    if numel(unit.result.dims):
        launches, scratch_bytes = _planned(unit, target)
    return (
        Step(
            backend_id,
            _shown(launches),
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            scratch_bytes=scratch_bytes,
            lines=unit.lines,
            launches=launches,
        ),
    )


def _shown(launches: tuple[KernelLaunch, ...]) -> str:
    """Return the kernel that tables show: the one that reads the elements."""
    for launch in launches:
        if launch.spec.file == "reduce.cu":
            return launch.spec.id
    return "nothing"


def _planned(unit: Unit, target: Target) -> tuple[tuple[KernelLaunch, ...], int]:
    """Return the launches of a unit and its scratch [bytes].

    Where the strides are more than a kernel takes, the prologue, and then the epilogue, is a
    launch of its own.
    """
    before = Before(problem_of(unit), (), 0)
    after: tuple[KernelLaunch, ...] = ()
    made = _launched(before, target)
    if made is None:
        before = prepared_apart(unit, before.problem)
        made = _launched(before, target)
    if made is None:
        before, after = finished_apart(unit, before)
        made = _launched(before, target)
    if made is None:
        raise AssertionError("the axes of one operand always fit a kernel's parameters")
    launches, scratch_bytes = made
    return (*before.launches, *launches, *after), scratch_bytes


def _launched(before: Before, target: Target) -> tuple[tuple[KernelLaunch, ...], int] | None:
    """Return the launches of a reduction; None where its strides are more than a kernel takes."""
    problem = before.problem
    measure = problem.measure
    sets = [problem.out, *problem.extras, *problem.sources]
    results = 1 + len(problem.extras)
    strides = [window.strides for window in sets]
    if measure.is_placed:
        strides.append(_places(problem.dims, problem.anchor.params.axes))
    loops = loops_of(problem.dims, problem.anchor.params.axes, results, strides)
    varying = [k for k, source in enumerate(problem.sources) if any(source.strides)]
    tile = reduce_tile(measure, [source.dtype for source in problem.sources], len(varying))
    shape = Varying(tuple(results + k for k in varying))
    if loops.is_rows:
        plan = plan_rows(loops, measure, tile, shape, target)
    else:
        plan = plan_columns(loops, tile, shape, target)
    parts = scratch(before.scratch_bytes) if plan.parts > 1 else i64(0)
    main = _main_launch(problem, loops, plan, parts)
    if main is None:
        return None
    if plan.parts == 1:
        return (main,), before.scratch_bytes
    joined = _parts_launch(problem, loops, plan, parts, target)
    if joined is None:
        return None
    used = plan.parts * loops.results * measure.nbytes
    return (main, joined), before.scratch_bytes + -(-used // _ALIGNMENT) * _ALIGNMENT


def _main_launch(
    problem: Problem, loops: Loops, plan: Plan, parts: Argument
) -> KernelLaunch | None:
    """Return the launch that reads the elements."""
    measure = problem.measure
    across, tiled = plan.team * plan.tile.width, loops
    outputs = loops.outer_kept
    if not loops.is_rows:
        tiles = -(-loops.inner.extent // across)
        steps = tuple(step * across for step in loops.inner.strides)
        tiled = replace(loops, kept=(*loops.kept, Axis(tiles, steps)))
        outputs *= tiles
    shared = Shared(
        outputs,
        loops.results,
        plan.team.bit_length() - 1,
        plan.is_even,
        plan.is_beside_even,
        plan.split,
    )
    each = 1
    if loops.is_rows:
        each = REDUCE_THREADS // plan.team * (plan.tile.loads if "short" in plan.family else 1)
    blocks = min(-(-outputs // each), _MAX_BLOCKS)
    told = _told(problem)
    pointers = [window.pointer for window in (*problem.sources, *problem.extras)]
    places = [] if "short" in plan.family else [parts]
    for rank in _RANKS:
        if rank < len(tiled.kept) + len(tiled.rest):
            continue
        space = packed(pack_space(pack_options(measure), tiled, shared, rank))
        arguments = (problem.out.pointer, *places, space, told, *pointers)
        if _fits(arguments):
            spec = reduce_spec(
                measure, problem.prologue, problem.epilogue, plan.family, plan.tile, rank
            )
            grid = (blocks, plan.parts, 1)
            return KernelLaunch(spec, grid, arguments, (REDUCE_THREADS, 1, 1))
    return None


def _parts_launch(
    problem: Problem, loops: Loops, plan: Plan, parts: Argument, target: Target
) -> KernelLaunch | None:
    """Return the launch that joins the parts of every result."""
    measure = problem.measure
    results = 1 + len(problem.extras)

    def cut(axis: Axis) -> Axis:
        return Axis(axis.extent, axis.strides[:results])

    none = (0,) * results
    joined = Loops(
        tuple(map(cut, loops.kept_axes)), (), Axis(1, none), Axis(plan.parts, none), True
    )
    team = parts_team(plan.parts, loops.results, target)
    shared = Shared(loops.results, loops.results, team.bit_length() - 1, False, False, 0)
    blocks = min(-(-loops.results // (REDUCE_THREADS // team)), _MAX_BLOCKS)
    pointers = [window.pointer for window in problem.extras]
    for rank in _RANKS:
        if rank < len(joined.kept):
            continue
        space = packed(pack_space(pack_options(measure), joined, shared, rank))
        arguments = (problem.out.pointer, parts, space, _told(problem), *pointers)
        if _fits(arguments):
            spec = parts_spec(measure, problem.epilogue, rank)
            return KernelLaunch(spec, (blocks, 1, 1), arguments, (REDUCE_THREADS, 1, 1))
    return None


def _told(problem: Problem) -> Argument:
    chains = (*problem.prologue.chain, *problem.epilogue.chain)
    return status() if reports(chains) else i64(0)


def _places(dims: Dims, axes: Dims) -> Dims:
    """Return strides that number the elements of the reduced axes row by row."""
    strides, step = [0] * len(dims), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= dims[axis]
    return tuple(strides)


def _fits(arguments: tuple[Argument, ...]) -> bool:
    """Return whether parameters are few enough; each is at most 8-byte aligned."""
    nbytes = sum(len(a.value) + 8 if isinstance(a.value, bytes) else 8 for a in arguments)
    return nbytes <= _PARAMETER_BYTES
