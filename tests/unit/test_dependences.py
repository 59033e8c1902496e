"""Dependences of steps: every two that share bytes are ordered, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from made_steps import (
    HERS,
    ITEM,
    LEAF,
    OTHER,
    OUT,
    OUTSIDE,
    OWN,
    Made,
    arena,
    copy,
    kernel,
    window,
)

from softcuda.backends.steps import Operand, Step
from softcuda.compiler.dependences import reduced
from softcuda.compiler.program import Place


def test_a_diamond() -> None:
    steps = [kernel([LEAF], [0]), kernel([0], [1]), kernel([0], [2]), kernel([1, 2], [OUT])]
    made = Made(steps, arena(0, 256, 512) | OUTSIDE)
    assert made.edges() == {0: (), 1: (0,), 2: (0,), 3: (1, 2)}


def test_a_chain_stays_a_chain_though_its_memory_is_used_again() -> None:
    steps = [kernel([LEAF], [0]), kernel([0], [1]), kernel([1], [2]), kernel([2], [3])]
    made = Made(steps, arena(0, 256, 0, 256) | OUTSIDE)
    assert made.edges() == {0: (), 1: (0,), 2: (1,), 3: (2,)}


def test_who_takes_the_memory_of_a_value_waits_for_its_readers() -> None:
    steps = [kernel([LEAF], [0]), kernel([0], [OUT]), kernel([LEAF], [1])]
    assert Made(steps, arena(0, 512) | OUTSIDE).edges()[2] == ()
    assert Made(steps, arena(0, 0) | OUTSIDE).edges()[2] == (1,)
    assert Made(steps, arena(0, 252) | OUTSIDE).edges()[2] == (1,), "one element in common"


def test_a_value_that_nobody_reads_is_written_first() -> None:
    steps = [kernel([LEAF], [0]), kernel([LEAF], [1])]
    assert Made(steps, arena(0, 128) | OUTSIDE).edges() == {0: (), 1: (0,)}


def test_scratch_is_memory_too() -> None:
    steps = [kernel([LEAF], [0], 256), kernel([LEAF], [1], 256)]
    places = arena(0, 256) | OUTSIDE | {~0: Place("arena", 512, 256, "cuda")}
    apart = places | {~1: Place("arena", 768, 256, "cuda")}
    assert Made(steps, apart).edges()[1] == ()
    shared = places | {~1: Place("arena", 640, 256, "cuda")}
    assert Made(steps, shared).edges()[1] == (0,)


def test_a_variable_is_written_behind_all_that_read_it() -> None:
    steps = [
        kernel([LEAF], [0]),
        kernel([LEAF, OTHER], [1]),
        kernel([OTHER], [2]),
        kernel([LEAF, 0], [OWN]),  # over what it reads
        kernel([OWN], [OUT]),
    ]
    edges = Made(steps, arena(0, 256, 512) | OUTSIDE).edges()
    assert edges == {0: (), 1: (), 2: (), 3: (0, 1), 4: (3,)}


def test_copies_to_variables_come_behind_all_that_read_leaves() -> None:
    """A caller may feed the variable's buffer to any leaf."""
    steps = [
        kernel([], [0]),
        kernel([OTHER], [1]),
        kernel([LEAF], [2]),
        copy(0, OWN),
        copy(1, HERS),
    ]
    edges = Made(steps, arena(0, 256, 512) | OUTSIDE).edges()
    assert edges == {0: (), 1: (), 2: (), 3: (0, 1, 2), 4: (3,)}


def test_windows_of_one_value() -> None:
    """Halves are written side by side; every other element lies among the rest."""
    halves = [kernel([LEAF], [window(0, 32)]), kernel([LEAF], [window(0, 32, 32)])]
    whole = [*halves, kernel([0], [OUT])]
    assert Made(whole, arena(0) | OUTSIDE).edges() == {0: (), 1: (), 2: (0, 1)}
    backward = [*halves, kernel([window(0, 16, 15, -1)], [OUT])]
    assert Made(backward, arena(0) | OUTSIDE).edges()[2] == (0,)
    strided = [*halves, kernel([window(0, 17, 0, 2)], [OUT])]
    assert Made(strided, arena(0) | OUTSIDE).edges()[2] == (0, 1)


def test_the_first_step_that_reports_is_the_one_that_is_named() -> None:
    steps = [kernel([LEAF], [k], reports=k != 1) for k in range(3)]
    assert Made(steps, arena(0, 256, 512) | OUTSIDE).edges() == {0: (), 1: (), 2: (0,)}


def test_a_value_lent_to_an_output_lies_in_its_buffer() -> None:
    places = {0: Place("lent", 0, 256, "cuda")} | arena()
    steps = [kernel([LEAF], [0]), kernel([0], [HERS]), kernel([LEAF], [OUT])]
    assert Made(steps, places | OUTSIDE).edges()[2] == (1,)


def test_what_the_host_holds_and_numbers_order_nothing() -> None:
    places = arena(0, 256) | {7: Place("arena", 0, 256, "cpu"), 8: Place("constant", 0, 4)}
    bring = Step("transfer", "h2d", (window(7),), (window(0),))
    steps = [bring, kernel([8], [1]), kernel([0, 8], [OUT])]
    assert Made(steps, places | OUTSIDE).edges() == {0: (), 1: (), 2: (0,)}


def test_steps_without_work_are_left_out() -> None:
    nothing = Step("cuda_naive", "nothing", (window(0, 0),), (window(1, 0),))
    steps = [kernel([LEAF], [0]), nothing, kernel([0], [OUT])]
    assert Made(steps, arena(0, 256) | OUTSIDE).edges() == {0: (), 2: (0,)}


