"""The pass `allocate`: every value gets a place; intermediates share one arena by liveness.

New values of variables lie in the variables' own buffers where that is safe (updates.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from softcuda.backends.steps import Step
from softcuda.compiler.arena import Lifetime, most_bytes, plan
from softcuda.compiler.levels import levels_of, parted
from softcuda.compiler.program import ArenaSize, Chosen, Place
from softcuda.compiler.updates import written_in_place
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind
from softcuda.graph.shapes import numel

__all__ = ["MemoryPlan", "allocate"]

# Smaller values stay in the arena: a step that works in an output's buffer is bound again when
# the output gets another one.
_LENT_FROM: Final = 1 << 20

# What an arena on a device may hold so that steps run side by side and do not wait for memory: so
# much as no device is short of, or little more than is alive at once.
_PARTED_BYTES: Final = 32 << 20
_PARTED: Final = 1.1


class MemoryPlan(NamedTuple):
    """The memory plan of a program.

    Attributes:
        steps: the steps of a run; copies to variables come last.
        ending: the first step that changes a variable; len(steps) where none does.
        places: the place of each value, by number; scratch of step i is numbered
            ~i (negative), the target of the k-th update len(lines) + k.
        output_lines: lines that own output buffers, each once.
        outputs: for each requested output its index in output_lines.
        arenas: for each device type that needs an arena its size.
    """

    steps: tuple[Step, ...]
    ending: int
    places: dict[int, Place]
    output_lines: tuple[int, ...]
    outputs: tuple[int, ...]
    arenas: dict[str, ArenaSize]


def allocate(chosen: Chosen, computing: Sequence[Step]) -> MemoryPlan:
    """Return where every value lives while the steps run in order, and how variables change."""
    graph = chosen.graph
    steps, in_place, ending = written_in_place(chosen, computing)
    output_lines = tuple(dict.fromkeys(graph.outputs))
    places = {
        line: Place("output", k, graph.lines[line].nbytes, chosen.device(line))
        for k, line in enumerate(output_lines)
    }
    constants = 0
    for number, line in enumerate(graph.lines):
        if line.op.name == "constant":
            places[number] = Place("constant", constants, line.nbytes)
            constants += 1
        elif line.op.kind is Kind.LEAF:
            places[number] = Place("leaf", line.params.position, line.nbytes, line.params.device)
    for k, (variable, _) in enumerate(graph.updates):
        line = graph.lines[variable]
        target = Place("variable", line.params.position, line.nbytes, line.params.device)
        places[len(graph.lines) + k] = target
    for source, k in in_place.items():
        places[source] = places[len(graph.lines) + k]
    arenas = {}
    spans = _lifetimes(steps, places)
    for device in dict.fromkeys(chosen.devices) or ("cpu",):
        here = {v: span for v, span in spans.items() if _device(v, steps, chosen) == device}
        lenders = {k: v for k, v in enumerate(output_lines) if places[v].device == device}
        for value, output in _lent(here, steps, lenders, graph).items():
            places[value] = Place("lent", output, here.pop(value)[0], device)
        held = _roomy(here, steps, places) if device == "cuda" else here
        arena = plan(list(held.values()))
        for (value, (nbytes, _, _)), offset in zip(held.items(), arena.offsets, strict=True):
            places[value] = Place("arena", offset, nbytes, device)
        if arena.total_bytes:
            peak = arena.peak_bytes if held is here else most_bytes(here.values())
            arenas[device] = ArenaSize(arena.total_bytes, peak)
    numbers = {line: k for k, line in enumerate(output_lines)}
    outputs = tuple(numbers[n] for n in graph.outputs)
    return MemoryPlan(steps, ending, places, output_lines, outputs, arenas)


def _device(value: int, steps: Sequence[Step], chosen: Chosen) -> str:
    """Return the device type of a value, or of the scratch of step ~value."""
    return chosen.device(value if value >= 0 else steps[~value].outputs[0].value)


def _roomy(
    spans: dict[int, Lifetime], steps: Sequence[Step], places: Mapping[int, Place]
) -> dict[int, Lifetime]:
    """Return lifetimes that leave steps side by side, where these do not take much more memory."""
    longer = parted(spans, steps, levels_of(steps, places))
    allowed = max(_PARTED_BYTES, _PARTED * most_bytes(spans.values()))
    return longer if most_bytes(longer.values()) <= allowed else spans


def _lifetimes(steps: Sequence[Step], placed: dict[int, Place]) -> dict[int, Lifetime]:
    """Return the lifetime of each value that the arena must hold."""
    spans: dict[int, Lifetime] = {}
    for number, step in enumerate(steps):
        for operand in step.outputs:
            if operand.value not in placed and operand.value not in spans:
                nbytes = numel(operand.dims) * operand.dtype.itemsize
                spans[operand.value] = Lifetime(nbytes, number, number)
        for operand in step.inputs:
            span = spans.get(operand.value)
            if span is not None:
                spans[operand.value] = span._replace(last=number)
        if step.scratch_bytes:
            spans[~number] = Lifetime(step.scratch_bytes, number, number)
    return spans


def _lent(
    spans: dict[int, Lifetime],
    steps: Sequence[Step],
    lenders: Mapping[int, int],
    graph: Graph,
) -> dict[int, int]:
    """Return the large values that live in an output's buffer before the output is written.

    Each buffer is filled backward from the step that writes it: what ends last goes in first, so
    that of the values which that step reads as few as can be lie beside the buffer.
    """
    large = [v for v, (nbytes, _, _) in spans.items() if v >= 0 and nbytes >= _LENT_FROM]
    if not large:
        return {}
    written: dict[int, int] = {}
    for number, step in enumerate(steps):
        for operand in step.outputs:
            written.setdefault(operand.value, number)
    large.sort(key=lambda v: (-spans[v][2], spans[v][1], v))
    lent: dict[int, int] = {}
    rooms = {k: graph.lines[line].nbytes for k, line in lenders.items()}
    for index in sorted(rooms, key=lambda k: -rooms[k]):
        free_before = written.get(lenders[index], 0)
        for value in large:
            nbytes, first, last = spans[value]
            if last < free_before and nbytes <= rooms[index] and value not in lent:
                lent[value] = index
                free_before = first
    return lent
