"""The pass `schedule`: the steps of all units in an order that keeps few bytes alive."""

from __future__ import annotations

from softcuda.backends import added_devices, backends
from softcuda.backends.contract import check_steps
from softcuda.backends.steps import Step, Unit
from softcuda.compiler.patterns import prepared
from softcuda.compiler.program import Chosen, Groups
from softcuda.compiler.schedule import in_turns, order
from softcuda.compiler.updates import last_units
from softcuda.target import Target

__all__ = ["schedule"]


def schedule(chosen: Chosen, groups: Groups, target: Target) -> tuple[Step, ...]:
    """Return the steps of all units in order; what can wait for updates of variables is last.

    Raises:
        BackendError: a backend that a user registered breaks its contract.
    """
    known, added = backends(), added_devices()
    steps: list[Step] = []
    for number in _sequence(chosen, groups):
        backend_id = groups.backend_ids[number]
        if backend_id == "transfer":
            steps.append(_transfer_step(groups.units[number]))
        elif backend_id in added:
            made = known[backend_id].prepare(groups.units[number], target)
            check_steps(backend_id, groups.units[number], made)
            steps.extend(made)
        else:
            steps.extend(prepared(known[backend_id].prepare, groups.units[number], target))
    return tuple(steps)


def _sequence(chosen: Chosen, groups: Groups) -> list[int]:
    """Return the units in order."""
    graph, units = chosen.graph, groups.units
    last = last_units(graph, units)
    waiting = set(last)
    early = [number for number in range(len(units)) if number not in waiting]
    place = {number: position for position, number in enumerate(early)}
    maker = {made.value: place[k] for k in early for made in units[k].results}
    reads = [
        tuple(maker[operand.value] for operand in units[k].operands if operand.value in maker)
        for k in early
    ]
    sizes = [sum(graph.lines[made.value].nbytes for made in units[k].results) for k in early]
    needed = [*graph.roots, *(operand.value for k in last for operand in units[k].operands)]
    roots = dict.fromkeys(maker[value] for value in needed if value in maker)
    sequence = order(reads, sizes, tuple(roots))
    if chosen.devices:
        on_host = [
            groups.backend_ids[k] == "transfer" or chosen.device(units[k].result.value) == "cpu"
            for k in early
        ]
        sequence = in_turns(sequence, reads, on_host)
        last.sort(key=lambda k: chosen.device(units[k].result.value) == "cpu")
    return [*(early[position] for position in sequence), *last]


def _transfer_step(unit: Unit) -> Step:
    kernel = "h2d" if unit.chain[-1].params.device == "cuda" else "d2h"
    return Step("transfer", kernel, unit.operands, (unit.result,), lines=unit.lines)
