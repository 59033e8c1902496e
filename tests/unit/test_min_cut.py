"""The minimum cut of a placement, against every assignment of small graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise, product
from random import Random

import pytest
from yardsticks import slowness

from softcuda.compiler import cut_network
from softcuda.compiler.min_cut import (
    DEVICE_SIDE,
    HOST_SIDE,
    PricedNode,
    assignment,
    assignment_us,
)


def random_nodes(random: Random, count: int) -> list[PricedNode]:
    """Return nodes that may be fixed, on copies that may be shared."""
    readers: list[set[int]] = [set() for _ in range(count)]
    for node in range(1, count):
        for _ in range(random.choice((0, 1, 1, 2))):
            readers[random.randrange(node)].add(node)
    made = []
    for each in readers:
        if random.random() < 0.2:
            each.add(random.choice((HOST_SIDE, DEVICE_SIDE)))
        costs = [random.uniform(0, 10), random.uniform(0, 10)]
        if random.random() < 0.3:
            costs[random.randrange(2)] = math.inf
        h2d_us, d2h_us = random.uniform(0, 6), random.uniform(0, 6)
        made.append(PricedNode(costs[0], costs[1], h2d_us, d2h_us, tuple(sorted(each))))
    return made


def least(nodes: list[PricedNode]) -> float:
    """Return the least time over every assignment."""
    return min(assignment_us(nodes, each) for each in product((False, True), repeat=len(nodes)))


@pytest.mark.parametrize("seed", range(40))
def test_the_cut_is_the_least_of_all_assignments(seed: int) -> None:
    random = Random(seed)
    for count in range(1, 9):
        nodes = random_nodes(random, count)
        assert assignment_us(nodes, assignment(nodes)) == pytest.approx(least(nodes))


def test_a_tensor_is_copied_once_a_direction() -> None:
    readers = [PricedNode(9.0, 1.0, 0.0, 0.0, ()) for _ in range(3)]
    source = PricedNode(0.0, math.inf, 5.0, 5.0, (1, 2, 3))
    nodes = [source, *readers]
    assert assignment(nodes) == [False, True, True, True]
    assert assignment_us(nodes, assignment(nodes)) == 8.0
    dear = [source._replace(h2d_us=25.0), *readers]
    assert assignment(dear) == [False] * 4


def test_a_result_that_the_host_wants_pays_its_way_back() -> None:
    node = PricedNode(5.0, 1.0, 0.0, 3.0, (HOST_SIDE,))
    assert assignment([node]) == [True]
    assert assignment([node._replace(d2h_us=4.5)]) == [False]
    assert assignment([node._replace(d2h_us=9.0, readers=(DEVICE_SIDE,), h2d_us=0.5)]) == [True]


def test_a_long_chain_with_dear_copies_is_cut_where_its_halves_meet() -> None:
    count = 2000
    nodes = [
        PricedNode(*((1.0, 2.0) if k < count // 2 else (2.0, 1.0)), 300.0, 300.0,
                   (k + 1,) if k + 1 < count else ())
        for k in range(count)
    ]  # fmt: skip
    found = assignment(nodes)
    assert found == [k >= count // 2 for k in range(count)]


def test_no_nodes_have_no_assignment() -> None:
    assert assignment([]) == []


WITHIN = 2.0**-40  # what `assignment` promises


def wide_cost(random: Random, top: float) -> float:
    """Return a cost between 1e-2 and 10^top, or none."""
    return 0.0 if random.random() < 0.05 else 10 ** random.uniform(-2, top)


def wide_nodes(random: Random, count: int) -> list[PricedNode]:
    """Return nodes whose costs are of very different size."""
    top = random.choice((1, 3, 9, 30, 300))
    made = []
    for node in random_nodes(random, count):
        costs = [c if c == math.inf else wide_cost(random, top) for c in node[:2]]
        copies = [wide_cost(random, top) for _ in range(2)]
        made.append(PricedNode(costs[0], costs[1], copies[0], copies[1], node.readers))
    return made


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_costs_of_any_size_leave_the_cut_exact(
    seed: int, swept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if swept:
        monkeypatch.setattr(cut_network, "_SWEPT", (0, 1000))
    random = Random(seed)
    for count in range(1, 9):
        for nodes in (wide_nodes(random, count), random_nodes(random, count)):
            found = assignment_us(nodes, assignment(nodes))
            assert found <= least(nodes) * (1 + WITHIN)


@pytest.mark.parametrize("huge", [1e12, 1e15, 1e300, 1e308])
def test_one_huge_cost_hides_no_small_one(huge: float) -> None:
    shared = PricedNode(0.0, math.inf, 200.0, 200.0, (3,))
    reader = PricedNode(3000.0, 90.0, 20.0, 20.0, (HOST_SIDE,))
    nodes = [PricedNode(huge, 8.0, 1.0, 1.0, ()), shared, shared, reader]
    assert assignment_us(nodes, assignment(nodes)) == 518.0


def test_costs_whose_sum_overflows_are_told_apart() -> None:
    nodes = [
        PricedNode(1e308, 1.0, 1.0, 1.0, (1,)),
        PricedNode(1.0, 1e308, 1.0, 1.0, (2,)),
        PricedNode(1e308, 1.0, 1.0, 1.0, (3,)),
        PricedNode(5.0, 1.0, 0.1, 0.1, (HOST_SIDE,)),
    ]
    assert assignment(nodes) == [True, False, True, True]
    assert assignment_us(nodes, assignment(nodes)) == pytest.approx(6.1)


@pytest.mark.parametrize("cost", [5e-324, 1e-300, 1e-200])
def test_costs_next_to_nothing_are_taken(cost: float) -> None:
    nodes = [PricedNode(cost, 0.0, 0.0, 0.0, (1,)), PricedNode(0.0, cost, cost, 0.0, ())]
    assert assignment_us(nodes, assignment(nodes)) <= 2 * cost


def chain_least(nodes: list[PricedNode]) -> float:
    """Return the least time of a chain, node by node: an oracle for long ones."""
    least = [nodes[0].cpu_us, nodes[0].cuda_us]
    for before, node in pairwise(nodes):
        on_cpu = min(least[0], least[1] + before.d2h_us) + node.cpu_us
        on_cuda = min(least[1], least[0] + before.h2d_us) + node.cuda_us
        least = [on_cpu, on_cuda]
    return min(least)


@pytest.mark.parametrize("copy_us", [3.0, 300.0, 3000.0])
@pytest.mark.parametrize("seed", range(3))
def test_long_chains_are_cut_where_they_cost_least(seed: int, copy_us: float) -> None:
    random, count = Random(seed), 3000
    liked = [random.random() < 0.5 for _ in range(count // 300)]
    nodes = []
    for k in range(count):
        costs = [1 + random.random(), 1 + random.random()]
        costs[liked[k // 300]] += 1
        copies = copy_us * (0.5 + random.random()), copy_us * (0.5 + random.random())
        readers = (k + 1,) if k + 1 < count else ()
        nodes.append(PricedNode(costs[0], costs[1], copies[0], copies[1], readers))
    assert assignment_us(nodes, assignment(nodes)) == pytest.approx(chain_least(nodes))


LAYER, MANY = 100, 10_000


@pytest.mark.parametrize(
    "readers",
    [
        pytest.param(lambda k: range(k + 1, k + 2), id="chain"),
        pytest.param(lambda k: range(k + 1, k + 3), id="next-2"),
        pytest.param(lambda k: range(k + 1, k + 4), id="next-3"),
        pytest.param(
            lambda k: range((k // LAYER + 1) * LAYER, (k // LAYER + 2) * LAYER), id="layers"
        ),
    ],
)
@pytest.mark.parametrize("copy_us", [300.0, 3000.0, 1e4])
def test_ten_thousand_nodes_take_less_than_a_second(
    readers: Callable[[int], range], copy_us: float
) -> None:
    random = Random(0)
    nodes = []
    for k in range(MANY):
        costs = [1 + random.random() / 2, 1 + random.random() / 2]
        costs[k < MANY // 2] += 1
        read = tuple(r for r in readers(k) if r < MANY)
        nodes.append(PricedNode(costs[0], costs[1], copy_us, copy_us, read))
    started = time.process_time()
    found = assignment(nodes)
    taken = time.process_time() - started
    assert taken < slowness()
    ends = ([False] * MANY, [True] * MANY, [k >= MANY // 2 for k in range(MANY)])
    assert assignment_us(nodes, found) <= min(assignment_us(nodes, end) for end in ends)
