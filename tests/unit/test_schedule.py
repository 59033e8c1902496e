"""The order of units: topological, never worse than the given one, near the best."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcuda.compiler.schedule import most_alive, order
from softcuda.errors import ArgumentError


def alive_naive(sequence, inputs_of, bytes_of, roots):
    """Return the peak by asking at every step which results are still needed."""
    most = 0
    for step, unit in enumerate(sequence):
        needed = {unit}
        for made in sequence[:step]:
            read_later = any(made in inputs_of[u] for u in sequence[step:])
            if read_later or made in roots:
                needed.add(made)
        most = max(most, sum(bytes_of[u] for u in needed))
    return most


def is_topological(sequence, inputs_of):
    place = {unit: step for step, unit in enumerate(sequence)}
    return sorted(sequence) == list(range(len(inputs_of))) and all(
        place[source] < place[unit] for unit, inputs in enumerate(inputs_of) for source in inputs
    )


def draw(seed, count):
    r = random.Random(seed)
    inputs_of = [
        tuple(r.randrange(unit) for _ in range(r.randint(0, min(3, unit)))) for unit in range(count)
    ]
    bytes_of = [r.choice([0, 1, 4, 16, 100, 1000]) for _ in range(count)]
    roots = sorted({r.randrange(count), count - 1})
    return inputs_of, bytes_of, roots


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_orders_are_topological_and_no_worse_than_the_given_one(seed, count):
    inputs_of, bytes_of, roots = draw(seed, count)
    found = order(inputs_of, bytes_of, roots)
    assert is_topological(found, inputs_of)
    peak = most_alive(found, inputs_of, bytes_of, roots)
    assert peak == alive_naive(found, inputs_of, bytes_of, roots)
    assert peak <= most_alive(range(count), inputs_of, bytes_of, roots)
    assert found == order(inputs_of, bytes_of, roots)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40))
def test_units_in_any_numbering_are_ordered(seed, count):
    inputs_of, bytes_of, roots = draw(seed, count)
    new = random.Random(seed).sample(range(count), count)
    renamed = [()] * count
    sizes = [0] * count
    for unit, inputs in enumerate(inputs_of):
        renamed[new[unit]] = tuple(new[source] for source in inputs)
        sizes[new[unit]] = bytes_of[unit]
    found = order(renamed, sizes, [new[root] for root in roots])
    assert is_topological(found, renamed)


def test_most_small_graphs_get_the_best_order():
    reached = 0
    for seed in range(60):
        inputs_of, bytes_of, roots = draw(seed, 7)
        legal = [s for s in itertools.permutations(range(7)) if is_topological(s, inputs_of)]
        best = min(most_alive(s, inputs_of, bytes_of, roots) for s in legal)
        found = most_alive(order(inputs_of, bytes_of, roots), inputs_of, bytes_of, roots)
        reached += found == best
    assert reached >= 54


def test_a_tree_of_sums_needs_the_depth_not_the_width():
    """Leaves first would hold all 64 of them."""
    inputs_of = [()] * 64
    level = list(range(64))
    while len(level) > 1:
        inputs_of += list(zip(level[::2], level[1::2], strict=True))
        level = list(range(len(inputs_of) - len(level) // 2, len(inputs_of)))
    sizes = [100] * len(inputs_of)
    found = order(inputs_of, sizes, level)
    assert most_alive(found, inputs_of, sizes, level) == 800


def test_the_needier_operand_comes_first():
    # 2 reads a large result and leaves a small one: it should be done before 1 is made.
    inputs_of = [(), (), (0,), (1, 2)]
    sizes = [1000, 900, 1, 1]
    assert order(inputs_of, sizes, [3]) == (0, 2, 1, 3)


def test_ties_keep_the_given_order():
    inputs_of = [(), (), (), (0, 1, 2)]
    assert order(inputs_of, [4, 4, 4, 4], [3]) == (0, 1, 2, 3)
    assert order([(), (0,), (1,)], [8, 8, 8], [2]) == (0, 1, 2)


def test_nothing_and_units_without_readers():
    assert order([], [], []) == ()
    assert order([(), ()], [8, 8], [1]) == (0, 1)


@pytest.mark.parametrize(
    ("inputs_of", "sizes", "roots", "says"),
    [
        ([(1,), (0,)], [1, 1], [1], "2 units wait for each other in a circle"),
        ([(0,)], [1], [0], "1 units wait for each other in a circle"),
        ([(), (2,)], [1, 1], [1], "unit 1 reads unit 2; allowed are 0 to 1"),
        ([()], [1], [3], "a root is unit 3; allowed are 0 to 0"),
        ([()], [1, 2], [0], "1 units but 2 sizes"),
    ],
)
def test_errors_name_the_unit(inputs_of, sizes, roots, says):
    with pytest.raises(ArgumentError, match=says):
        order(inputs_of, sizes, roots)


def test_a_hundred_thousand_units_in_a_row_and_at_random():
    count = 100_000
    r = random.Random(3)
    chain = [(unit - 1,) if unit else () for unit in range(count)]
    mixed = [
        tuple({max(0, unit - r.randint(1, 50)) for _ in range(2)}) if unit else ()
        for unit in range(count)
    ]
    start = time.process_time()
    assert order(chain, [8] * count, [count - 1]) == tuple(range(count))
    found = order(mixed, [r.choice([8, 64, 4096]) for _ in range(count)], [count - 1])
    assert time.process_time() - start < 8
    assert is_topological(found, mixed)
