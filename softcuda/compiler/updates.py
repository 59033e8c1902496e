"""Updates of variables: new values that are written into the variable's own buffer, and copies.

In a run every read sees the old value. A new value may take the variable's buffer where nothing
reads the old one later, and where the step that makes it reads the old one at most element by
element, as it lies. All others are copied when everything else is done.

A run that fails or is interrupted leaves all variables as they were: they change only in a last
part of it, which computes elementwise ops that cannot fail, or is one launch on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from softcuda.backends import backends
from softcuda.backends.steps import Operand, Step, Unit
from softcuda.compiler.program import Chosen
from softcuda.graph.lines import Graph, Line
from softcuda.graph.op import Kind
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["Updates", "is_calm", "last_units", "written_in_place"]

# Backend and kernel of the copies that end a run.
_ON_HOST: Final = ("cpu_fallback", "copy")
_ON_DEVICE: Final = ("transfer", "d2d")


class Updates(NamedTuple):
    """How the variables of a graph take their new values.

    Attributes:
        steps: all steps of a run; those that write in place are the ones meant for it, and what
            is copied stands behind the others.
        in_place: line of a new value -> the number of the update whose variable it lies in.
        ending: the first step that changes a variable; len(steps) where none does.
    """

    steps: tuple[Step, ...]
    in_place: dict[int, int]
    ending: int


def last_units(graph: Graph, units: Sequence[Unit]) -> list[int]:
    """Return the units that can wait until all others are done, in an order that suits updates.

    They are elementwise, make new values of variables or single numbers for these, and are read
    only by each other. A unit that makes a new value comes behind those that read the old one.
    """
    if not graph.updates:
        return []
    maker = {made.value: number for number, unit in enumerate(units) for made in unit.results}
    readers: list[set[int]] = [set() for _ in units]
    reading: dict[int, list[int]] = {variable: [] for variable, _ in graph.updates}
    for number, unit in enumerate(units):
        for operand in unit.operands:
            if operand.value in maker:
                readers[maker[operand.value]].add(number)
            elif operand.value in reading:
                reading[operand.value].append(number)
    outputs, new = set(graph.outputs), {source for _, source in graph.updates}
    late: set[int] = set()
    for number in range(len(units) - 1, -1, -1):
        unit, made = units[number], {result.value for result in units[number].results}
        serves = bool(made & new) or numel(unit.result.dims) <= 1
        if not serves or made & outputs or not (readers[number] or made & new):
            continue
        if readers[number] <= late and all(is_calm(graph.lines[line]) for line in unit.lines):
            late.add(number)
    before: dict[int, set[int]] = {number: set() for number in late}
    for number in late:
        for reader in readers[number]:
            before[reader].add(number)
    old = {
        (maker[source], reader)
        for variable, source in graph.updates
        for reader in reading[variable]
        if maker.get(source) in late and reader in late
    }
    return _in_order(before, old)


def _in_order(before: dict[int, set[int]], old: set[tuple[int, int]]) -> list[int]:
    """Return units behind what they read, and behind those that read what they overwrite.

    Args:
        before: for each unit those it reads.
        old: pairs (unit that writes, unit that reads the old value); one whose wish goes round in
            a circle is not heeded.
    """
    waits: dict[int, set[int]] = {number: set() for number in before}
    for writer, reader in old:
        if writer != reader:
            waits[writer].add(reader)
    left, done, order = sorted(before), set[int](), list[int]()
    while left:
        ready = [n for n in left if before[n] <= done and waits[n] <= done]
        if not ready:
            ready = [next(n for n in left if before[n] <= done)]
        order.extend(ready)
        done.update(ready)
        left = [n for n in left if n not in done]
    return order


def is_calm(line: Line) -> bool:
    """Return whether a line is elementwise and takes every value of its operands."""
    is_elementwise = line.op.kind is Kind.ELEMENTWISE
    return is_elementwise and not (line.op.name == "pow" and line.dtype.is_integer)


def written_in_place(chosen: Chosen, steps: Sequence[Step]) -> Updates:
    """Return the steps of a run whose variables take new values in place wherever they can.

    Args:
        chosen: the graph.
        steps: in execution order, without those that end a run.
    """
    graph = chosen.graph
    if not graph.updates:
        return Updates(tuple(steps), {}, len(steps))
    made = list(steps)
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        for operand in step.outputs:
            writers.setdefault(operand.value, []).append(number)
        for operand in step.inputs:
            readers.setdefault(operand.value, []).append(number)
    calm = _calm_from(chosen, steps)
    in_place: dict[int, int] = {}
    for k, (variable, source) in enumerate(graph.updates):
        writing, reading = writers.get(source, ()), readers.get(variable, ())
        if len(writing) != 1 or source in in_place or source in graph.outputs:
            continue
        (at,) = writing
        last = reading[-1] if reading else -1
        if at < calm or last > at or not _fits(chosen, variable, source):
            continue
        if last == at:
            meant = _in_one(made[at], variable)
            if meant is None:
                continue
            made[at] = meant
        in_place[source] = k
    copies = _copies(graph, in_place)
    ending = min((writers[source][0] for source in in_place), default=len(made))
    return Updates((*made, *copies), in_place, ending)


def _calm_from(chosen: Chosen, steps: Sequence[Step]) -> int:
    """Return the first step from which on nothing can fail that is not one launch."""
    lines = chosen.graph.lines

    def is_kernel(step: Step) -> bool:
        on_device = chosen.device(step.outputs[0].value) == "cuda"
        return on_device and step.backend_id != "transfer"

    launched = len(steps)
    while launched and is_kernel(steps[launched - 1]):
        launched -= 1
    calm = len(steps)
    while calm and _is_calm_step(steps[calm - 1], lines):
        calm -= 1
    return min(launched, calm)


def _is_calm_step(step: Step, lines: Sequence[Line]) -> bool:
    is_copy = step.backend_id == "transfer"
    return not is_copy and all(is_calm(lines[number]) for number in step.lines)


def _fits(chosen: Chosen, variable: int, source: int) -> bool:
    """Return whether a new value lies as its variable does, on the same device."""
    old = chosen.graph.lines[variable]
    is_dense = tuple(old.params.strides) == contiguous_strides(old.dims)
    return is_dense and chosen.device(source) == chosen.device(variable)


def _in_one(step: Step, variable: int) -> Step | None:
    """Return a step that reads a variable and may write it; None where it may not.

    It may where it reads every element of the variable for the same element of its results, and
    only there: a contraction or reduction may read it in the elementwise ops behind it.
    """
    backend: Any = backends().get(step.backend_id)
    meant = getattr(backend, "in_place", None)
    dims = step.outputs[0].dims
    read = set()
    for number, operand in enumerate(step.inputs):
        if operand.value == variable:
            whole = Operand(variable, 0, dims, contiguous_strides(dims), operand.dtype)
            if operand != whole:
                return None
            read.add(number)
    anchors = [k for k, each in enumerate(step.chain) if each.op.kind is not Kind.ELEMENTWISE]
    for micro in step.chain[: anchors[-1] + 1] if anchors else ():
        if not read.isdisjoint(micro.sources):
            return None
    made: Step | None = None if meant is None else meant(step)
    return made


def _copies(graph: Graph, in_place: dict[int, int]) -> list[Step]:
    """Return the copies that end a run."""
    settled = set(in_place.values())
    made = []
    for k, (variable, source) in enumerate(graph.updates):
        if k in settled:
            continue
        line = graph.lines[source]
        value = Operand(source, 0, line.dims, contiguous_strides(line.dims), line.dtype)
        target = value._replace(value=len(graph.lines) + k)
        on_host = graph.lines[variable].params.device == "cpu"
        made.append(Step(*(_ON_HOST if on_host else _ON_DEVICE), (value,), (target,)))
    return made
