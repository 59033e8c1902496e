"""Cases: a row of a suite's table, and the one way in which contestants are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.machine import Machine, Peers, Rates, floor_of
from benchmarks.results import Check, Row
from benchmarks.timing import (
    OURS,
    Contestant,
    Samples,
    Schedule,
    Turns,
    ratios,
    take_turns,
    timings,
)

__all__ = ["Bench", "Case", "Work", "executable_contestant", "peer", "run_work"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """What every case may use: the machine, its rates, the peers."""

    machine: Machine
    rates: Rates
    peers: Peers


@dataclass(frozen=True, slots=True)
class Case:
    """One row: where it stands in the tables, and the function that measures it."""

    group: str
    name: str
    measure: Callable[[Bench], Row]


@dataclass(frozen=True, slots=True)
class Work:
    """Contestants that do the same work.

    Attributes:
        contestants: softcuda and its peers.
        reference: the right result, f64; None where there is nothing to compare.
        allowed: the relative error up to which a result is right.
        nbytes: bytes that must be read and written at least once; 0 for no floor.
        flops: floating point operations of the contraction.
        dtype: whose BLAS rate bounds the flops.
        schedule: how long to measure.
        checks: makes the numbers to reach from the samples.
        turns: takes the samples; by the clock of the host, if nothing else is said.
    """

    contestants: Sequence[Contestant]
    reference: Array | None = None
    allowed: float = 0.0
    nbytes: int = 0
    flops: int = 0
    dtype: str = "f32"
    schedule: Schedule = field(default_factory=Schedule)
    checks: Callable[[Row, dict[str, Samples]], list[Check]] | None = None
    turns: Turns = take_turns


def run_work(bench: Bench, group: str, name: str, work: Work) -> Row:
    """Return the measured row: correct first, then the time beside the floor and the peers."""
    row = Row(group, name)
    row.timings, taken = timings(
        work.contestants, work.schedule, work.reference, work.allowed, work.turns
    )
    row.ratios = ratios(taken)
    if work.nbytes or work.flops:
        row.floor = floor_of(bench.rates, work.nbytes, work.flops, work.dtype)
        ours = next((t for t in row.timings if t.name == OURS), None)
        if ours is not None and ours.us:
            row.fraction_of_floor = row.floor.us / ours.us
    if work.checks is not None:
        row.checks = work.checks(row, taken)
    return row


def executable_contestant(executable: Any, name: str = OURS) -> Contestant:
    """Return the contestant that runs a compiled graph of one output.

    Its output buffer is warm: a result is dropped before the next run, which then writes the
    same buffer.
    """

    def poison() -> None:
        out = executable.run().data
        if out.dtype.kind == "f":
            out.fill(np.nan)
        else:
            out.fill(-1)

    def value() -> Array:
        copied: Array = executable.run().data.copy()
        return copied

    return Contestant(
        name,
        "run()",
        {"run": executable.run},
        result=value,
        poison=poison,
    )


def peer(
    name: str,
    statement: str,
    names: dict[str, Any],
    *,
    absent: bool = False,
    result: Callable[[], Any] | None = None,
    poison: Callable[[], None] | None = None,
) -> Contestant:
    """Return a peer whose statement is an expression; by default that is also its result."""
    if absent:
        return Contestant(name, absent=True)
    code = compile(statement, f"<{name}>", "eval")
    return Contestant(name, statement, names, result or (lambda: eval(code, dict(names))), poison)
