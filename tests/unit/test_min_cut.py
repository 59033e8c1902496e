"""The minimum cut of a placement, against every assignment of small graphs."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import pytest

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
