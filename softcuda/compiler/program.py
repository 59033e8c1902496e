"""What compiling yields: a Program, frozen data that the executor replays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from softcuda.backends.steps import Step, Unit
from softcuda.graph.lines import Graph
from softcuda.target import Target

__all__ = ["Choice", "Chosen", "Groups", "Place", "Program", "Rewrite"]


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

    `space` is "leaf", "constant", "output", "variable" (the target of an update), "arena", or
    "lent" (the buffer of an output that is written later); `at` is the leaf's position, the
    constant's or output's number, or the byte offset in the arena.
    """

    space: str
    at: int
    nbytes: int


class Rewrite(NamedTuple):
    """A pass's result: the new graph, and for each old line its new number or -1."""

    graph: Graph
    origin: tuple[int, ...]


class Chosen(NamedTuple):
    """A graph with a decision for each line, and each earlier line's new number."""

    graph: Graph
    choices: tuple[Choice, ...]
    origin: tuple[int, ...]


class Groups(NamedTuple):
    """A graph cut into units; each unit's lines in order, the last one its result."""

    units: tuple[Unit, ...]
    backend_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled graph: everything is decided, nothing is bound to memory yet.

    Attributes:
        graph: the lines after all rewriting.
        choices: the decision for each line.
        origin: for each traced line its number in `graph`.
        steps: in execution order; updates of variables come last.
        places: where each value lives, by line number; targets of updates are numbered behind
            the lines.
        leaf_lines: the line of each leaf, by position; -1 for a leaf that nothing reads.
        output_lines: the lines that own output buffers; each once.
        outputs: for each requested output its index in `output_lines`.
        updated: positions of the leaves that are variables this program writes.
        arena_bytes: size of the arena.
        peak_bytes: the most bytes of intermediates alive at once.
        block_bytes: block size of the pool that the arena comes from.
        target: what it was compiled for.
        profile: the profile's name as printed.
        footer: lines that end the printed table (modelled totals).
    """

    graph: Graph
    choices: tuple[Choice, ...]
    origin: tuple[int, ...]
    steps: tuple[Step, ...]
    places: dict[int, Place]
    leaf_lines: tuple[int, ...]
    output_lines: tuple[int, ...]
    outputs: tuple[int, ...]
    updated: tuple[int, ...]
    arena_bytes: int
    peak_bytes: int
    block_bytes: int
    target: Target
    profile: str
    footer: tuple[str, ...] = ()
