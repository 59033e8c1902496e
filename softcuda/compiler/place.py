"""The pass `place`: under `policy = min_cut`, nodes move between devices where the model gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from softcuda.backends import backends
from softcuda.compiler.min_cut import DEVICE_SIDE, HOST_SIDE, PricedNode, assignment
from softcuda.compiler.pricing import Prices
from softcuda.compiler.program import Choice, Chosen
from softcuda.compiler.select import Selector
from softcuda.compiler.settings import Settings
from softcuda.compiler.transfer import is_part, transfer
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind

__all__ = ["Placed", "place"]

_SIDES: Final = ("cpu", "cuda")


class Placed(NamedTuple):
    """A graph with its decisions, and what the end of the printed table says of them."""

    chosen: Chosen
    footer: tuple[str, ...] = ()


def place(chosen: Chosen, selector: Selector, settings: Settings) -> Placed:
    """Return the graph with the decisions of the policy.

    `table` keeps what the rows say. `min_cut` takes the assignment of least modelled time: of the
    exact minimum over single nodes, all on the CPU and all on the CUDA device, each priced after
    fusion and with its copies. Under `strict`, a node moves only to a backend that a row names.
    """
    profile = settings.profile
    if profile.policy == "table":
        return Placed(chosen)
    if settings.target.type != "cuda":
        return Placed(chosen, ("policy min_cut: there is no CUDA device, the rows are obeyed",))
    if not profile.costs or {line.direction for line in profile.transfer} != {"h2d", "d2h"}:
        said = f"policy min_cut: {profile.name} lacks [costs] or [transfer], the rows are obeyed"
        return Placed(chosen, (said,))
    return _Placement(chosen, selector, settings).best()


class _Options(NamedTuple):
    """A line that does work: its decision on each device, None where it cannot go."""

    choices: tuple[Choice | None, Choice | None]
    costs: tuple[float, float]


class _Placement:
    """The lines of one graph as nodes of a placement."""

    def __init__(self, chosen: Chosen, selector: Selector, settings: Settings) -> None:
        self._chosen = chosen
        self._lines = chosen.graph.lines
        self._selector = selector
        self._settings = settings
        self._prices = Prices(settings.profile)
        self._known = backends()
        self._known_options: dict[Any, _Options] = {}
        self._unnamed: set[str] = set()
        self._roots: list[int] = []
        self._node_of: dict[int, int] = {}
        self._numbers: list[int] = []
        self._options: list[_Options] = []
        self._asked: list[tuple[str, ...]] = []  # where `to` sent what a line shows, in turn
        for number, line in enumerate(self._lines):
            shows = line.op.kind is Kind.VIEW or self._shares(line)
            self._roots.append(self._roots[line.inputs[0]] if shows else number)
            self._asked.append(self._asked_of(line) if shows else ())
            if not shows and line.op.name != "constant":
                self._node_of[number] = len(self._numbers)
                self._numbers.append(number)
                self._options.append(self._options_of(number, line))
        self._readers = self._all_readers()
        self._asked_us = self._all_asked_us()
        self._nodes = [self._priced(node) for node in range(len(self._numbers))]

    def _priced(self, node: int) -> PricedNode:
        nbytes, copy_us = self._lines[self._numbers[node]].nbytes, self._prices.copy_us
        costs = zip(self._options[node].costs, self._asked_us[node], strict=True)
        cpu_us, cuda_us = (own + asked for own, asked in costs)
        h2d_us, d2h_us = copy_us("h2d", nbytes), copy_us("d2h", nbytes)
        return PricedNode(cpu_us, cuda_us, h2d_us, d2h_us, tuple(self._readers[node]))

    def _shares(self, line: Line) -> bool:
        """Return whether a line is a `to` that takes the copy that all readers share."""
        if line.op.kind is not Kind.TRANSFER:
            return False
        root = self._lines[self._roots[line.inputs[0]]]
        return root.op.name != "constant" and not is_part(line, root)

    def _asked_of(self, line: Line) -> tuple[str, ...]:
        asked = self._asked[line.inputs[0]]
        if line.op.kind is Kind.VIEW or asked[-1:] == (line.params.device,):
            return asked
        return (*asked, line.params.device)

    def _all_asked_us(self) -> list[list[float]]:
        """Return for each node what `to` copies beside the copies that readers share.

        On either side [microseconds]: a value that goes away and comes back, and views that go by
        themselves.
        """
        found = [[0.0, 0.0] for _ in self._numbers]
        seen: set[tuple[int, int, tuple[str, ...]]] = set()
        for number, line in enumerate(self._lines):
            if line.op.kind is not Kind.TRANSFER:
                continue
            source, device = line.inputs[0], line.params.device
            node = self._node_of.get(self._roots[source])
            if node is None:
                continue
            alone = self._roots[number] == number
            nbytes = (line if alone else self._lines[self._roots[source]]).nbytes
            copy_us = self._prices.copy_us("h2d" if device == "cuda" else "d2h", nbytes)
            for side, here in enumerate(_SIDES):
                if alone:
                    found[node][side] += copy_us * ((here, *self._asked[source])[-1] != device)
                    continue
                asked = self._asked[number]
                asked = asked[asked[0] == here :]  # it is there already
                if len(asked) > 1 and (node, side, asked) not in seen:
                    seen.add((node, side, asked))
                    found[node][side] += copy_us
        return found

    def _options_of(self, number: int, line: Line) -> _Options:
        choice = self._chosen.choices[number]
        if line.op.kind in (Kind.LEAF, Kind.TRANSFER):
            return _fixed(choice, line.params.device == "cuda")
        operands = [self._lines[source] for source in line.inputs]
        seen = tuple([(operand.dims, operand.dtype) for operand in operands])
        key = (line.op.name, line.dims, line.dtype, line.params, seen, choice)
        if key not in self._known_options:
            self._known_options[key] = self._new_options(choice, line, operands)
        return self._known_options[key]

    def _new_options(self, choice: Choice, line: Line, operands: Sequence[Line]) -> _Options:
        side = self._known[choice.backend_id].DEVICE == "cuda"
        costs = [self._prices.line_us(line, operands, device) for device in _SIDES]
        device, by_rows = _SIDES[not side], self._settings.strict
        other = self._selector.choose_on(line, operands, device, by_rows=by_rows)
        if other is None and by_rows:
            self._unnamed.add(f"{line.op.name} on {device}")
        if other is None or costs[0] is None or costs[1] is None:
            return _fixed(choice, side)
        choices = (other, choice) if side else (choice, other)
        return _Options(choices, (costs[0], costs[1]))

    def _all_readers(self) -> list[dict[int, None]]:
        """Return for each node what reads its result, views looked through."""
        readers: list[dict[int, None]] = [{} for _ in self._numbers]
        for number in self._numbers:
            is_work = self._lines[number].op.kind is not Kind.TRANSFER
            for source in self._lines[number].inputs if is_work else ():
                self._note(readers, source, self._node_of[number])
        for number, line in enumerate(self._lines):
            asked = self._asked[number]
            if line.op.kind is Kind.TRANSFER and 0 < len(asked) < 3:
                self._note(readers, number, DEVICE_SIDE if asked[-1] == "cuda" else HOST_SIDE)
        graph = self._chosen.graph
        if self._settings.profile.pool.device == "cpu":
            for output in graph.outputs:
                if self._lines[output].op.kind is not Kind.TRANSFER:
                    self._note(readers, output, HOST_SIDE)
        for variable, value in graph.updates:
            there = self._lines[variable].params.device == "cuda"
            self._note(readers, value, DEVICE_SIDE if there else HOST_SIDE)
        return readers

    def _note(self, readers: list[dict[int, None]], source: int, reader: int) -> None:
        node = self._node_of.get(self._roots[source])
        if node is not None:
            readers[node][reader] = None

    def best(self) -> Placed:
        """Return the assignment whose modelled time is least."""
        sides = {"the cut": assignment(self._nodes)}
        for there, device in enumerate(_SIDES):
            wanted = [
                bool(there) if option.choices[there] is not None else not there
                for option in self._options
            ]
            sides[f"all-{device}"] = wanted
        priced = {tuple(each): 0.0 for each in sides.values()}  # two may be the same
        for each in priced:
            priced[each] = self._total_us(self._made(each))
        totals = {name: priced[tuple(each)] for name, each in sides.items()}
        taken = min(totals, key=lambda name: totals[name])
        said = ", ".join(f"{name} {total:.1f} us" for name, total in totals.items())
        footer = [f"policy min_cut: {said} modelled, copies included; taken: {taken}"]
        if self._prices.missing:
            ops = ", ".join(sorted({f"{op} on {dev}" for op, dev in self._prices.missing}))
            footer.append(f"policy min_cut: [costs] has no point for {ops}; such nodes stay")
        if self._unnamed:
            ops = ", ".join(sorted(self._unnamed))
            said = f"strict=True, and no row names a backend that takes {ops}; such nodes stay"
            footer.append(f"policy min_cut: {said}")
        return Placed(self._noted(self._made(sides[taken]), sides[taken]), tuple(footer))

    def _made(self, on_device: Sequence[bool]) -> Chosen:
        choices = list(self._chosen.choices)
        for number, option, there in zip(self._numbers, self._options, on_device, strict=True):
            chosen = option.choices[there]
            if chosen is not None and chosen is not choices[number]:
                reason = choices[number].reason
                choices[number] = chosen._replace(reason=reason)
        return self._chosen._replace(choices=tuple(choices))

    def _total_us(self, chosen: Chosen) -> float:
        moved = transfer(chosen, self._settings.profile.pool.device)
        return self._prices.total_us(moved, self._settings.target)

    def _noted(self, chosen: Chosen, on_device: Sequence[bool]) -> Chosen:
        """Return the decisions with what the table says of each: both costs, copies avoided."""
        copies = _Copies(self._nodes, on_device)
        choices = list(chosen.choices)
        for node, (number, option) in enumerate(zip(self._numbers, self._options, strict=True)):
            if None in option.choices:
                continue
            costs = (f"{dev} {us:.1f} us" for dev, us in zip(_SIDES, option.costs, strict=True))
            note = f"min_cut: {', '.join(costs)}"
            spared = copies.more_if_moved_us(node)
            if spared > 0:
                note += f", avoids copies of {spared:.1f} us"
            before = self._chosen.choices[number]
            if choices[number].backend_id != before.backend_id:
                note += f", moved from {before.backend_id}"
            old = choices[number].note
            choices[number] = choices[number]._replace(note="; ".join(filter(None, (old, note))))
        return chosen._replace(choices=tuple(choices))


def _fixed(choice: Choice, there: bool) -> _Options:
    if there:
        return _Options((None, choice), (math.inf, 0.0))
    return _Options((choice, None), (0.0, math.inf))


class _Copies:
    """The copies of an assignment, and how they change when one node moves."""

    def __init__(self, nodes: Sequence[PricedNode], on_device: Sequence[bool]) -> None:
        self._nodes = nodes
        self._on_device = on_device
        self._sources: list[list[int]] = [[] for _ in nodes]
        self._counts: list[list[int]] = []  # readers of each result on the CPU, on the device
        for node, each in enumerate(nodes):
            count = [0, 0]
            for reader in each.readers:
                count[reader == DEVICE_SIDE if reader < 0 else on_device[reader]] += 1
                if reader >= 0:
                    self._sources[reader].append(node)
            self._counts.append(count)

    def more_if_moved_us(self, node: int) -> float:
        """Return what the copies of all results would take more if a node moved."""
        there = self._on_device[node]
        more = self._copy_us(node, not there, self._counts[node])
        more -= self._copy_us(node, there, self._counts[node])
        for source in self._sources[node]:
            counts = list(self._counts[source])
            more -= self._copy_us(source, self._on_device[source], counts)
            counts[there] -= 1
            counts[not there] += 1
            more += self._copy_us(source, self._on_device[source], counts)
        return more

    def _copy_us(self, node: int, there: bool, counts: Sequence[int]) -> float:
        if not counts[not there]:
            return 0.0
        return self._nodes[node].d2h_us if there else self._nodes[node].h2d_us
