"""The pass `transfer`: a value that is read on another device is copied there, once a device.

A view is made again on the other device, over the copy of what it views. `to` shares that copy,
except for a view smaller than what it views, which goes by itself. A value that `to` sent away is
read where it came from by whoever runs there; only another `to` copies it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softcuda.backends import REFERENCE, backends
from softcuda.compiler.layout import Layout, next_layout
from softcuda.compiler.program import Choice, Chosen
from softcuda.compiler.select import TRANSFER
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Transfer
from softcuda.graph.shapes import contiguous_strides

__all__ = ["is_part", "transfer"]

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


def is_part(line: Line, viewed: Line) -> bool:
    """Return whether `to` sends a view by itself: it is smaller than what it views."""
    return line.nbytes < viewed.nbytes


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
        self._copies: dict[tuple[int, str, bool], int] = {}
        self._copied_from: dict[tuple[int, str | None], int] = {}
        self._layouts: list[Layout] = []
        self._shown: list[int] = []  # whose memory each shows; a view that `to` sent alone: its own
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
            self.origin.append(self._sent(inputs[0], line, choice))
            return
        else:
            device = _stated(line) or self._computed(choice)
            inputs = [self.on(source, device) for source in inputs]
        self.origin.append(self._add(line.over(tuple(inputs)), choice, device))

    def _sent(self, source: int, line: Line, choice: Choice) -> int:
        """Return the line that holds what `to` asks for."""
        here, device = self.devices[source], line.params.device
        if here is None:
            return self._add(line.over((source,)), choice, device)
        if not is_part(line, self.builder.lines[self._shown[source]]):
            return self.on(source, device, is_asked=True)
        if here == device:  # a view of its own, which goes elsewhere by itself too
            made = self._add(self.builder.lines[source], self.choices[source], device)
            self._shown[made] = made
            return made
        return self._add(line.over((self._sendable(source),)), choice, device)

    def _sendable(self, number: int) -> int:
        """Return a line that can be copied as it lies; from a device only dense bytes can."""
        if self.devices[number] != "cuda" or self._is_dense(number):
            return number
        return self._copied(number)

    def _is_dense(self, number: int) -> bool:
        dims, strides = self.builder.lines[number].dims, self._layouts[number].strides
        dense = contiguous_strides(dims)
        return all(d == 1 or a == b for d, a, b in zip(dims, strides, dense, strict=True))

    def _computed(self, choice: Choice) -> str | None:
        """Return the device type of what a backend computes; None for a number, on all of them."""
        backend = self._known.get(choice.backend_id)
        return None if backend is None else str(backend.DEVICE)

    def _add(self, line: Line, choice: Choice, device: str | None) -> int:
        self.choices.append(choice)
        self.devices.append(device)
        number = self.builder.append(line)
        self._layouts.append(next_layout(self._layouts, self.builder.lines))
        is_view = line.op.kind is Kind.VIEW
        self._shown.append(self._shown[line.inputs[0]] if is_view else number)
        return number

    def on(self, number: int, device: str | None, *, is_asked: bool = False) -> int:
        """Return the line that holds a value on a device: itself, or its copy there.

        Args:
            number: the line of the value.
            device: the device type; None where any will do.
            is_asked: `to` asks, and what it sent away before comes back as a copy.
        """
        if device is None:
            return number
        views = []
        while (made := self._held(number, device, is_asked)) is None and self._is_view(number):
            views.append(number)
            number = self.builder.lines[number].inputs[0]
        if made is None:
            sent, line = self._sendable(number), self.builder.lines[number]
            copied = Line(_TRANSFER, (sent,), line.dims, line.dtype, Transfer(device))
            made = self._keep(number, self._add(copied, TRANSFER, device), is_asked)
        for view in reversed(views):
            line = self.builder.lines[view].over((made,))
            made = self._keep(view, self._add(line, self.choices[view], device), is_asked)
        return made

    def _is_view(self, number: int) -> bool:
        """Return whether a line is made again over a copy of what it shows."""
        return self._shown[number] != number

    def _held(self, number: int, device: str, is_asked: bool) -> int | None:
        """Return the line that holds a value on a device by now, None where there is none."""
        here = self.devices[number]
        if here is None or here == device:
            return number
        if not is_asked and (number, device) in self._copied_from:
            return self._copied_from[number, device]
        return self._copies.get((number, device, self._is_view(number) and is_asked))

    def _keep(self, number: int, made: int, is_asked: bool) -> int:
        """Note that `made` holds the value of a line on its device, and return it."""
        device = str(self.devices[made])
        self._copies[number, device, self._is_view(number) and is_asked] = made
        self._copied_from[made, self.devices[number]] = number
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
