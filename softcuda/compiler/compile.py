"""Compiling: one function whose body is the list of passes."""

from __future__ import annotations

from softcuda.backends import added_devices, backends
from softcuda.backends.contract import check_steps
from softcuda.backends.steps import Step, Unit
from softcuda.compiler.allocate import allocate, update_steps
from softcuda.compiler.fuse import fuse
from softcuda.compiler.lower import lower
from softcuda.compiler.place import place
from softcuda.compiler.program import Chosen, Groups, Program
from softcuda.compiler.schedule import in_turns, order
from softcuda.compiler.select import Selector, select
from softcuda.compiler.settings import Settings
from softcuda.compiler.simplify import simplify
from softcuda.compiler.totals import modelled_totals
from softcuda.compiler.transfer import transfer
from softcuda.compiler.verify import verify
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind
from softcuda.target import Target

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, settings: Settings) -> Program:
    """Return the program of a graph: what the passes make of it, one after the other.

    Raises:
        ShapeError, DTypeError, ArgumentError: verify refuses the graph.
        BackendError, BackendRefused, NoDeviceError: select finds no backend, or one breaks its
            contract.
    """
    selector = Selector(settings)
    simplified = simplify(verify(graph))
    choices = select(simplified.graph, selector)
    lowered = lower(simplified.graph, choices, selector)
    placed = place(lowered, selector, settings)
    chosen = transfer(placed.chosen, settings.profile.pool.device)
    groups = fuse(chosen.graph, chosen.choices, settings.target)
    steps = _schedule(chosen, groups, settings.target)
    allocation = allocate(chosen, steps)
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
        arenas=allocation.arenas,
        block_bytes=settings.profile.pool.block_size,
        target=settings.target,
        profile=settings.profile.name,
        footer=placed.footer or modelled_totals(final, chosen.choices, settings.profile),
    )


def _schedule(chosen: Chosen, groups: Groups, target: Target) -> tuple[Step, ...]:
    """Return the steps of all units in an order that keeps few bytes alive, then the updates."""
    graph, units = chosen.graph, groups.units
    maker = {made.value: number for number, unit in enumerate(units) for made in unit.results}
    reads = [
        tuple(maker[operand.value] for operand in unit.operands if operand.value in maker)
        for unit in units
    ]
    sizes = [sum(graph.lines[made.value].nbytes for made in unit.results) for unit in units]
    roots = dict.fromkeys(maker[root] for root in graph.roots)
    sequence = order(reads, sizes, tuple(roots))
    if chosen.devices:
        device = [
            groups.backend_ids[k] == "transfer" or chosen.device(u.result.value) == "cpu"
            for k, u in enumerate(units)
        ]
        sequence = in_turns(sequence, reads, device)
    known, added = backends(), added_devices()
    steps: list[Step] = []
    for number in sequence:
        backend_id = groups.backend_ids[number]
        if backend_id == "transfer":
            steps.append(_transfer_step(units[number]))
        else:
            made = known[backend_id].prepare(units[number], target)
            if backend_id in added:
                check_steps(backend_id, units[number], made)
            steps.extend(made)
    return (*steps, *update_steps(graph))


def _transfer_step(unit: Unit) -> Step:
    kernel = "h2d" if unit.chain[-1].params.device == "cuda" else "d2h"
    return Step("transfer", kernel, unit.operands, (unit.result,), lines=unit.lines)


def _origin(simplified: tuple[int, ...], chosen: Chosen) -> tuple[int, ...]:
    return tuple(-1 if number < 0 else chosen.origin[number] for number in simplified)
