"""The arena plan: no overlap, alignment, and close to the most bytes alive at once."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcuda.compiler.arena import Lifetime, plan
from softcuda.compiler.arena_fit import PaddedLifetime, best_fit, two_ended
from softcuda.compiler.arena_search import OrderSearch, alive_together
from softcuda.errors import ArgumentError


def overlaps(values, offsets):
    """Return every pair that is alive together and shares a byte, by comparing all pairs."""
    found = []
    for i, (a, at) in enumerate(zip(values, offsets, strict=True)):
        for j in range(i):
            b, bt = values[j], offsets[j]
            together = a.first <= b.last and b.first <= a.last
            if together and at < bt + b.nbytes and bt < at + a.nbytes:
                found.append((j, i))
    return found


def alive_bytes(values):
    steps = {v.first for v in values}
    return max((sum(v.nbytes for v in values if v.first <= s <= v.last) for s in steps), default=0)


def check(values, ratio=None):
    made = plan(values)
    assert not overlaps(values, made.offsets)
    assert made.peak_bytes == alive_bytes(values)
    for value, offset in zip(values, made.offsets, strict=True):
        assert offset >= 0
        assert offset % (256 if value.nbytes >= 2560 else 16) == 0
        assert offset + value.nbytes <= made.total_bytes or not value.nbytes
    if ratio is not None:
        assert made.total_bytes <= ratio * made.peak_bytes
    return made


SIZES = {
    "any": lambda r: r.randint(160, 100_000),
    "steps": lambda r: 2560 * r.randint(1, 4),
    "powers": lambda r: 2560 << r.randrange(10),
    "log": lambda r: int(2560 * 10 ** r.uniform(0, 4)),
    "primes": lambda r: 10240 * r.choice([5, 7, 11, 13]),
}


def lifetime(r, shape, i, count):
    """Return first and last step of value i of a graph of the given shape."""
    if shape == "chain":
        return i, i + 1
    if shape == "residual":
        return i, i + 1 if r.random() < 0.7 else r.randint(i, count)
    if shape == "backward":
        return i, 2 * count - i if r.random() < 0.3 else i + r.randint(0, 2)
    if shape == "dag":
        return i, i + r.randint(1, 10)
    if shape == "short":
        first = r.randrange(count)
        return first, first + int(r.expovariate(1 / 5))
    first = r.randrange(count)
    return first, r.randint(first, count)


SHAPES = ("chain", "residual", "backward", "dag", "short", "random")


def draw(seed, count, shape, sizes):
    r = random.Random(seed)
    return [Lifetime(SIZES[sizes](r), *lifetime(r, shape, i, count)) for i in range(count)]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32),
    st.one_of(st.integers(3, 12), st.integers(3, 300)),
    st.sampled_from(SHAPES),
    st.sampled_from(sorted(SIZES)),
)
def test_total_stays_within_a_tenth_of_the_peak(seed, count, shape, sizes):
    check(draw(seed, count, shape, sizes), 1.1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 12), st.integers(0, 12)), max_size=20)
)
def test_no_two_values_alive_together_overlap(drawn):
    check([Lifetime(nbytes, first, first + more) for nbytes, first, more in drawn])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 200), st.integers(0, 12), st.integers(0, 12), st.booleans()),
        min_size=1,
        max_size=25,
    ),
    st.integers(0, 99),
)
def test_every_strategy_alone_gives_a_plan(drawn, seed):
    blocks = [
        PaddedLifetime(size * (256 if wide else 16), first, first + more, 256 if wide else 16)
        for size, first, more, wide in drawn
    ]
    values = [Lifetime(b.size, b.first, b.last) for b in blocks]
    together = alive_together(blocks, 10**9)
    search = OrderSearch(blocks, together)
    order = random.Random(seed).sample(range(len(blocks)), len(blocks))
    plans = [best_fit(blocks), two_ended(blocks, alive_bytes(values)), search.place(order)]
    plans += [search.repair() for _ in range(10)]
    for offsets in plans:
        assert not overlaps(values, offsets)
        assert all(o % b.alignment == 0 for o, b in zip(offsets, blocks, strict=True))


def test_a_repaired_order_gives_the_same_offsets_as_placing_it_anew():
    values = draw(5, 60, "random", "any")
    blocks = [PaddedLifetime(v.nbytes + -v.nbytes % 256, v.first, v.last, 256) for v in values]
    together = alive_together(blocks, 10**9)
    search = OrderSearch(blocks, together)
    search.place(range(60))
    for _ in range(100):
        offsets = search.repair()
        fresh = OrderSearch(blocks, together)
        assert fresh.place(search._order) == offsets


def test_three_values_in_a_row_need_two_places():
    values = [Lifetime(4096, i, i + 1) for i in range(3)]
    assert plan(values).offsets == (0, 4096, 0)
    assert plan(values).total_bytes == 8192


def test_a_plan_that_no_greedy_order_finds():
    """One value alive throughout, and a chain that must alternate between two sides."""
    chain = [37274, 41724, 28957, 29840, 35667]
    values = [Lifetime(26097, 0, 6)]
    values += [Lifetime(nbytes, i + 1, i + 2) for i, nbytes in enumerate(chain)]
    check(values, 1.02)


def test_nothing_and_empty_values_need_nothing():
    assert plan([]).total_bytes == 0
    made = plan([Lifetime(0, 3, 5), Lifetime(0, 0, 9)])
    assert (made.offsets, made.total_bytes, made.peak_bytes) == ((0, 0), 0, 0)


def test_a_single_value():
    assert plan([Lifetime(5000, 2, 2)]).offsets == (0,)
    assert plan([Lifetime(1, -3, 2)]).total_bytes == 16


def test_the_same_values_give_the_same_plan():
    values = draw(11, 200, "random", "any")
    assert plan(values) == plan(list(values))


@pytest.mark.parametrize("value", [Lifetime(-1, 0, 1), Lifetime(4, 3, 2)])
def test_a_wrong_lifetime_is_named(value):
    with pytest.raises(ArgumentError, match=r"value 1 has .* allowed are"):
        plan([Lifetime(4, 0, 0), value])


@pytest.mark.parametrize("shape", ["chain", "backward", "dag"])
def test_many_values_grow_about_linearly(shape):
    small, large = draw(1, 2_000, shape, "log"), draw(1, 20_000, shape, "log")
    start = time.process_time()
    assert plan(small).total_bytes <= 1.1 * plan(small).peak_bytes
    middle = time.process_time()
    made = plan(large)
    end = time.process_time()
    assert made.total_bytes <= 1.1 * made.peak_bytes
    assert end - middle < 40 * (middle - start) + 0.1
