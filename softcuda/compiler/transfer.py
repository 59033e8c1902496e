"""The pass `transfer`: a value that is read on another device is copied there, once a device.

A view is made again on the other device, over the copy of what it views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softcuda.backends import REFERENCE, backends
from softcuda.compiler.program import Choice, Chosen
from softcuda.compiler.select import TRANSFER
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Transfer
from softcuda.graph.shapes import contiguous_strides

__all__ = ["transfer"]

_TRANSFER = OPS["transfer"]
_COPY = OPS["copy"]


def transfer(chosen: Chosen, outputs_on: str) -> Chosen:
    """Return the graph with every copy between devices as a line of its own.

    Args:
        chosen: the lowered graph and its decisions.
        outputs_on: "cpu" brings the outputs that a device computed to the host; "cuda" leaves
            every output where it was computed.
    """
    known = backends()
    lines, choices = chosen.graph.lines, chosen.choices
    used = {known[c.backend_id].DEVICE for c in choices if c.backend_id in known}
    used |= {d for line in lines if (d := _stated(line)) is not None}
    moves = any(line.op.kind is Kind.TRANSFER for line in lines)
    if used <= {"cpu"} and not moves:
        return chosen
    placing = _Placing(lines, choices, known)
    for number in range(len(lines)):
        placing.move(number)
    graph = chosen.graph
    outputs = [placing.root(number, outputs_on) for number in graph.outputs]
    updates = [
        (placing.origin[v], placing.on(placing.origin[n], placing.devices[placing.origin[v]]))
        for v, n in graph.updates
    ]
    origin = tuple(-1 if old < 0 else placing.origin[old] for old in chosen.origin)
    devices = tuple([device or "cpu" for device in placing.devices])
    return Chosen(placing.builder.finish(outputs, updates), tuple(placing.choices), origin, devices)


def _stated(line: Line) -> str | None:
    """Return the device type that a leaf or a transfer names, else None."""
    leaf = line.op.kind is Kind.LEAF and line.op.name != "constant"
    return str(line.params.device) if leaf or line.op.kind is Kind.TRANSFER else None


class _Placing:
    """The lines of the new graph, with the device of each."""

    def __init__(
        self, lines: Sequence[Line], choices: Sequence[Choice], known: Mapping[str, Any]
    ) -> None:
        self._lines = lines
        self._old_choices = choices
        self._known = known
        self._copies: dict[tuple[int, str], int] = {}
        self.builder = GraphBuilder()
        self.choices: list[Choice] = []
        self.devices: list[str | None] = []
        self.origin: list[int] = []

    def move(self, number: int) -> None:
        """Append line `number` of the old graph, its operands on its device."""
        line, choice = self._lines[number], self._old_choices[number]
        inputs = [self.origin[source] for source in line.inputs]
        if line.op.kind is Kind.VIEW:
            device = self.devices[inputs[0]]
        elif line.op.kind is Kind.TRANSFER:
            source = self.devices[inputs[0]]
            device = line.params.device
            if source == device:
                self.origin.append(inputs[0])
                return
        else:
            device = _stated(line) or self._computed(choice)
            inputs = [self.on(source, device) for source in inputs]
        self.origin.append(self._add(line.over(tuple(inputs)), choice, device))

    def _computed(self, choice: Choice) -> str | None:
        """Return the device type of what a backend computes; None for a number, on all of them."""
        backend = self._known.get(choice.backend_id)
        return None if backend is None else str(backend.DEVICE)

    def _add(self, line: Line, choice: Choice, device: str | None) -> int:
        self.choices.append(choice)
        self.devices.append(device)
        return self.builder.append(line)

    def on(self, number: int, device: str | None) -> int:
        """Return the line that holds a value on a device: itself, or its copy there."""
        here = self.devices[number]
        if device is None or here is None or here == device:
            return number
        known = self._copies.get((number, device))
        if known is not None:
            return known
        line = self.builder.lines[number]
        if line.op.kind is Kind.LEAF and here == "cuda" and not _is_dense(line):
            number = self._copied(number)
        if line.op.kind is Kind.VIEW:
            source = self.on(line.inputs[0], device)
            made = self._add(line.over((source,)), self.choices[number], device)
        else:
            copied = Line(_TRANSFER, (number,), line.dims, line.dtype, Transfer(device))
            made = self._add(copied, TRANSFER, device)
        self._copies[number, device] = made
        return made

    def root(self, number: int, outputs_on: str) -> int:
        """Return the line that an output is taken from."""
        new = self.origin[number]
        asked = self._lines[number].op.kind is Kind.TRANSFER
        if outputs_on == "cpu" and not asked:
            new = self.on(new, "cpu")
        owns = self.builder.lines[new].op.kind not in (Kind.LEAF, Kind.VIEW)
        return new if owns else self._copied(new)

    def _copied(self, number: int) -> int:
        """Return a dense copy of a line on its own device, by the reference backend there."""
        line, device = self.builder.lines[number], self.devices[number] or "cpu"
        copied = Line(_COPY, (number,), line.dims, line.dtype, ())
        return self._add(copied, Choice(REFERENCE[device], "a dense copy to hand over"), device)


def _is_dense(line: Line) -> bool:
    return bool(line.params.strides == contiguous_strides(line.dims))