def test_edges_are_few_where_many_read_and_many_write() -> None:
    """What is written over one value that many read waits for the first that was."""
    count = 200
    value = {0: Place("arena", 0, count * 256, "cuda")}
    sums = {k: Place("arena", (count + k) * 256, 256, "cuda") for k in range(1, count + 1)}
    small = {count + k: Place("arena", (k - 1) * 256, 256, "cuda") for k in range(1, count + 1)}
    whole = window(0, count * 64)
    steps = [kernel([LEAF], [whole])]
    steps += [kernel([whole], [k]) for k in range(1, count + 1)]
    steps += [kernel([k], [count + k]) for k in range(1, count + 1)]
    edges = Made(steps, value | sums | small | OUTSIDE).edges()
    assert sum(map(len, edges.values())) <= 4 * count


# ---- all pairs -----------------------------------------------------------------------------------


def accesses(number: int, step: Step, places: dict[int, Place]) -> Iterator[tuple[object, bool]]:
    """Yield every byte that a step touches, and whether it writes it."""
    for operands, writes in ((step.inputs, False), (step.outputs, True)):
        for operand in operands:
            place = places[operand.value]
            if place.space in ("leaf", "variable"):
                yield ("leaf", place.at), writes
                continue
            ((count,), (stride,)) = operand.dims, operand.strides
            first = operand.offset + min(0, (count - 1) * stride)
            last = operand.offset + max(0, (count - 1) * stride)
            at = place.at if place.space == "arena" else 0
            space = place.space if place.space == "arena" else f"output {place.at}"
            for byte in range(at + ITEM * first, at + ITEM * (last + 1)):
                yield (space, byte), writes
    if step.scratch_bytes:
        place = places[~number]
        for byte in range(place.at, place.at + place.nbytes):
            yield ("arena", byte), True


def hazards(made: Made) -> set[tuple[int, int]]:
    """Return every pair of steps of which one writes what the other touches.

    A copy to a variable may write what any reader of a leaf reads.
    """
    readers = {
        number
        for number, step in enumerate(made.steps)
        if any(made.places[operand.value].space == "leaf" for operand in step.inputs)
    }
    touched = [dict[object, bool]() for _ in made.steps]
    for number, step in enumerate(made.steps):
        for byte, writes in accesses(number, step, made.places):
            touched[number][byte] = touched[number].get(byte, False) or writes
    found = set()
    for late in range(len(touched)):
        for early in range(late):
            common = touched[early].keys() & touched[late].keys()
            is_fed = made.steps[late].kernel == "d2d" and early in readers
            if is_fed or any(touched[early][byte] or touched[late][byte] for byte in common):
                found.add((early, late))
    return found


def closed(edges: dict[int, tuple[int, ...]]) -> set[tuple[int, int]]:
    """Return every pair of steps that the edges order."""
    ancestors: dict[int, set[int]] = {}
    for number, before in edges.items():
        ancestors[number] = set(before).union(*[ancestors[other] for other in before])
    return {(early, late) for late, found in ancestors.items() for early in found}


def closure(pairs: set[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    return closed({k: tuple(a for a, b in pairs if b == k) for k in range(count)})


def random_program(seed: int, count: int = 40) -> Made:
    """Return steps that read and write windows anywhere in a small arena, and leaves."""
    rng = np.random.default_rng(seed)
    places = dict(OUTSIDE)
    steps = []
    for number in range(count):
        value = 2 * number
        room = int(rng.integers(1, 24))
        places[value] = Place("arena", ITEM * int(rng.integers(0, 200)), ITEM * room, "cuda")
        stride = int(rng.choice([-1, 1, 2]))
        long = room if abs(stride) == 1 else (room + 1) // 2
        into = window(value, long, room - 1 if stride < 0 else 0, stride)
        reads: list[Operand | int] = []
        for _ in range(int(rng.integers(0, 3))):
            known = int(rng.integers(0, number)) * 2 if number else LEAF
            reads.append(window(known, 1 + int(rng.integers(0, 3))) if number else LEAF)
        if rng.random() < 0.3:
            reads.append(int(rng.choice([LEAF, OTHER])))
        writes: list[Operand | int] = [into]
        if rng.random() < 0.1:
            writes = [int(rng.choice([OWN, HERS]))]
        scratch = ITEM * int(rng.integers(1, 8)) if rng.random() < 0.2 else 0
        if scratch:
            places[~number] = Place("arena", ITEM * int(rng.integers(0, 200)), scratch, "cuda")
        steps.append(kernel(reads, writes, scratch))
    places |= {1: Place("arena", 0, 256, "cuda")}
    steps += [copy(1, OWN), copy(1, HERS), copy(1, OWN)]
    return Made(steps, places)


@pytest.mark.parametrize("seed", range(20))
def test_every_hazard_is_ordered_and_nothing_else(seed: int) -> None:
    made = random_program(seed)
    needed = hazards(made)
    edges = made.edges()
    ordered = closed(edges)
    copies = range(len(made.steps) - 3, len(made.steps))
    assert needed <= ordered
    more = ordered - closure(needed, len(made.steps))
    assert all(late in copies for _, late in more), "only copies wait for a copy"
    for number, before in edges.items():
        for other in before:
            rest = {**edges, number: tuple(x for x in before if x != other)}
            assert (other, number) not in closed(rest), "an edge that others make needless"


def test_the_reduction_is_exact_only_so_far_back_but_right_everywhere() -> None:
    count = 8192 + 50
    before = [{k - 1, max(0, k - 3), 0} if k else set[int]() for k in range(count)]
    found = reduced(before)
    assert found[100] == [99]
    assert all(each[-1] == k - 1 for k, each in enumerate(found) if k)
    assert all(set(each) <= {0, k - 1} for k, each in enumerate(found))
