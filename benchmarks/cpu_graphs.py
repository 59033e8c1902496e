"""Suite cpu: what the engine itself costs: a step, a definition, a run, an evaluate."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case, Work, executable_contestant, run_work
from benchmarks.results import Check, Row, at_most
from benchmarks.timing import OURS, Contestant, Samples, Schedule
from benchmarks.tiny import (
    NODES,
    TinyGraph,
    straight_line,
    tiny_chain,
    tiny_fan,
    tiny_leaf,
    tiny_tree,
)

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]

UNIT = "np.add, 8 elements"
_BRIEF = Schedule(budget_s=1.5, sample_s=0.01, rounds=(15, 41))

RUNS = "A compiled graph of 1000 nodes of 8 f32, DEFAULT.soft"
DEFINES = "Defining a node, shapes equal"
CALLS = "One call of a small graph, DEFAULT.soft"


def _unit() -> Contestant:
    a = tiny_leaf(3)
    names = {"add": np.add, "a": a, "o": np.empty_like(a)}
    return Contestant(UNIT, "add(a, a, out=o)", names)


def _run_tiny(build: Callable[[], TinyGraph], judged: bool, name: str, bench: Bench) -> Row:
    """Time the run of a graph beside its NumPy calls; extra time a node in np.add calls."""
    tiny = build()
    program, buffers = straight_line(tiny, np.float32)
    exact, wide = straight_line(tiny, np.float64)
    exact()
    reference = np.concatenate([wide[key] for key in tiny.last])
    executable = sc.compile(tiny.outputs, "default")
    several = isinstance(tiny.outputs, list)

    def values() -> Array:
        found = executable.run()
        return np.concatenate([t.data for t in found]) if several else found.data.copy()

    def numpy_values() -> Array:
        program()
        return np.concatenate([buffers[key] for key in tiny.last])

    ours = executable_contestant(executable)
    if several:
        ours = Contestant(OURS, "run()", {"run": executable.run}, values)

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        extra = _extra_per_node(taken, len(tiny.calls))
        if extra is None:
            return [at_most(f"{name}: extra a node, in np.add calls", None, 0.3)]
        row.facts["extra a node, in np.add calls"] = extra
        row.facts["steps"] = len(executable.program.steps)
        return [at_most(f"{name}: extra a node, in np.add calls", extra, 0.3)] if judged else []

    calls = Contestant("NumPy calls", "program()", {"program": program}, numpy_values)
    work = Work(
        (ours, calls, _unit()),
        reference,
        tolerance("f32", steps=NODES),
        schedule=_BRIEF,
        checks=checks,
    )
    row = run_work(bench, RUNS, name, work)
    row.ratios.pop(UNIT, None)
    return row


def _extra_per_node(taken: dict[str, Samples], nodes: int) -> float | None:
    if OURS not in taken or "NumPy calls" not in taken:
        return None
    rounds = zip(
        taken[OURS].seconds, taken["NumPy calls"].seconds, taken[UNIT].seconds, strict=True
    )
    return statistics.median((run - bare) / nodes / unit for run, bare, unit in rounds)


def _define(statement: str, units: int, bound: float | None, name: str, bench: Bench) -> Row:
    """Time a definition, in np.add calls of 8 elements."""
    t, u = sc.tensor(tiny_leaf(1)), sc.tensor(tiny_leaf(2))
    m = sc.tensor(np.ones((8, 8), np.float32))

    def chain() -> Any:
        node = t
        for _ in range(units):
            node = node + node
        return node

    names = {"t": t, "u": u, "m": m, "sc": sc, "chain": chain}
    ours = Contestant(OURS, statement, names)

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        pairs = zip(taken[OURS].seconds, taken[UNIT].seconds, strict=True)
        cost = statistics.median(own / units / unit for own, unit in pairs)
        row.facts["np.add calls a node"] = cost
        return [] if bound is None else [at_most(f"{name}: np.add calls a node", cost, bound)]

    work = Work((ours, _unit()), schedule=_BRIEF, checks=checks)
    row = run_work(bench, DEFINES, name, work)
    row.ratios.clear()
    return row


def _call(statement: str, name: str, bench: Bench) -> Row:
    """Time one whole call of a small graph beside NumPy's expression."""
    a, b = tiny_leaf(1), tiny_leaf(2)
    t, u = sc.tensor(a), sc.tensor(b)
    x = sc.input((8,), sc.f32, name="x")
    scope = {
        "t": t,
        "u": u,
        "a": a,
        "b": b,
        "o": np.empty_like(a),
        "np": np,
        "sc": sc,
        "run": sc.compile(t + u, "default").run,
        "fed": sc.compile(x + u, "default").run,
        "feeds": {"x": a},
    }
    code = compile(statement, "<call>", "eval")
    ours = Contestant(OURS, statement, scope, lambda: np.array(eval(code, dict(scope))))
    numpy = Contestant("NumPy", "a + b", scope, lambda: a + b)
    reused = Contestant("NumPy out=", "np.add(a, b, out=o)", scope)
    reference = a.astype(np.float64) + b
    return run_work(
        bench,
        CALLS,
        name,
        Work((ours, numpy, reused), reference, tolerance("f32"), schedule=_BRIEF),
    )


CASES = (
    *(
        Case(RUNS, name, partial(_run_tiny, build, judged, name))
        for name, build, judged in (
            ("chain of add", partial(tiny_chain, False), True),
            ("chain of 8 different ops", partial(tiny_chain, True), True),
            ("tree of add, 500 wide", tiny_tree, True),
            ("1000 outputs", tiny_fan, False),
        )
    ),
    *(
        Case(DEFINES, name, partial(_define, statement, units, bound, name))
        for name, statement, units, bound in (
            ("t + t", "t + t", 1, 8.0),
            ("t = t + t, 1000 kept", "chain()", NODES, 8.0),
            ("t + u", "t + u", 1, 8.0),
            ("t * 2.0", "t * 2.0", 1, None),
            ("relu(t)", "sc.relu(t)", 1, None),
            ("sum(m, axis=0)", "sc.sum(m, axis=0)", 1, None),
            ("m @ m", "m @ m", 1, None),
            ("reshape", "sc.reshape(m, (4, 16))", 1, None),
        )
    ),
    *(
        Case(CALLS, name, partial(_call, statement, name))
        for name, statement in (
            ("executable.run(), one node", "run()"),
            ("executable.run(feeds), one node", "fed(feeds)"),
            ("(t + u).evaluate(), cached", "(t + u).evaluate()"),
            ("(t + u).numpy(), cached", "(t + u).numpy()"),
        )
    ),
)
