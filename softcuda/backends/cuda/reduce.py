"""Launches of reductions with the elementwise ops around them.

The innermost axis decides the kernel: rows where it is reduced, columns where it is kept. Where
results are too few to fill the device, blocks share the reduced axes and a second launch joins
what they found, in an order that depends on nothing but the extents and the target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from softcuda.backends.cuda.emitter import reports
from softcuda.backends.cuda.planned import Launches, aligned, one_step
from softcuda.backends.cuda.reduce_plans import Plan, Varying, planned
from softcuda.backends.cuda.reduce_problem import (
    Before,
    Problem,
    finished_apart,
    prepared_apart,
    problem_of,
)
from softcuda.backends.cuda.reduce_shapes import (
    REDUCE_THREADS,
    SPACE_RANKS,
    parts_across,
    parts_spec,
    reduce_spec,
    reduce_tile,
)
from softcuda.backends.cuda.spaces import Axis, Loops, Shared, loops_of, pack_space
from softcuda.backends.cuda.states import pack_options
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, scratch, status
from softcuda.backends.steps import Step, Unit
from softcuda.graph.params import Dims
from softcuda.target import Target

__all__ = ["Reduction", "reduce_steps", "reduction_launches", "reduction_of"]

_PARAMETER_BYTES: Final = 4096
_MAX_BLOCKS: Final = 2**30


def reduce_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a unit whose anchor is a reduction."""
    return one_step(backend_id, unit, lambda: _unit_launches(unit, target), _shown)


def _shown(launches: Launches) -> str:
    """Return the kernel that tables show: the one that reads the elements."""
    return next(launch.spec.id for launch in launches if launch.spec.file.startswith("reduce"))


def _unit_launches(unit: Unit, target: Target) -> tuple[Launches, int]:
    """Return the launches of a unit and its scratch [bytes].

    Where the strides are more than a kernel takes, the prologue, and then the epilogue, is a
    launch of its own.
    """
    before = Before(problem_of(unit), (), 0)
    after: Launches = ()
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


def _launched(before: Before, target: Target) -> tuple[Launches, int] | None:
    """Return the launches of a reduction; None where its strides are more than a kernel takes."""
    found = reduction_of(before.problem, target)
    return reduction_launches(found, found.plan, before.scratch_bytes)


class Reduction(NamedTuple):
    """A problem, its loops, and the plan that the rules choose for it."""

    problem: Problem
    loops: Loops
    plan: Plan


def reduction_of(problem: Problem, target: Target) -> Reduction:
    """Return a problem with its loops, and how it is reduced."""
    measure = problem.measure
    sets = [problem.out, *problem.extras, *problem.sources]
    results = 1 + len(problem.extras)
    strides = [window.strides for window in sets]
    if measure.is_placed:
        strides.append(_places(problem.dims, problem.anchor.params.axes))
    loops = loops_of(problem.dims, problem.anchor.params.axes, results, strides)
    varying = [k for k, source in enumerate(problem.sources) if any(source.strides)]
    dtypes = [source.dtype for source in problem.sources]
    tile = reduce_tile(measure, dtypes, len(varying), problem.prologue.chain)
    shape = Varying(tuple(results + k for k in varying), not problem.prologue.chain)
    return Reduction(problem, loops, planned(loops, measure, tile, shape, target))


def reduction_launches(
    found: Reduction, plan: Plan, scratch_bytes: int = 0
) -> tuple[Launches, int] | None:
    """Return the launches of a reduction and the scratch that is used then [bytes].

    Args:
        found: the reduction.
        plan: how it is reduced.
        scratch_bytes: used before.

    Returns:
        None where the strides are more than a kernel takes.
    """
    problem, loops = found.problem, found.loops
    parts = scratch(scratch_bytes) if plan.parts > 1 else i64(0)
    main = _main_launch(problem, loops, plan, parts)
    if main is None:
        return None
    if plan.parts == 1:
        return (main,), scratch_bytes
    joined = _parts_launch(problem, loops, plan, parts)
    if joined is None:
        return None
    used = plan.parts * loops.results * problem.measure.nbytes
    return (main, joined), scratch_bytes + aligned(used)


def _main_launch(
    problem: Problem, loops: Loops, plan: Plan, parts: Argument
) -> KernelLaunch | None:
    """Return the launch that reads the elements."""
    measure = problem.measure
    tiled, outputs = loops, loops.outer_kept
    if plan.family == "reduce_columns":
        across = plan.team * plan.tile.width
        tiles = -(-loops.inner.extent // across)
        steps = tuple(step * across for step in loops.inner.strides)
        tiled = replace(loops, kept=(*loops.kept, Axis(tiles, steps)))
        outputs *= tiles
    elif plan.by_chunk:
        step = plan.team * plan.tile.width
        along = Axis(
            -(-loops.inner.extent // step), tuple(step * one for one in loops.inner.strides)
        )
        rest = (loops.beside, *loops.rest) if loops.beside.extent > 1 else loops.rest
        tiled = replace(loops, rest=rest, beside=along)
    shared = Shared(
        outputs,
        loops.results,
        plan.team.bit_length() - 1,
        plan.is_even,
        plan.is_beside_even,
        plan.split,
        plan.each,
        plan.by_chunk,
        plan.turn,
        plan.longs,
    )
    blocks = min(-(-outputs // plan.outputs), _MAX_BLOCKS)
    layers = -(-outputs // blocks) if plan.family == "reduce_columns" else 1
    told = _told(problem)
    pointers = [window.pointer for window in (*problem.sources, *problem.extras)]
    places = [] if plan.family == "reduce_short_rows" else [parts]
    for rank in SPACE_RANKS:
        if rank < len(tiled.kept) + len(tiled.rest):
            continue
        space = packed(pack_space(pack_options(measure), tiled, shared, rank))
        arguments = (problem.out.pointer, *places, space, told, *pointers)
        if _fits(arguments):
            spec = reduce_spec(
                measure, problem.prologue, problem.epilogue, plan.family, plan.tile, rank
            )
            grid = (blocks, plan.parts, layers)
            return KernelLaunch(spec, grid, arguments, (REDUCE_THREADS, 1, 1))
    return None


def _parts_launch(
    problem: Problem, loops: Loops, plan: Plan, parts: Argument
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
    across = parts_across(plan.parts, loops.results)
    shared = Shared(loops.results, loops.results, across.bit_length() - 1, False, False, 0)
    blocks = min(-(-loops.results // across), _MAX_BLOCKS)
    pointers = [window.pointer for window in problem.extras]
    for rank in SPACE_RANKS:
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
