"""Random graphs of all ops: the shipped profile, the reference alone, and a mixture of backends.

Each is compared, element by element, with NumPy in float64 and a bound on the rounding errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy_bounds import check
from random_graphs import random_graph
from random_nodes import Made, RandomGraph

from softcuda.backends import backends
from softcuda.graph.op import OPS, Kind
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile as compile_nodes

SEEDS = 200
META = {"soft_version": "0.1.0"}


def assigned(names: list[str]) -> Profile:
    rows = (Row(op, None, 0, None, name) for op, name in zip(work_ops(), names, strict=True))
    return Profile("fuzz.soft", META, DeviceFacts(), tuple(rows))


def profiles(seed: int) -> dict[str, Profile]:
    cpu = [name for name, module in backends().items() if module.DEVICE == "cpu"]
    rng = np.random.default_rng(seed)
    mixed = [cpu[int(k)] for k in rng.integers(len(cpu), size=len(work_ops()))]
    return {
        "the shipped profile": default_profile(),
        "cpu_fallback": assigned(["cpu_fallback"] * len(work_ops())),
        "mixed backends": assigned(mixed),
    }


def run_and_check(graph: RandomGraph, outputs: list[Made], profile: Profile, what: str) -> float:
    for variable, state in graph.states:
        variable.data[...] = state
    results = compile_nodes([made.node for made in outputs], profile).run()
    shares = []
    for place, (made, result) in enumerate(zip(outputs, results, strict=True)):
        label = f"{what}: output {place}, {made.node.op.name} {made.node.dims}"
        shares.append(check(result.data, made.known, label))
    return float(np.mean(shares))


@pytest.fixture(scope="module")
def met() -> dict[int, set[str]]:
    """Return what the graphs of this run were made of, by seed."""
    return {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graph(seed: int, met: dict[int, set[str]]) -> None:
    graph, outputs = random_graph(seed)
    met[seed] = {made.node.op.name for made in graph.made}
    here = f"pytest '{__file__}::test_random_graph[{seed}]'"
    for name, profile in profiles(seed).items():
        run_and_check(graph, outputs, profile, f"{here}: {name}")


def test_every_op_was_met(met: dict[int, set[str]]) -> None:
    if len(met) < SEEDS:
        return  # only some of the graphs were asked for
    known = {op.name for op in OPS.values() if op.kind not in (Kind.LEAF, Kind.TRANSFER)}
    assert known <= set().union(*met.values())


def test_the_bounds_say_something() -> None:
    shares = []
    for seed in range(1000, 1020):
        graph, outputs = random_graph(seed)
        shares.append(run_and_check(graph, outputs, default_profile(), f"seed {seed}"))
    assert np.mean(shares) > 0.9
