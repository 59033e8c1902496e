"""What compiling yields: a Program, frozen data that the executor replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softcuda.backends.steps import Step, Unit
from softcuda.graph.lines import Graph
from softcuda.target import Target

__all__ = ["ArenaSize", "Choice", "Chosen", "Groups", "Place", "Program", "Rewrite"]


class Choice(NamedTuple):
    """The frozen decision for one line.

    Attributes:
        backend_id: the backend that computes it; "view" or "leaf" where nothing is computed.
        reason: the profile line that decided, such as "CONFIG.soft:12".
        note: what else the table says: a refusal and its stand-in, an expansion.
    """

    backend_id: str
    reason: str
    note: str = ""


class Place(NamedTuple):
    """Where a value lives.

    `space` is "leaf", "constant", "output", "variable" (the buffer that an update writes), "arena",
    or "lent" (the buffer of an output that is written later); `at` is the leaf's position, the
    constant's or output's number, or the byte offset in the arena. `device` owns it.
    """

    space: str
    at: int
    nbytes: int
    device: str = "cpu"


class ArenaSize(NamedTuple):
    """The size of an arena, and the most bytes alive in it at once."""

    nbytes: int
    peak_bytes: int


class Rewrite(NamedTuple):
    """A pass's result: the new graph, and for each old line its new number or -1."""

    graph: Graph
    origin: tuple[int, ...]


class Chosen(NamedTuple):
    """A graph with a decision for each line, and each earlier line's new number.

    `devices` says for each line which device type owns its value; it is () where all is on the
    host.
    """

    graph: Graph
    choices: tuple[Choice, ...]
    origin: tuple[int, ...]
    devices: tuple[str, ...] = ()

    def device(self, line: int) -> str:
        """Return the device type that owns the value of a line."""
        return self.devices[line] if self.devices else "cpu"


class Groups(NamedTuple):
    """A graph cut into units; each unit's lines in order, the last one its result.

    `notes` says of lines why they stand in the unit that they are in: pairs (line, note).
    """

    units: tuple[Unit, ...]
    backend_ids: tuple[str, ...]
    notes: tuple[tuple[int, str], ...] = ()

    def noted(self, choices: Sequence[Choice]) -> tuple[Choice, ...]:
        """Return the decisions of the lines with these notes."""
        made = list(choices)
        for number, note in self.notes:
            known = made[number].note
            made[number] = made[number]._replace(note=f"{known}; {note}" if known else note)
        return tuple(made)


class Program(NamedTuple):
    """A compiled graph: everything is decided, nothing is bound to memory yet.

    Attributes:
        graph: the lines after all rewriting.
        choices: the decision for each line.
        origin: for each traced line its number in `graph`.
        steps: in execution order; copies to variables come last.
        ending: the first step that changes a variable; len(steps) where none does.
        places: where each value lives, by line number; targets of updates are numbered behind
            the lines.
        leaf_lines: the line of each leaf, by position; -1 for a leaf that nothing reads.
        output_lines: the lines that own output buffers; each once.
        outputs: for each requested output its index in `output_lines`.
        updated: positions of the leaves that are variables this program writes.
        arenas: for each device type that needs an arena its size.
        block_bytes: block size of the pool that the arena comes from.
        target: what it was compiled for.
        profile: the profile's name as printed.
        footer: lines that end the printed table (modelled totals).
    """

    graph: Graph
    choices: tuple[Choice, ...]
    origin: tuple[int, ...]
    steps: tuple[Step, ...]
    ending: int
    places: dict[int, Place]
    leaf_lines: tuple[int, ...]
    output_lines: tuple[int, ...]
    outputs: tuple[int, ...]
    updated: tuple[int, ...]
    arenas: dict[str, ArenaSize]
    block_bytes: int
    target: Target
    profile: str
    footer: tuple[str, ...] = ()

    @property
    def uses_cuda(self) -> bool:
        """Whether any value of the program is on a CUDA device."""
        return any(place.device == "cuda" for place in self.places.values())

    def on_device(self, step: Step) -> bool:
        """Return whether a step runs on, or copies to or from, a CUDA device."""
        if step.backend_id == "transfer":
            return True
        return self.places[step.outputs[0].value].device == "cuda"

    def arena_bytes(self, device: str) -> int:
        """Return the size of the arena on a device type; 0 where it needs none."""
        return self.arenas[device].nbytes if device in self.arenas else 0
