"""Orders of pairs: the exact search, cotengrust's, and those that the user brings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from softcuda.contraction.equation import Equation, equation_of
from softcuda.contraction.network import Network, Tree, depth_first, raw_steps
from softcuda.contraction.optimal import optimal
from softcuda.contraction.path import ContractionPath
from softcuda.contraction.planning import find_path
from softcuda.contraction.slicing import Storage


def network_of(text: str, **extents: int) -> Network:
    left, _, out = text.partition("->")
    terms = left.split(",")
    letters = sorted(set(left) - {","})
    number = {letter: place for place, letter in enumerate(letters)}
    return Network(
        tuple(frozenset(number[x] for x in term) for term in terms),
        frozenset(number[x] for x in out),
        tuple(extents.get(letter, 3) for letter in letters),
    )


def flops_and_elements(network: Network, tree: Tree) -> tuple[int, int]:
    """Return the operations of the pairs and the elements between them, as the search counts."""
    steps = [step for step in raw_steps(network, tree) if len(step.inputs) == 2]
    flops = sum(step.flops(network.numel(step.involved)) for step in steps)
    return flops, sum(network.numel(step.output) for step in steps)


def all_trees(count: int) -> Iterator[Tree]:
    """Yield every order of pairs of `count` operands."""

    def pairs(values: tuple[int, ...], new: int) -> Iterator[Tree]:
        if len(values) == 1:
            yield ()
        for a, b in itertools.combinations(values, 2):
            rest = (*(v for v in values if v not in (a, b)), new)
            for later in pairs(rest, new + 1):
                yield ((a, b), *later)

    return pairs(tuple(range(count)), count)


def random_network(rng: np.random.Generator, count: int) -> Network:
    extents = tuple(int(e) for e in rng.integers(2, 9, 7))
    terms = [frozenset(int(x) for x in rng.integers(0, 7, 3)) for _ in range(count)]
    output = frozenset(x for x in range(7) if any(x in term for term in terms) and x % 3 == 0)
    return Network(tuple(terms), output, extents)


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_search_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3 + seed % 3)
    tree = optimal(network)
    assert tree is not None
    costs = [flops_and_elements(network, each) for each in all_trees(len(network.terms))]
    assert flops_and_elements(network, tree) == min(costs)


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_search_meets_a_limit_where_an_order_does(seed: int) -> None:
    network = random_network(np.random.default_rng(seed), 4)
    largest = {}
    for tree in all_trees(4):
        pairs = [step for step in raw_steps(network, tree) if len(step.inputs) == 2]
        size = max(network.numel(step.output) for step in pairs[:-1])
        cost = flops_and_elements(network, tree)
        largest[size] = min(cost, largest.get(size, cost))
    for limit in (*largest, min(largest) - 1):
        found = optimal(network, limit)
        allowed = [cost for size, cost in largest.items() if size <= limit]
        if not allowed:
            assert found is None
        else:
            assert found is not None
            assert flops_and_elements(network, found) == min(allowed)


def test_an_outer_product_is_taken_where_it_is_cheapest() -> None:
    network = network_of("i,j,ijk->k", i=2, j=2, k=90)
    assert optimal(network) == ((0, 1), (2, 3))


def test_equal_operations_take_the_smaller_intermediate() -> None:
    network = network_of("a,ab,b->", a=2, b=2)
    tree = optimal(network)
    assert tree is not None
    assert flops_and_elements(network, tree)[1] == 3


def test_a_label_of_many_operands_is_kept_until_its_last() -> None:
    steps = raw_steps(network_of("ha,hb,hab->", a=2, b=2, h=5), ((0, 2), (1, 3)))
    assert [len(step.output) for step in steps] == [2, 0]


def test_labels_of_one_operand_are_summed_first() -> None:
    steps = raw_steps(network_of("ax,ab,by->b"), ((0, 1), (2, 3)))
    assert [step.inputs for step in steps] == [(0,), (3, 1), (2,), (4, 5)]
    assert [len(step.output) for step in steps] == [1, 1, 1, 1]


def test_depth_first_keeps_less_alive() -> None:
    chain = network_of("ab,bc,cd,de,ef,fg,gh,hi->ai")
    wide = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13))
    order = depth_first(chain, wide)
    assert flops_and_elements(chain, order) == flops_and_elements(chain, wide)
    assert order == ((0, 1), (2, 3), (8, 9), (4, 5), (6, 7), (11, 12), (10, 13))
    assert depth_first(chain, ()) == ()


# ---- through find_path -------------------------------------------------------------------------


def path_of(equation: Equation, extent: int = 3, **options: Any) -> ContractionPath:
    shapes = [(extent,) * len(labels) for labels in equation.inputs]
    return find_path(equation, shapes, Storage((8,) * len(shapes), 8, 8), **options)


def grid(side: int) -> Equation:
    """Return a square network: an operand a crossing, a label an edge."""
    places = list(itertools.product(range(side), repeat=2))
    edges = [((i, j), (i + 1, j)) for i, j in places if i + 1 < side]
    edges += [((i, j), (i, j + 1)) for i, j in places if j + 1 < side]
    return equation_of([[edge for edge in edges if place in edge] for place in places], [])


def test_many_operands_take_the_better_of_two_searches() -> None:
    equation = grid(4)
    auto, greedy, random_greedy = (
        path_of(equation, optimize=name) for name in ("auto", "greedy", "random-greedy")
    )
    assert auto.flops == min(greedy.flops, random_greedy.flops)
    assert auto.found_by in ("greedy", "random-greedy")
    assert path_of(equation, optimize="optimal").flops <= auto.flops
    assert path_of(equation, optimize="left-to-right").flops > auto.flops


def test_paths_are_the_same_every_time() -> None:
    # Limits that do not bind are different keys of the cache.
    first, *others = (path_of(grid(4), memory_limit=limit) for limit in (10**9, 10**9 + 1, 10**8))
    assert all(path is not first and path == first for path in others)


def test_disconnected_operands_are_joined() -> None:
    parts = [[(part, k), (part, k + 1)] for part in range(4) for k in range(3)]
    path = path_of(equation_of(parts, []))
    assert path.result == ()
    assert len(path.tree) == 11
