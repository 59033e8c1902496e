"""Levels of steps, and lifetimes under which steps of one level do not wait for memory."""

from __future__ import annotations

from made_steps import HERS, LEAF, OTHER, OUT, OUTSIDE, OWN, kernel

from softcuda.compiler.arena import Lifetime
from softcuda.compiler.levels import levels_of, parted


def test_levels() -> None:
    steps = [
        kernel([LEAF], [0]),
        kernel([0], [1]),
        kernel([0], [2]),
        kernel([LEAF, 2], [OWN]),
        kernel([1, OTHER], [OUT]),
        kernel([LEAF], [3]),
        kernel([OTHER, 3], [HERS]),
    ]
    assert levels_of(steps, OUTSIDE) == [1, 2, 2, 3, 3, 1, 4]


def test_memory_is_kept_from_steps_that_could_run_beside_its_users() -> None:
    """A branch of long steps hangs at each link of a chain, as weight gradients do."""
    depth, steps = 12, [kernel([LEAF], [0])]
    for link in range(1, depth):
        steps += [kernel([2 * link - 2], [2 * link]), kernel([2 * link - 2], [2 * link + 1])]
    levels = levels_of(steps, OUTSIDE)
    assert max(levels) == depth
    spans = {}
    for value in range(2 * depth):
        users = [
            number
            for number, step in enumerate(steps)
            if value in [operand.value for operand in (*step.inputs, *step.outputs)]
        ]
        if users:
            spans[value] = Lifetime(256, users[0], users[-1])
    longer = parted(spans, steps, levels)
    for value, (nbytes, first, last) in spans.items():
        assert longer[value][:2] == (nbytes, first) and longer[value].last >= last
        users = [k for k, step in enumerate(steps) if value in [x.value for x in step.inputs]]
        for step in range(longer[value].last + 1, len(steps)):
            assert all(levels[user] < levels[step] for user in users)
    chain = [kernel([k], [k + 1]) for k in range(6)]
    alone = {k: Lifetime(256, max(0, k - 1), min(k, 5)) for k in range(7)}
    assert parted(alone, chain, levels_of(chain, {})) == alone, "a chain needs no more memory"
