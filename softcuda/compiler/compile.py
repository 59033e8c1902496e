"""Compiling: one function whose body is the list of passes."""

from __future__ import annotations

from dataclasses import dataclass

from softcuda.backends import backends
from softcuda.backends.steps import Step
from softcuda.compiler.allocate import allocate, update_steps
from softcuda.compiler.fuse import fuse
from softcuda.compiler.lower import lower
from softcuda.compiler.program import Chosen, Groups, Program
from softcuda.compiler.schedule import order
from softcuda.compiler.select import Selector, select
from softcuda.compiler.simplify import simplify
from softcuda.compiler.totals import modelled_totals
from softcuda.compiler.verify import verify
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind
from softcuda.profile.model import Profile
from softcuda.target import Target

__all__ = ["Settings", "compile_graph"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides beside the graph.

    Attributes:
        profile: the profile whose rows select backends.
        default: the shipped profile, for ops without a row.
        target: the machine to compile for.
        strict: a refusal or a missing row is an error.
    """

    profile: Profile
    default: Profile
    target: Target
    strict: bool = False


def compile_graph(graph: Graph, settings: Settings) -> Program:
    """Return the program of a graph: verify, simplify, select, lower, fuse, schedule, allocate.

    Raises:
        ShapeError, DTypeError, ArgumentError: verify refuses the graph.
        BackendError, BackendRefused, NoDeviceError: select finds no backend.
    """
    selector = Selector(settings.profile, settings.default, settings.target, settings.strict)
    simplified = simplify(verify(graph))
    choices = select(simplified.graph, selector)
    chosen = lower(simplified.graph, choices, selector)
    groups = fuse(chosen.graph, chosen.choices, settings.target)
    steps = _schedule(chosen.graph, groups, settings.target)
    allocation = allocate(chosen.graph, steps)
    final = chosen.graph
    leaf_lines = {
        line.params.position: number
        for number, line in enumerate(final.lines)
        if line.op.kind is Kind.LEAF and line.op.name != "constant"
    }
    return Program(
        graph=final,
        choices=chosen.choices,
        origin=_origin(simplified.origin, chosen),
        steps=steps,
        places=allocation.places,
        leaf_lines=tuple(leaf_lines[k] for k in range(len(leaf_lines))),
        output_lines=allocation.output_lines,
        outputs=allocation.outputs,
        updated=tuple(final.lines[variable].params.position for variable, _ in final.updates),
        arena_bytes=allocation.arena_bytes,
        peak_bytes=allocation.peak_bytes,
        block_bytes=settings.profile.pool.block_size,
        target=settings.target,
        profile=settings.profile.name,
        footer=modelled_totals(final, chosen.choices, settings.profile),
    )


def _schedule(graph: Graph, groups: Groups, target: Target) -> tuple[Step, ...]:
    """Return the steps of all units in an order that keeps few bytes alive, then the updates."""
    units = groups.units
    maker = {unit.result.value: number for number, unit in enumerate(units)}
    reads = [
        tuple(maker[operand.value] for operand in unit.operands if operand.value in maker)
        for unit in units
    ]
    sizes = [graph.lines[unit.result.value].nbytes for unit in units]
    sequence = order(reads, sizes, tuple(maker[root] for root in dict.fromkeys(graph.roots)))
    known = backends()
    steps: list[Step] = []
    for number in sequence:
        steps.extend(known[groups.backend_ids[number]].prepare(units[number], target))
    return (*steps, *update_steps(graph))


def _origin(simplified: tuple[int, ...], chosen: Chosen) -> tuple[int, ...]:
    return tuple(-1 if number < 0 else chosen.origin[number] for number in simplified)
