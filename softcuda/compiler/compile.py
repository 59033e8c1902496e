"""Compiling: one function whose body is the list of passes."""

from __future__ import annotations

from softcuda.compiler.allocate import allocate
from softcuda.compiler.fuse import fuse
from softcuda.compiler.lower import lower
from softcuda.compiler.place import place
from softcuda.compiler.program import Chosen, Program
from softcuda.compiler.recompute import recompute
from softcuda.compiler.select import Selector, select
from softcuda.compiler.sequence import schedule
from softcuda.compiler.settings import Settings
from softcuda.compiler.simplify import simplify
from softcuda.compiler.totals import modelled_totals
from softcuda.compiler.transfer import transfer
from softcuda.compiler.verify import verify
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind

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
    moved = transfer(placed.chosen, settings.profile.pool.device)
    recomputed = recompute(moved, settings)
    chosen = recomputed.chosen
    groups = fuse(chosen.graph, chosen.choices, settings.target)
    steps = schedule(chosen, groups, settings.target)
    allocation = allocate(chosen, steps)
    final = chosen.graph
    leaf_lines = {
        line.params.position: number
        for number, line in enumerate(final.lines)
        if line.op.kind is Kind.LEAF and line.op.name != "constant"
    }
    return Program(
        graph=final,
        choices=groups.noted(chosen.choices),
        origin=_origin(simplified.origin, chosen),
        steps=allocation.steps,
        ending=allocation.ending,
        places=allocation.places,
        leaf_lines=tuple(leaf_lines[k] for k in range(len(leaf_lines))),
        output_lines=allocation.output_lines,
        outputs=allocation.outputs,
        updated=tuple(final.lines[variable].params.position for variable, _ in final.updates),
        arenas=allocation.arenas,
        block_bytes=settings.profile.pool.block_size,
        target=settings.target,
        profile=settings.profile.name,
        footer=(
            *(placed.footer or modelled_totals(final, chosen.choices, settings.profile)),
            *recomputed.footer,
        ),
    )


def _origin(simplified: tuple[int, ...], chosen: Chosen) -> tuple[int, ...]:
    return tuple(-1 if number < 0 else chosen.origin[number] for number in simplified)
