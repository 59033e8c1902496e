"""Suite cpu: how long compiling takes, and how it grows with the graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.cases import Bench, Case
from benchmarks.large_profile import large_profile
from benchmarks.load_profile import load_times
from benchmarks.results import Row, Timing, at_most
from benchmarks.timing import Samples, timing_of
from benchmarks.tiny import MIX, tiny_leaf
from softcuda.profile.writer import render

__all__ = ["CASES"]

COMPILES = "Compiling a chain, DEFAULT.soft"
LOADS = "Loading a profile of a whole sweep and compiling 100 nodes with it"


def _elementwise_chain(nodes: int) -> Any:
    node, y = sc.tensor(tiny_leaf(1)), sc.tensor(tiny_leaf(2))
    for number in range(nodes):
        node = MIX[number % len(MIX)][0](node, y)
    return node


def _matmul_chain(nodes: int) -> Any:
    node = sc.tensor(np.eye(4, dtype=np.float32))
    w = sc.tensor(np.eye(4, dtype=np.float32))
    for number in range(nodes):
        node = sc.tanh(node) if number % 2 else node @ w
    return node


def _compile(build: Callable[[int], Any], sizes: Sequence[int], name: str, bench: Bench) -> Row:
    """Time sc.compile of chains of several lengths; a line of facts each."""
    row = Row(COMPILES, name)
    per_node: dict[int, float] = {}
    for nodes in sizes:
        graph = build(nodes)
        seconds = []
        for _ in range(3 if nodes <= 10_000 else 1):
            begin = time.perf_counter()
            executable = sc.compile(graph, "default")
            seconds.append(time.perf_counter() - begin)
        del executable
        us = statistics.median(seconds) * 1e6
        per_node[nodes] = us / nodes
        row.facts[f"us a node, {nodes}"] = us / nodes
        row.timings.append(
            Timing(f"{nodes} nodes", us, min(seconds) * 1e6, max(seconds) * 1e6, len(seconds), 1)
        )
        if nodes == 10_000:
            row.checks.append(at_most(f"{name}: 10 000 nodes compile in [s]", us / 1e6, 1.5))
        if nodes == 100_000:
            growth = per_node[nodes] / per_node[10_000]
            row.checks.append(
                at_most(f"{name}: time a node at 100 000 over that at 10 000", growth, 1.25)
            )
    return row


def _load(device: str, name: str, bench: Bench) -> Row:
    """Time reading a profile's file and compiling for its device, each apart."""
    row = Row(LOADS, name)
    text = render(large_profile(device)).encode()
    found = load_times(text, "large.soft")
    for part, seconds in (("load", found.loads), ("compile", found.compiles)):
        row.timings.append(timing_of(part, Samples(1, seconds)))
    row.facts["lines of the profile"] = float(text.count(b"\n"))
    row.facts["copies in the graph"] = float(found.copies)
    row.checks.append(at_most(f"{name}: load and compile [ms]", found.total_ms, 15.0))
    return row


CASES = (
    *(
        Case(COMPILES, name, partial(_compile, build, sizes, name))
        for name, build, sizes in (
            ("elementwise", _elementwise_chain, (1000, 10_000, 30_000, 100_000)),
            ("matmul and tanh by turns", _matmul_chain, (1000, 10_000)),
        )
    ),
    *(
        Case(LOADS, name, partial(_load, device, name))
        for device, name in (("cpu", "profile of a CPU"), ("cuda", "profile of a GPU"))
    ),
)
