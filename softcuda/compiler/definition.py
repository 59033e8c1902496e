"""What an executable was compiled from: the graph as it was defined, the profiles that decided."""

from __future__ import annotations

from typing import NamedTuple

from softcuda.compiler.program import Program
from softcuda.graph.lines import Graph
from softcuda.graph.op import OPS, Kind, Op
from softcuda.profile.model import Profile

__all__ = ["Definition", "Maker", "deciding_rows", "makers"]


class Definition(NamedTuple):
    """What it takes to compile the executable again.

    Attributes:
        graph: the graph before any pass.
        profiles: those whose rows chose the backends.
        strict: as in `compile`.
        recompute: as in `compile`.
    """

    graph: Graph
    profiles: tuple[Profile, ...]
    strict: bool = False
    recompute: bool = False


class Maker(NamedTuple):
    """The op of an output as it was defined, and the backend that it was given; None for a leaf."""

    op: Op
    backend_id: str | None


_UNMADE = Maker(OPS["none"], None)


def makers(graph: Graph, program: Program) -> tuple[Maker, ...]:
    """Return what makes each output of a graph, by the program that was compiled from it."""
    found = []
    for number in graph.outputs:
        op, line = graph.lines[number].op, program.origin[number]
        chosen = "folded" if line < 0 else program.choices[line].backend_id
        found.append(_UNMADE if op.kind is Kind.LEAF else Maker(op, chosen))
    return tuple(found)


def deciding_rows(program: Program, profiles: tuple[Profile, ...]) -> tuple[Profile, ...]:
    """Return the profiles with the rows alone that decided something in a program."""
    labels = {choice.reason.partition(" (no row in ")[0] for choice in program.choices}
    found = []
    for profile in dict.fromkeys(profiles):
        rows = tuple(row for row in profile.rows if profile.label(row) in labels)
        if rows:
            meta = {"soft_version": profile.meta["soft_version"]}
            found.append(Profile(profile.name, meta, profile.device, rows))
    return tuple(found)
