"""A unit around a reduction as its kernels see it: what is read, over which strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from softcuda.backends.cuda.axes import broadcast_strides
from softcuda.backends.cuda.elementwise import chain_launches
from softcuda.backends.cuda.emitter import Part, split
from softcuda.backends.cuda.planned import aligned, redirected
from softcuda.backends.cuda.states import Measure, measure_of
from softcuda.backends.launches import Argument, KernelLaunch, read, scratch
from softcuda.backends.launches import write as write_output
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import DType, f64
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast, Dims
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["Before", "Problem", "Window", "finished_apart", "prepared_apart", "problem_of"]


@dataclass(frozen=True, slots=True)
class Window:
    """What a kernel reads or writes: a pointer, a dtype, strides over the reduction's input."""

    pointer: Argument
    dtype: DType
    strides: Dims


@dataclass(frozen=True, slots=True)
class Problem:
    """A reduction with the ops around it.

    Attributes:
        anchor: the reduction.
        dims: extents of what it reduces.
        prologue: makes the elements of `sources`.
        epilogue: makes the result of the reduction's value and `extras`.
        sources: what the prologue reads, in the order of its arguments.
        extras: what the epilogue reads behind the value; strides 0 along reduced axes.
        out: where the result goes; strides 0 along reduced axes.
    """

    anchor: Micro
    dims: Dims
    prologue: Part
    epilogue: Part
    sources: tuple[Window, ...]
    extras: tuple[Window, ...]
    out: Window

    @property
    def measure(self) -> Measure:
        """How the reduction is computed."""
        return _measured(self.anchor, self.dims, self.prologue.result)


@dataclass(frozen=True, slots=True)
class Before:
    """A problem after some of its unit was made launches of their own, and their scratch."""

    problem: Problem
    launches: tuple[KernelLaunch, ...]
    scratch_bytes: int


def problem_of(unit: Unit) -> Problem:
    """Return the problem of a unit whose anchor is a reduction."""
    parts = split(unit)
    prologue, anchor = parts.prologues[0], parts.anchor
    operands = unit.operands
    dims = prologue.chain[-1].dims if prologue.chain else operands[prologue.operands[0]].dims
    if _measured(anchor, dims, prologue.result).of_sizes:
        prologue = _with_sizes(prologue, dims)
    sources = [
        Window(read(k), operands[k].dtype, _over(operands[k], dims)) for k in prologue.operands
    ]
    extras = [
        Window(read(k), operands[k].dtype, _along(anchor, dims, _over(operands[k], anchor.dims)))
        for k in parts.epilogue.operands
    ]
    dense = _along(anchor, dims, contiguous_strides(anchor.dims))
    out = Window(write_output(), parts.epilogue.result, dense)
    return Problem(anchor, dims, prologue, parts.epilogue, tuple(sources), tuple(extras), out)


def prepared_apart(unit: Unit, problem: Problem) -> Before:
    """Return the problem with its prologue made an elementwise launch into scratch."""
    if not problem.prologue.chain:
        return Before(problem, (), 0)
    prologue, dims = problem.prologue, problem.dims
    operands = tuple(unit.operands[k] for k in prologue.operands)
    result = Operand(0, 0, dims, contiguous_strides(dims), prologue.result)
    launches, used = chain_launches(Unit(prologue.chain, operands, result, ()))
    pointers = [source.pointer for source in problem.sources]
    place = aligned(used)
    moved = redirected(launches, pointers, scratch(place))
    source = Window(scratch(place), prologue.result, result.strides)
    made = replace(problem, prologue=Part((), (0,), (prologue.result,)), sources=(source,))
    return Before(made, moved, aligned(place + numel(dims) * prologue.result.itemsize))


def finished_apart(unit: Unit, before: Before) -> tuple[Before, tuple[KernelLaunch, ...]]:
    """Return the problem with its epilogue made a launch behind it, and that launch."""
    problem, epilogue = before.problem, before.problem.epilogue
    if not epilogue.chain:
        return before, ()
    anchor = problem.anchor
    place = before.scratch_bytes
    value = Operand(0, 0, anchor.dims, contiguous_strides(anchor.dims), anchor.dtype)
    operands = (value, *(unit.operands[k] for k in epilogue.operands))
    dims = epilogue.chain[-1].dims
    result = Operand(0, 0, dims, contiguous_strides(dims), epilogue.result)
    launches, used = chain_launches(Unit(epilogue.chain, operands, result, ()))
    start = aligned(place + numel(anchor.dims) * anchor.dtype.itemsize)
    pointers = [scratch(place), *(extra.pointer for extra in problem.extras)]
    moved = redirected(launches, pointers, write_output(), start)
    out = replace(problem.out, pointer=scratch(place), dtype=anchor.dtype)
    made = replace(problem, epilogue=Part((), (), (anchor.dtype,)), extras=(), out=out)
    return Before(made, before.launches, aligned(start + used)), moved


def _measured(anchor: Micro, dims: Dims, dtype: DType) -> Measure:
    count = numel(tuple(dims[axis] for axis in anchor.params.axes))
    return measure_of(anchor.op.name, dtype, anchor.params, count)


def _with_sizes(prologue: Part, dims: Dims) -> Part:
    """Return the prologue with the absolute value behind it, of floats."""
    micros = list(prologue.chain)
    dtype = prologue.result
    if not dtype.is_float:
        micros.append(Micro(OPS["cast"], (_last(micros),), dims, f64, Cast(f64)))
        dtype = f64
    micros.append(Micro(OPS["abs"], (_last(micros),), dims, dtype, ()))
    return prologue._replace(chain=tuple(micros))


def _last(micros: Sequence[Micro]) -> int:
    return ~(len(micros) - 1) if micros else 0


def _over(operand: Operand, dims: Dims) -> Dims:
    return broadcast_strides(operand.dims, operand.strides, dims)


def _along(anchor: Micro, dims: Dims, strides: Dims) -> Dims:
    """Return strides over the anchor's result as strides over its input."""
    params = anchor.params
    kept = iter(strides)
    spread: list[int] = []
    for axis in range(len(dims)):
        is_reduced = axis in params.axes
        step = next(kept) if params.keepdims or not is_reduced else 0
        spread.append(0 if is_reduced else step)
    return tuple(spread)
