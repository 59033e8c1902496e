"""Profiles as large as a sweep of every op writes them: quick to load, and read as small ones."""

from __future__ import annotations

import copy
import cProfile
import pickle
import time

import pytest
from yardsticks import slowness

import softcuda as sc
from benchmarks.large_profile import large_profile
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.graph.trace import trace
from softcuda.profile.grammar import parse
from softcuda.profile.model import Profile
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import known_backends, work_ops
from softcuda.profile.writer import render

CALLS_A_LINE = 4  # of functions, built-in ones included
LOAD_AND_COMPILE_S = 0.045  # three times what a processor of its own may take


@pytest.fixture(scope="module")
def made() -> Profile:
    return large_profile("cuda")


@pytest.fixture(scope="module")
def text(made: Profile) -> bytes:
    return render(made).encode()


def load(text: bytes) -> Profile:
    return parse(text, "large.soft", work_ops(), known_backends())


def loose(text: bytes) -> bytes:
    """Return the same lines in another spelling, which is read one by one."""
    return text.replace(b" | ", b" |  ").replace(b"= host ", b"=  host ")


def calls(text: bytes) -> int:
    """Return how many functions reading a profile calls: a measure without a clock."""
    counted = cProfile.Profile()
    counted.enable()
    load(text)
    counted.disable()
    return sum(entry.callcount for entry in counted.getstats())


def test_loading_does_little_a_line(text: bytes) -> None:
    lines = text.count(b"\n")
    assert lines > 2000
    assert calls(text) < CALLS_A_LINE * lines < calls(loose(text))


def test_loading_and_compiling_is_quick(text: bytes) -> None:
    y = x = sc.input((64, 64))
    for turn in range(50):
        y = sc.exp(y) if turn % 2 else sc.tanh(y @ x)
    graph = trace([y, -y]).graph
    taken = []
    for _ in range(5):
        begin = time.thread_time()
        profile = load(text)
        compile_graph(graph, Settings(profile, default_profile(), profile.device.target))
        taken.append(time.thread_time() - begin)
    assert min(taken) < LOAD_AND_COMPILE_S * slowness()


def test_costs_are_the_same_whoever_reads_them(made: Profile, text: bytes) -> None:
    quick, slow = load(text), load(loose(text))
    assert len(quick.costs) == len(made.costs) > 1000
    for op, dtype in (("add", "f32"), ("matmul", "f64"), ("scatter_add", "f32")):
        for device in ("cpu", "cuda"):
            expected = made.cost_us(op, dtype, 777, device)
            assert expected and quick.cost_us(op, dtype, 777, device) == expected
            assert slow.cost_us(op, dtype, 777, device) == expected
    assert quick.costs == slow.costs and hash(quick.costs) == hash(slow.costs)
    assert quick == slow == made
    assert quick.thresholds == slow.thresholds and quick.rows == slow.rows


def test_costs_that_nobody_asked_for_travel(text: bytes) -> None:
    for twin in (pickle.loads(pickle.dumps(load(text))), copy.deepcopy(load(text))):
        assert twin == load(text)
        assert twin.costs[3] == load(text).costs[3] and repr(twin.costs) == repr(load(text).costs)


def test_compiled_graphs_are_shared_between_profiles_that_decide_alike(text: bytes) -> None:
    key = load(text).cache_key
    assert load(text).cache_key == key
    assert load(text.replace(b"= 2026-03-18T", b"= 2027-03-18T")).cache_key == key
    dearer = text.replace(b"| size = 1 = cpu ", b"| size = 1 = cpu 9", 1)
    assert load(dearer).costs != load(text).costs
    assert load(dearer).cache_key != key
